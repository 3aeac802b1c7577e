/* kit.h: shared parts of the checks: one NIC, memory, and queue pairs connected to each other. */
#ifndef KIT_H
#define KIT_H

#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define CHECK(x)                                                                                               \
	do {                                                                                                   \
		if (!(x)) {                                                                                    \
			fprintf(stderr, "%s:%d: %s (errno %d: %s)\n", __FILE__, __LINE__, #x, errno, strerror(errno)); \
			exit(1);                                                                               \
		}                                                                                              \
	} while (0)

/* EQUAL is CHECK for numbers, and prints them; what is a text that describes them. */
#define EQUAL(what, got, want)                                                                                     \
	do {                                                                                                       \
		long long g = (got), w = (want);                                                                   \
		if (g != w) {                                                                                      \
			fprintf(stderr, "%s:%d: %s: %s is %lld, not %lld (%s)\n", __FILE__, __LINE__, what, #got, g, w, #want); \
			exit(1);                                                                                   \
		}                                                                                                  \
	} while (0)

/* FAILS checks that a call returns -1 with an errno. */
#define FAILS(call, error)                         \
	do {                                       \
		errno = 0;                         \
		EQUAL(#call, (call), -1);          \
		EQUAL(#call, errno, error);        \
	} while (0)

#define SIZE (256 * 1024)
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

extern struct ibv_context *ctx;
extern struct ibv_pd *pd;
extern struct ibv_comp_channel *channel;
extern struct ibv_cq *cq;
extern char *mem;
extern struct ibv_mr *mr;

/* start opens the NIC and makes all of these. */
void start(void);

struct ibv_qp *new_qp(struct ibv_cq *to, struct ibv_srq *srq, int depth);

/* Parameters for connecting queue pairs: connect_qp uses ALL, 7 and 7. */
struct how {
	int access, retries, rnr_retries;
};
void connect_with(struct ibv_qp *a, struct ibv_qp *b, struct how how);
void connect_qp(struct ibv_qp *a, struct ibv_qp *b);

/* itself returns the address of the NIC itself. */
struct ibv_ah_attr itself(void);

/* pair makes two queue pairs that are connected to each other. */
void pair(struct ibv_qp **a, struct ibv_qp **b, int depth);

/* ready brings a UD queue pair to RTS, with Q_Key 7. */
void ready(struct ibv_qp *qp);

/*
 * datagrams makes a UD queue pair in RTS, with Q_Key 7, and an address handle for
 * the NIC itself.
 */
struct ibv_qp *datagrams(struct ibv_ah **ah);

int post(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id, void *from, uint32_t n, uint32_t lkey, void *to, uint32_t rkey, int flags);
int receive(struct ibv_qp *qp, uint64_t id, void *to, uint32_t n);

/* next waits for a completion. */
struct ibv_wc next(struct ibv_cq *from);

/* event waits for an asynchronous event other than IBV_EVENT_COMM_EST, and acknowledges it. */
struct ibv_async_event event(void);

/* await_call waits until a thread of this process is in a system call. */
void await_call(pid_t thread, long call);

/* The system call of pause(3), in which a thread waits for ever. */
#ifdef SYS_pause
#define PAUSE SYS_pause
#else
#define PAUSE SYS_ppoll
#endif

/* An entry of a list of checks, which ends with an entry without a name. */
struct check {
	const char *name;
	void (*run)(void);
};

int keep(const char *to);
extern const struct check basics[], extended[], misuses[], unread[], connections[], features[], sockets[], extended_connections[];

#endif

/*
 * weft.h: declarations shared by the parts of the libraries. libibverbs exports
 * session and context to librdmacm under a private version.
 */
#ifndef WEFT_H
#define WEFT_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "abi.h"

/* The lab's socket in a host, unless the environment names another path. */
#define WEFT_SOCKET "/dev/weft/verbs"
#define WEFT_SOCKET_VARIABLE "WEFT_VERBS_SOCKET"

/*
 * A session is the process's connection to the lab. There is one per process; a
 * forked process makes its own when it opens a device, and inherited objects return
 * EIO.
 */
struct weft_session {
	int socket;
	int bell; /* eventfd */
	struct weft_doorbell *doorbell;
	pthread_mutex_t mutex; /* of the socket */
	bool dead;             /* it is the parent's, or the lab has ended */
};

/* weft_session returns the session, and makes it if necessary; NULL with errno. */
struct weft_session *weft_session(void);

/* weft_error sets errno to an error number, unless that is 0, and returns it: verbs do both. */
static inline int weft_error(int error)
{
	if (error)
		errno = error;
	return error;
}

/*
 * weft_call sends a request and reads its answer, which must have exactly the
 * expected size and n descriptors. It returns 0, or an errno, which it also sets.
 */
int weft_call(struct weft_session *s, enum weft_op op, const void *body, size_t size, void *answer, size_t answer_size, int *fds, int n);

/* weft_call_handle sends a request with only a handle, whose answer has no body. */
int weft_call_handle(struct weft_session *s, enum weft_op op, uint32_t handle);

/* weft_refuse sets errno to the error and returns it, and with WEFT_VERBS_DEBUG prints why the request is refused. */
__attribute__((format(printf, 2, 3))) int weft_refuse(int error, const char *format, ...);

/*
 * A descriptor from which threads read events, and how many of them are there. Another
 * thread may destroy the channel meanwhile. Then the descriptor stays open until the
 * last one has left: otherwise they might read from another file with the same number.
 */
struct weft_waiters {
	pthread_mutex_t mutex;
	int fd;
	uint32_t threads;
	bool gone;               /* the channel is destroyed */
	struct weft_waiters *of; /* of the context, which they use too, or NULL */
};

/*
 * A thread enters before it uses a channel, and leaves at the end. Both return false if
 * the channel is destroyed; a thread that cannot enter must not leave.
 */
bool weft_enter(struct weft_waiters *w);
bool weft_leave(struct weft_waiters *w);

/* weft_read is read(2) for a thread that has entered. If it is cancelled there, it leaves. */
ssize_t weft_read(struct weft_waiters *w, void *to, size_t size);

/*
 * weft_end marks a channel as destroyed, before the lab is told. weft_release closes the
 * descriptor afterwards and returns true; if threads are still there, it returns false:
 * the last one closes it, and the channel's memory must remain.
 */
void weft_end(struct weft_waiters *w);
bool weft_release(struct weft_waiters *w);

/*
 * weft_closed is called when the other end of a channel is closed: it returns EIO if
 * the lab has ended. Otherwise another thread has destroyed the channel, and this
 * one waits for ever, as it does in the kernel's read(2) with rdma-core; programs
 * rely on that.
 */
int weft_closed(struct weft_session *s);

/* weft_map maps a queue that the lab has made, and closes fd; NULL with errno. */
void *weft_map(int fd, size_t size);

/* weft_ring tells the lab that something was posted to a queue. */
void weft_ring(struct weft_session *s, uint32_t number);

/* A table of objects by handle, with its own lock. */
struct weft_table {
	pthread_mutex_t mutex;
	void **slots;
	uint32_t size; /* a power of two, or 0 */
	uint32_t used;
};

int weft_table_put(struct weft_table *t, uint32_t handle, void *object);
void *weft_table_get(struct weft_table *t, uint32_t handle);
void weft_table_remove(struct weft_table *t, uint32_t handle);

/*
 * weft_table_count is weft_table_get, and counts an event of the object: it increments
 * the uint32_t at this offset in it. Who destroys an object removes it from its table,
 * and then waits until its events are acknowledged; so it remains until this one is.
 */
void *weft_table_count(struct weft_table *t, uint32_t handle, size_t offset);

struct weft_context {
	struct verbs_context verbs; /* its last field is the ibv_context */
	struct weft_session *session;
	struct weft_device_answer device;
	uint32_t number; /* of the device */
	struct weft_waiters waiters; /* for asynchronous events */
	struct weft_table cqs, qps, srqs; /* by handle */
	struct weft_table numbers;        /* queue pairs by number, but for those of type XRC_RECV, which no completion needs */
	struct weft_table srq_numbers;    /* shared receive queues of XRC domains by number */
	struct weft_context *next, **link; /* in the list of open devices */
};

static inline struct weft_context *to_context(struct ibv_context *c)
{
	return (struct weft_context *)((char *)c - offsetof(struct weft_context, verbs.context));
}

struct weft_td;

/*
 * A protection domain, or a parent domain: that has of, and the handle of it. users
 * counts the objects made with a parent domain, or the parent domains of a domain.
 */
struct weft_domain {
	struct ibv_pd pd;
	struct ibv_context *made_with; /* pd.context, which programs can change */
	struct weft_domain *of;
	struct weft_td *td; /* NULL if none */
	void *(*alloc)(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type);
	void (*free)(struct ibv_pd *pd, void *context, void *p, uint64_t type);
	void *context;
	uint32_t users;
};

static inline struct weft_domain *to_domain(struct ibv_pd *pd) { return (struct weft_domain *)pd; }

struct ibv_td *weft_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *attr);
int weft_dealloc_td(struct ibv_td *td);
struct ibv_pd *weft_alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *attr);

/* An object enters its domain when it is made, and leaves it when it is destroyed. */
void weft_enter_domain(struct ibv_pd *pd);
void weft_leave_domain(struct ibv_pd *pd);

/*
 * weft_table_of returns n zeroed words of 64 bits for an object of a protection
 * domain, from the parent domain's allocator or from calloc(3). NULL with errno.
 */
uint64_t *weft_table_of(struct ibv_pd *pd, uint32_t n, bool *theirs);
void weft_free_table(struct ibv_pd *pd, uint64_t *table, bool theirs);

struct weft_cq_object {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex; /* begins with the same fields */
	};
	struct weft_session *session;
	pthread_spinlock_t lock; /* of taken */
	struct weft_cq *ring;
	struct weft_cqe *entries;
	size_t size; /* of the mapping */
	uint32_t slots;
	uint32_t taken;
	uint32_t empty; /* polls in a row that found nothing */
	uint32_t events, async_events; /* that the program has received */
	struct ibv_wc wc;              /* for start_poll and next_poll: the current entry */
	uint64_t time;                 /* of the current entry */
	struct ibv_pd *domain;         /* a parent domain, or NULL */
};

struct weft_srq_object {
	struct ibv_srq srq;
	struct weft_session *session;
	pthread_spinlock_t lock;
	struct weft_queue *ring;
	char *slots;
	size_t size;
	uint32_t number, mask, stride, max_wr, max_sge;
	uint32_t srq_num; /* in an XRC domain; else 0 */
	uint32_t posted, outstanding;
	uint32_t free;      /* first free cookie */
	uint32_t *next;     /* of a free cookie */
	uint64_t *wr_ids;   /* by cookie */
	bool theirs;        /* wr_ids is from the program's allocator */
	uint32_t async_events;
};

/* One queue of a queue pair. */
struct weft_half {
	pthread_spinlock_t lock;
	uint32_t *index; /* in shared memory */
	char *slots;
	uint32_t mask, stride, max_wr, max_sge;
	uint32_t posted, done;
	uint64_t *wr_ids; /* by slot */
	bool theirs;      /* they are from the program's allocator */
};

struct weft_qp_object {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex; /* begins with it */
	};
	struct weft_session *session;
	struct weft_queue *ring;
	size_t size;
	uint32_t number, max_inline;
	struct weft_half send, recv;
	bool signal_all;
	uint32_t async_events;

	/* Between wr_start and wr_complete: what has been built, and the first error. */
	uint64_t offered;           /* operations, by enum ibv_wr_opcode */
	struct weft_send *building; /* NULL if none */
	uint32_t before;            /* posted at wr_start */
	int error;
	bool addressed; /* of building: the datagram's destination, or the peer's shared receive queue, is set */
};

static inline struct weft_cq_object *to_cq(struct ibv_cq *cq) { return (struct weft_cq_object *)cq; }
static inline struct weft_srq_object *to_srq(struct ibv_srq *srq) { return (struct weft_srq_object *)srq; }
static inline struct weft_qp_object *to_qp(struct ibv_qp *qp) { return (struct weft_qp_object *)qp; }

/* The operations that programs reach through the context. */
uint32_t weft_used_gids(struct ibv_context *context);
int weft_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr, size_t size);
int weft_query_rt_values(struct ibv_context *c, struct ibv_values_ex *values);
struct ibv_cq_ex *weft_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr);
int weft_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in, struct ibv_device_attr_ex *attr, size_t size);
int weft_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
int weft_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int weft_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int weft_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int weft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int weft_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int weft_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_qp *weft_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr);
struct ibv_xrcd *weft_open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *attr);
int weft_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_qp *weft_open_qp(struct ibv_context *c, struct ibv_qp_open_attr *attr);
int weft_get_srq_num(struct ibv_srq *srq, uint32_t *number);
struct ibv_srq *weft_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *attr);
struct ibv_mw *weft_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int weft_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list, uint32_t n);
int weft_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int weft_dealloc_mw(struct ibv_mw *mw);

/* weft_xrcd_handle returns the handle of an XRC domain; 0 for NULL. */
uint32_t weft_xrcd_handle(struct ibv_xrcd *xrcd);

/* weft_create_target makes a queue pair of type XRC_RECV. */
struct ibv_qp *weft_create_target(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr);

/* weft_operations returns the operations of queue pairs of a type, by enum ibv_wr_opcode. */
uint32_t weft_operations(enum ibv_qp_type type);

/* weft_offer_wr gives a queue pair the functions behind ibv_wr_*() for these operations. */
void weft_offer_wr(struct weft_qp_object *qp, uint64_t operations);

/* weft_new_cq makes a completion queue, with or without the time of day of its entries. */
struct weft_cq_object *weft_new_cq(struct ibv_context *c, uint32_t cqe, void *user, struct ibv_comp_channel *channel, uint32_t vector, bool epoch);

/* weft_cq_take takes the next entry of a locked queue; false if there is none. */
bool weft_cq_take(struct weft_cq_object *cq, struct ibv_wc *wc, uint64_t *time);

/* weft_cq_lock begins a poll, weft_cq_unlock ends it and tells the lab which entries were taken. */
void weft_cq_lock(struct weft_cq_object *cq);
void weft_cq_unlock(struct weft_cq_object *cq, bool empty);

/* weft_cq_clean drops the entries of a queue pair that is reset or destroyed. */
void weft_cq_clean(struct ibv_cq *cq, uint32_t qp_num);

/* Attributes, to and from the lab's form. */
void weft_put_ah(struct weft_ah_attr *to, const struct ibv_ah_attr *from);
void weft_get_ah(struct ibv_ah_attr *to, const struct weft_ah_attr *from);
void weft_get_qp_attr(struct ibv_qp_attr *to, const struct weft_qp_attr *from);

/* weft_fail sets errno and returns NULL. */
static inline void *weft_fail(int error)
{
	errno = error;
	return NULL;
}

#endif

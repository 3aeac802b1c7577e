/*
 * peer.c CASE [ADDRESS [N [TIMEOUT]]]: one side of a check of how the NICs of two
 * hosts affect each other's programs. Without an address it is the server, which
 * learns N, the number of repetitions, and TIMEOUT, the code of the local ACK
 * timeout, from its client. Without a case it lists the cases. The two sides also
 * have a TCP connection to tell each other their next steps.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define CHECK(x)                                                                                  \
	do {                                                                                      \
		if (!(x)) {                                                                       \
			fprintf(stderr, "%s, line %d: %s (errno %d: %s)\n", server ? "server" : "client", __LINE__, #x, errno, strerror(errno)); \
			exit(1);                                                                  \
		}                                                                                 \
	} while (0)

#define PORT "18600"
#define HALF (256 * 1024)
#define SIZE (2 * HALF)
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static int server, tcp;
static const char *address;
static struct { uint32_t count, timeout; } told = { 10, 14 };

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char *mem; /* SIZE bytes; the second half is for unsolicited data */
static uint8_t rnr_retry = 7;

/* A side's description of a queue pair to be connected. */
static struct side {
	union ibv_gid gid;
	uint64_t mem;
	uint32_t qpn, rkey;
} other;

static void say(const void *p, size_t n)
{
	CHECK(send(tcp, p, n, MSG_NOSIGNAL) == (ssize_t)n);
}

static void hear(void *p, size_t n)
{
	CHECK(recv(tcp, p, n, MSG_WAITALL) == (ssize_t)n);
}

/* Waits until the other side has also reached this point. */
static void meet(void)
{
	char c = '.';

	say(&c, 1);
	hear(&c, 1);
}

/* Connects the two sides over TCP. The server listens before the client starts. */
static void call(void)
{
	struct addrinfo hint = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = server ? AI_PASSIVE : 0 }, *to;
	int s, on = 1;

	CHECK(!getaddrinfo(address, PORT, &hint, &to));
	s = socket(to->ai_family, SOCK_STREAM, 0);
	CHECK(s >= 0);
	if (server) {
		CHECK(!setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
		CHECK(!bind(s, to->ai_addr, to->ai_addrlen) && !listen(s, 1));
		tcp = accept(s, NULL, NULL);
		CHECK(tcp >= 0);
		close(s);
		hear(&told, sizeof(told));
	} else {
		CHECK(!connect(s, to->ai_addr, to->ai_addrlen));
		tcp = s;
		say(&told, sizeof(told));
	}
}

static char *map(int flags)
{
	char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static void start(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	ctx = ibv_open_device(list[0]);
	CHECK(ctx);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	CHECK(pd);
	cq = ibv_create_cq(ctx, 1000, NULL, NULL, 0);
	CHECK(cq);
	if (!mem)
		mem = map(MAP_PRIVATE);
	mr = ibv_reg_mr(pd, mem, SIZE, ALL);
	CHECK(mr);
}

/* Makes a queue pair and connects it to the one that the other side makes. Each side
 * decides which access it grants. */
static struct ibv_qp *pair(struct ibv_cq *to, int access)
{
	struct ibv_qp_init_attr init = { .send_cq = to, .recv_cq = to, .qp_type = IBV_QPT_RC, .cap = { 64, 64, 2, 2, 64 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct side mine = { .mem = (uintptr_t)mem, .rkey = mr->rkey };

	CHECK(qp);
	mine.qpn = qp->qp_num;
	CHECK(!ibv_query_gid(ctx, 1, 0, &mine.gid));
	say(&mine, sizeof(mine));
	hear(&other, sizeof(other));
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = other.qpn, .rq_psn = other.qpn, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 5, .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64, .dgid = other.gid } },
	};
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .sq_psn = mine.qpn, .timeout = told.timeout, .retry_cnt = 7, .rnr_retry = rnr_retry, .max_rd_atomic = 4,
	};
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
	return qp;
}

/* Posts a work request for n bytes at here and at the remote address to. */
static void post(struct ibv_qp *qp, enum ibv_wr_opcode op, void *here, uint32_t n, uint64_t to, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)here, n, mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = (uintptr_t)here, .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED };

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = to;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = to;
		wr.wr.rdma.rkey = rkey;
	}
	CHECK(!ibv_post_send(qp, &wr, &bad));
}

static void receive(struct ibv_qp *qp, void *to, uint32_t n, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)to, n, lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	CHECK(!ibv_post_recv(qp, &wr, &bad));
}

static struct ibv_wc next(struct ibv_cq *from)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(from, 1, &wc)))
		;
	CHECK(n == 1);
	return wc;
}

/* Returns the next completion, which must be a success. */
static struct ibv_wc good(struct ibv_cq *from)
{
	struct ibv_wc wc = next(from);

	if (wc.status)
		fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status));
	CHECK(!wc.status);
	return wc;
}

static void fill(char *p, uint32_t n, uint32_t seed)
{
	for (uint32_t k = 0; k < n; k++)
		p[k] = (char)((k + seed) * 2654435761u >> 24);
}

static int holds(const char *p, uint32_t n, uint32_t seed)
{
	for (uint32_t k = 0; k < n; k++)
		if (p[k] != (char)((k + seed) * 2654435761u >> 24))
			return 0;
	return 1;
}

static void wait_event(enum ibv_event_type want, struct ibv_qp *of)
{
	struct ibv_async_event event;

	do {
		CHECK(!ibv_get_async_event(ctx, &event));
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	CHECK(event.event_type == want && event.element.qp == of);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

/* WRITE, SEND and READ transfer bytes of many lengths correctly, and each atomic is
 * executed once. */
static void data(void)
{
	static const uint32_t sizes[] = { 1, 1024, 65536, 1023, 100000, 8, 1025, 65537, 30000, 4096 };
	static uint64_t counter __attribute__((aligned(8)));
	struct ibv_mr *word;
	struct ibv_qp *qp;
	uint64_t there[2];

	start();
	word = ibv_reg_mr(pd, &counter, sizeof(counter), ALL);
	CHECK(word);
	there[0] = (uintptr_t)&counter;
	there[1] = word->rkey;
	say(there, sizeof(there));
	hear(there, sizeof(there));
	qp = pair(cq, ALL);
	receive(qp, mem + HALF, HALF, mr->lkey);
	meet();
	for (uint32_t i = 0; i < told.count; i++) {
		uint32_t n = sizes[i % (sizeof(sizes) / sizeof(*sizes))];
		struct ibv_wc wc;

		if (server) {
			do /* the acknowledgement of the last answer may have been lost */
				wc = good(cq);
			while (wc.opcode == IBV_WC_SEND);
			CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == n);
			CHECK(holds(mem, n, i) && holds(mem + HALF, n, i));
			fill(mem, n, i + 1000);
			receive(qp, mem + HALF, HALF, mr->lkey);
			post(qp, IBV_WR_SEND, mem, 16, 0, 0);
			continue;
		}
		fill(mem, n, i);
		post(qp, IBV_WR_RDMA_WRITE, mem, n, other.mem, other.rkey);
		post(qp, IBV_WR_SEND, mem, n, 0, 0);
		for (int k = 0; k < 3; k++)
			good(cq); /* for these two, and the answer */
		CHECK(holds(mem + HALF, n < 16 ? n : 16, i + 1000));
		post(qp, IBV_WR_RDMA_READ, mem, n, other.mem, other.rkey);
		CHECK(good(cq).opcode == IBV_WC_RDMA_READ && holds(mem, n, i + 1000));
		post(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, mem, 8, there[0], there[1]);
		CHECK(good(cq).opcode == IBV_WC_FETCH_ADD && *(uint64_t *)mem == i);
		receive(qp, mem + HALF, HALF, mr->lkey);
	}
	meet();
	CHECK(!server || counter == told.count);
}

/* Requests without the right to access are refused over the wire, and nothing is changed. */
static void access_(void)
{
	enum { WHOLE, WRONG, PART, PLAIN, FOREIGN, GONE, KEYS };
	static const struct {
		enum ibv_wr_opcode op;
		int key;
		int64_t at;
		uint32_t n;
		int grant; /* what the server's queue pair grants */
		enum ibv_wc_status status;
	} tries[] = {
		{ IBV_WR_RDMA_WRITE, WRONG, 0, 100, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_READ, WRONG, 0, 100, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, WRONG, 0, 8, ALL, IBV_WC_REM_ACCESS_ERR },
		/* PART is HALF bytes from HALF/2 on. */
		{ IBV_WR_RDMA_WRITE, PART, HALF / 2 - 1, 1, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_WRITE, PART, HALF / 2 - 1, 10, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_WRITE, PART, HALF / 2 + 1, HALF, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_READ, PART, HALF / 2 + HALF, 1, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_READ, PART, HALF / 2 + 1, HALF, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_WRITE, PART, -1, 1000, ALL, IBV_WC_REM_ACCESS_ERR }, /* beyond the end of the address space */
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, PART, HALF / 2 + HALF, 8, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_WRITE, PLAIN, 0, 100, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_READ, PLAIN, 0, 100, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, PLAIN, 0, 8, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_WRITE, FOREIGN, 0, 100, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_READ, FOREIGN, 0, 100, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_WRITE, GONE, 0, 100, ALL, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_READ, GONE, 0, 100, ALL, IBV_WC_REM_ACCESS_ERR },
		/*
		 * An operation that the queue pair does not allow at all is an invalid
		 * request, as with rxe.
		 */
		{ IBV_WR_RDMA_WRITE, WHOLE, 0, 100, IBV_ACCESS_REMOTE_READ, IBV_WC_REM_INV_REQ_ERR },
		{ IBV_WR_RDMA_READ, WHOLE, 0, 100, IBV_ACCESS_REMOTE_WRITE, IBV_WC_REM_INV_REQ_ERR },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, WHOLE, 0, 8, IBV_ACCESS_REMOTE_WRITE, IBV_WC_REM_INV_REQ_ERR },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, WHOLE, 4, 8, ALL, IBV_WC_REM_INV_REQ_ERR }, /* not aligned */
		/* With no bytes there is nothing to check. */
		{ IBV_WR_RDMA_WRITE, WRONG, 0, 0, ALL, IBV_WC_SUCCESS },
		{ IBV_WR_RDMA_WRITE, PART, HALF / 2, HALF, ALL, IBV_WC_SUCCESS },
	};
	struct ibv_mr *part, *plain, *foreign, *gone;
	uint32_t keys[KEYS];
	char *before;

	start();
	fill(mem, SIZE, server);
	before = malloc(SIZE);
	CHECK(before);
	memcpy(before, mem, SIZE);
	part = ibv_reg_mr(pd, mem + HALF / 2, HALF, ALL);
	plain = ibv_reg_mr(pd, mem, SIZE, IBV_ACCESS_LOCAL_WRITE);
	foreign = ibv_reg_mr(ibv_alloc_pd(ctx), mem, SIZE, ALL);
	gone = ibv_reg_mr(pd, mem, SIZE, ALL);
	CHECK(part && plain && foreign && gone);
	memcpy(keys, (uint32_t[]){ mr->rkey, mr->rkey + 0x10000, part->rkey, plain->rkey, foreign->rkey, gone->rkey }, sizeof(keys));
	CHECK(!ibv_dereg_mr(gone));
	say(keys, sizeof(keys));
	hear(keys, sizeof(keys));
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		int failing = tries[i].status != IBV_WC_SUCCESS;
		struct ibv_qp *qp = pair(cq, server ? tries[i].grant : ALL);

		meet();
		if (server) {
			if (failing) {
				wait_event(tries[i].status == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR, qp);
				CHECK(state_of(qp) == IBV_QPS_ERR);
			}
			meet();
			if (tries[i].n == HALF && !failing) {
				CHECK(!memcmp(mem + HALF / 2 + HALF, before + HALF / 2 + HALF, HALF / 2));
				CHECK(!memcmp(mem, before, HALF / 2) && holds(mem + HALF / 2, HALF, 0));
			} else {
				CHECK(!memcmp(mem, before, SIZE));
			}
		} else {
			struct ibv_wc wc;

			post(qp, tries[i].op, mem, tries[i].n, tries[i].at < 0 ? (uint64_t)tries[i].at : other.mem + tries[i].at, keys[tries[i].key]);
			wc = next(cq);
			if (wc.status != tries[i].status)
				fprintf(stderr, "try %zu: %s\n", i, ibv_wc_status_str(wc.status));
			CHECK(wc.status == tries[i].status && wc.wr_id == (uintptr_t)mem && wc.qp_num == qp->qp_num);
			if (failing) {
				CHECK(state_of(qp) == IBV_QPS_ERR);
				post(qp, IBV_WR_RDMA_WRITE, mem, 8, other.mem, keys[WHOLE]);
				CHECK(next(cq).status == IBV_WC_WR_FLUSH_ERR);
			}
			meet();
			CHECK(!memcmp(mem, before, SIZE));
		}
		CHECK(!ibv_destroy_qp(qp));
	}
}

/* Receives that cannot take a SEND fail at both sides. */
static void unfit(void)
{
	struct ibv_mr *readable;
	struct ibv_qp *qp;

	start();
	readable = ibv_reg_mr(pd, mem, SIZE, IBV_ACCESS_REMOTE_READ);
	CHECK(readable);
	for (int i = 0; i < 2; i++) {
		qp = pair(cq, ALL);
		if (server)
			receive(qp, mem + HALF, i ? 2000 : 1999, i ? readable->lkey : mr->lkey);
		meet();
		if (server) {
			CHECK(next(cq).status == (i ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_LEN_ERR));
			wait_event(IBV_EVENT_QP_REQ_ERR, qp);
		} else {
			post(qp, IBV_WR_SEND, mem, 2000, 0, 0);
			CHECK(next(cq).status == (i ? IBV_WC_REM_OP_ERR : IBV_WC_REM_INV_REQ_ERR));
		}
		meet();
		CHECK(!ibv_destroy_qp(qp));
	}
}

#define PIECE 5000
#define DEPTH 8
#define MARK 0x55 /* a byte that no stream sends */

/* Keeps the other side busy until something fails, and returns the status. progress
 * counts completions; after a hundred, tell makes it notify the other side. */
static enum ibv_wc_status stream(struct ibv_qp *qp, enum ibv_wr_opcode op, volatile uint32_t *progress, int tell)
{
	for (uint32_t i = 0, posted = 0;; i++) {
		struct ibv_wc wc;

		for (; posted < i + DEPTH; posted++) {
			char *here = mem + posted % DEPTH * PIECE;

			if (op != IBV_WR_RDMA_READ)
				memset(here, (int)(posted % MARK), PIECE);
			post(qp, op, here, PIECE, other.mem + HALF, other.rkey);
		}
		wc = next(cq);
		if (wc.status)
			return wc.status;
		*progress = i + 1;
		if (op == IBV_WR_RDMA_READ)
			CHECK(!memchr((char *)wc.wr_id, MARK, PIECE));
		if (tell && i == 100)
			say(".", 1);
	}
}

/* Receives a stream of SENDs, until it fails. */
static void *take(void *arg)
{
	struct ibv_qp *qp = arg;
	uint32_t lkey = mr->lkey;

	for (int i = 0; i < 2 * DEPTH; i++)
		receive(qp, mem + HALF, PIECE, lkey);
	while (!next(cq).status)
		receive(qp, mem + HALF, PIECE, lkey);
	return NULL;
}

/* Checks that the second half of the memory no longer changes. */
static void settled(void)
{
	char *before = malloc(HALF);

	CHECK(before);
	memcpy(before, mem + HALF, HALF);
	usleep(100000);
	CHECK(!memcmp(before, mem + HALF, HALF));
	free(before);
}

/* Once a memory region is deregistered nothing touches its memory, whatever is in
 * flight. */
static void revoked(enum ibv_wr_opcode op)
{
	uint32_t progress = 0;
	struct ibv_qp *qp;
	pthread_t t;
	char c;

	start();
	qp = pair(cq, ALL);
	if (!server) {
		meet();
		CHECK(stream(qp, op, &progress, 1) == (op == IBV_WR_SEND ? IBV_WC_REM_OP_ERR : IBV_WC_REM_ACCESS_ERR));
		CHECK(progress > 100 && (op != IBV_WR_RDMA_READ || !memchr(mem, MARK, DEPTH * PIECE)));
		meet();
		return;
	}
	if (op == IBV_WR_SEND)
		CHECK(!pthread_create(&t, NULL, take, qp));
	meet();
	hear(&c, 1);
	CHECK(!ibv_dereg_mr(mr));
	if (op == IBV_WR_RDMA_READ)
		memset(mem + HALF, MARK, HALF);
	settled();
	meet();
	if (op == IBV_WR_SEND)
		CHECK(!pthread_join(t, NULL));
	CHECK(state_of(qp) == IBV_QPS_ERR);
}

/* When a program is killed in the middle of a transfer, its queue pair ends too. Its
 * memory, which its parent shares, is not touched again; a requester at the other
 * side gets an error, and a responder waits, as it gets no notification. */
static void killed(enum ibv_wr_opcode op, int victim)
{
	volatile uint32_t *progress;
	struct ibv_qp *qp;
	int status;
	pid_t child = 0;
	char c;

	mem = map(MAP_SHARED);
	progress = (uint32_t *)map(MAP_SHARED);
	if (server == victim) {
		child = fork();
		CHECK(child >= 0);
	}
	if (child) {
		while (!*progress) /* the child uses the TCP connection first */
			usleep(100);
		if (server)
			hear(&c, 1);
		while (!server && *progress < 100)
			usleep(100);
		CHECK(!kill(child, SIGKILL) && waitpid(child, &status, 0) == child);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		settled();
		meet();
		return;
	}
	start();
	qp = pair(cq, ALL);
	meet();
	if (!server) {
		CHECK(stream(qp, op, progress, victim) == IBV_WC_RETRY_EXC_ERR && *progress >= 100);
		CHECK(state_of(qp) == IBV_QPS_ERR);
		meet();
		return;
	}
	if (op == IBV_WR_SEND) {
		pthread_t t;

		CHECK(!pthread_create(&t, NULL, take, qp));
	}
	if (server == victim) {
		*progress = 1;
		pause();
	}
	meet();
	settled();
	CHECK(state_of(qp) == IBV_QPS_RTS);
}

/*
 * A SEND is retried for lack of a receive as often as allowed, and not more often. The
 * server posts a receive when it gets a line: by then the SEND was retried.
 */
static void rnr(void)
{
	struct ibv_qp *qp;

	start();
	for (int i = 0; i < 2; i++) {
		rnr_retry = i ? 2 : 7;
		qp = pair(cq, ALL);
		meet();
		if (!server) {
			fill(mem, 3000, 1);
			post(qp, IBV_WR_SEND, mem, 3000, 0, 0);
			CHECK(next(cq).status == (i ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_SUCCESS));
		} else if (!i) {
			CHECK(getchar() == '\n');
			receive(qp, mem + HALF, HALF, mr->lkey);
			CHECK(good(cq).byte_len == 3000 && holds(mem + HALF, 3000, 1));
		}
		meet();
	}
}

/* Successive connections in one process: each carries its bytes and is closed. */
static void connects(void)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 16 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	struct rdma_addrinfo hint = { .ai_port_space = RDMA_PS_TCP, .ai_flags = server ? RAI_PASSIVE : 0 }, *to;
	struct rdma_cm_id *listener, *id;
	char text[64] = "";

	CHECK(!rdma_getaddrinfo(server ? NULL : (char *)address, "7471", &hint, &to));
	if (server)
		CHECK(!rdma_create_ep(&listener, to, NULL, &init) && !rdma_listen(listener, 8));
	meet();
	for (uint32_t i = 0; i < told.count; i++) {
		struct ibv_mr *m;
		struct ibv_wc wc;

		if (server) {
			CHECK(!rdma_get_request(listener, &id));
		} else {
			struct ibv_qp_init_attr its = init; /* rdma_create_ep sets its completion queues */

			CHECK(!rdma_create_ep(&id, to, NULL, &its));
		}
		m = rdma_reg_msgs(id, text, sizeof(text));
		CHECK(m);
		if (server) {
			CHECK(!rdma_post_recv(id, NULL, text, sizeof(text), m) && !rdma_accept(id, NULL));
			CHECK(rdma_get_recv_comp(id, &wc) == 1 && !wc.status && (uint32_t)atoi(text) == i);
		} else {
			CHECK(!rdma_connect(id, NULL));
			snprintf(text, sizeof(text), "%u", i);
			CHECK(!rdma_post_send(id, NULL, text, sizeof(text), m, 0));
			CHECK(rdma_get_send_comp(id, &wc) == 1 && !wc.status);
		}
		CHECK(!rdma_disconnect(id));
		CHECK(!rdma_dereg_mr(m));
		rdma_destroy_ep(id);
	}
	meet();
	if (server)
		rdma_destroy_ep(listener);
	rdma_freeaddrinfo(to);
}

#define THREADS 8
#define SLICE 1000
#define ROUNDS 5

static struct { struct ibv_qp *qp; uint64_t to; uint32_t rkey; } many[SIZE / SLICE / 2];

static void *some(void *arg)
{
	uint32_t first = (uint32_t)(uintptr_t)arg;
	struct ibv_cq *mine = many[first].qp->send_cq;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (int reading = 0; reading < 2; reading++) {
			for (uint32_t i = first; i < told.count; i += THREADS) {
				char *here = mem + (reading ? HALF : 0) + i * SLICE;

				if (!reading)
					fill(here, SLICE, i * ROUNDS + round);
				post(many[i].qp, reading ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, here, SLICE, many[i].to + i * SLICE, many[i].rkey);
			}
			for (uint32_t i = first; i < told.count; i += THREADS)
				good(mine);
		}
		for (uint32_t i = first; i < told.count; i += THREADS)
			CHECK(holds(mem + HALF + i * SLICE, SLICE, i * ROUNDS + round));
	}
	return NULL;
}

/* Many queue pairs at once, distributed over threads. */
static void qps(void)
{
	struct ibv_cq *to[THREADS];
	pthread_t t[THREADS];

	CHECK(told.count >= THREADS && told.count <= HALF / SLICE);
	start();
	for (int i = 0; i < THREADS; i++) {
		to[i] = ibv_create_cq(ctx, 1000, NULL, NULL, 0);
		CHECK(to[i]);
	}
	for (uint32_t i = 0; i < told.count; i++) {
		many[i].qp = pair(to[i % THREADS], ALL);
		many[i].to = other.mem;
		many[i].rkey = other.rkey;
	}
	meet();
	for (uintptr_t i = 0; !server && i < THREADS; i++)
		CHECK(!pthread_create(&t[i], NULL, some, (void *)i));
	for (int i = 0; !server && i < THREADS; i++)
		CHECK(!pthread_join(t[i], NULL));
	meet();
	for (uint32_t i = 0; server && i < told.count; i++)
		CHECK(holds(mem + i * SLICE, SLICE, i * ROUNDS + ROUNDS - 1));
}

static void revoked_write(void) { revoked(IBV_WR_RDMA_WRITE); }
static void revoked_read(void) { revoked(IBV_WR_RDMA_READ); }
static void revoked_send(void) { revoked(IBV_WR_SEND); }
static void killed_write_server(void) { killed(IBV_WR_RDMA_WRITE, 1); }
static void killed_write_client(void) { killed(IBV_WR_RDMA_WRITE, 0); }
static void killed_read_server(void) { killed(IBV_WR_RDMA_READ, 1); }
static void killed_read_client(void) { killed(IBV_WR_RDMA_READ, 0); }
static void killed_send_server(void) { killed(IBV_WR_SEND, 1); }
static void killed_send_client(void) { killed(IBV_WR_SEND, 0); }

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "data", data }, { "access", access_ }, { "unfit", unfit }, { "rnr", rnr }, { "connects", connects }, { "qps", qps },
	{ "revoked-write", revoked_write }, { "revoked-read", revoked_read }, { "revoked-send", revoked_send },
	{ "killed-write-server", killed_write_server }, { "killed-write-client", killed_write_client },
	{ "killed-read-server", killed_read_server }, { "killed-read-client", killed_read_client },
	{ "killed-send-server", killed_send_server }, { "killed-send-client", killed_send_client },
};

int main(int argc, char **argv)
{
	server = argc < 3;
	address = server ? NULL : argv[2];
	if (argc > 3)
		told.count = atoi(argv[3]);
	if (argc > 4)
		told.timeout = atoi(argv[4]);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (argc < 2) {
			puts(cases[i].name);
		} else if (!strcmp(argv[1], cases[i].name)) {
			alarm(110);
			call();
			cases[i].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}

/*
 * check.c NAME: one check of verbs of a host's NIC that Debian's programs do not
 * cover. Without a name it lists the checks. Queue pairs are connected to others of
 * the same NIC.
 */
#include "kit.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* Sends, writes, reads and lists transfer bytes of many lengths correctly. */
static void data(void)
{
	static const uint32_t sizes[] = { 1, 8, 1023, 1024, 1025, 65535, 65536, 65537, 100000 };
	struct ibv_qp *a, *b;

	start();
	pair(&a, &b, 10);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint32_t n = sizes[i];
		char *to = mem + SIZE / 2;
		struct ibv_wc wc;

		for (int how = 0; how < 3; how++) {
			for (uint32_t k = 0; k < n; k++)
				mem[k] = (char)(k * 7 + i + how);
			memset(to, 0, n);
			switch (how) {
			case 0:
				CHECK(!receive(b, 5, to, n));
				CHECK(!post(a, IBV_WR_SEND, 6, mem, n, mr->lkey, NULL, 0, IBV_SEND_SIGNALED));
				for (int k = 0; k < 2; k++) {
					wc = next(cq);
					CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (wc.opcode == IBV_WC_RECV ? 5 : 6));
					CHECK(wc.opcode != IBV_WC_RECV || wc.byte_len == n);
				}
				break;
			case 1:
				CHECK(!post(a, IBV_WR_RDMA_WRITE, 7, mem, n, mr->lkey, to, mr->rkey, IBV_SEND_SIGNALED));
				wc = next(cq);
				CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 7 && wc.opcode == IBV_WC_RDMA_WRITE);
				break;
			case 2:
				CHECK(!post(a, IBV_WR_RDMA_READ, 8, to, n, mr->lkey, mem, mr->rkey, IBV_SEND_SIGNALED));
				wc = next(cq);
				CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 8 && wc.byte_len == n);
			}
			CHECK(!memcmp(mem, to, n));
		}
	}
}

/* A wrong key ends both queue pairs with the errors in the specification. */
static void rkey(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_async_event e;
	struct ibv_qp_attr attr;
	struct ibv_qp *a, *b;
	struct ibv_wc wc;

	start();
	pair(&a, &b, 10);
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, mem, 100, mr->lkey, mem + 1000, mr->rkey + 0x100, 0));
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 2, mem, 100, mr->lkey, mem + 1000, mr->rkey, 0));
	wc = next(cq);
	CHECK(wc.wr_id == 1 && wc.status == IBV_WC_REM_ACCESS_ERR);
	wc = next(cq);
	CHECK(wc.wr_id == 2 && wc.status == IBV_WC_WR_FLUSH_ERR);
	e = event();
	CHECK(e.event_type == IBV_EVENT_QP_ACCESS_ERR && e.element.qp == b);
	CHECK(!ibv_query_qp(b, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
}

/* Using unmapped or read-only memory is a fault. */
static void unmapped(void)
{
	struct ibv_qp *a, *b;

	start();
	CHECK(!ibv_reg_mr(pd, (void *)8, 100, 0) && errno == EFAULT);
	CHECK(!munmap(mem + 8192, 4096));
	CHECK(!mprotect(mem + 16384, 4096, PROT_READ));
	pair(&a, &b, 10);
	CHECK(!post(a, IBV_WR_SEND, 1, mem + 8192, 100, mr->lkey, NULL, 0, 0));
	CHECK(next(cq).status == IBV_WC_LOC_PROT_ERR);
	pair(&a, &b, 10);
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, mem, 100, mr->lkey, mem + 8192, mr->rkey, 0));
	CHECK(next(cq).status == IBV_WC_REM_ACCESS_ERR);
	pair(&a, &b, 10);
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, mem, 100, mr->lkey, mem + 16384, mr->rkey, 0));
	CHECK(next(cq).status == IBV_WC_REM_ACCESS_ERR);
	pair(&a, &b, 10);
	CHECK(!post(a, IBV_WR_RDMA_READ, 1, mem + 16384, 100, mr->lkey, mem, mr->rkey, 0));
	CHECK(next(cq).status == IBV_WC_LOC_PROT_ERR);
	CHECK(!mem[0]);
}

/* Requests that are refused at once, and the reported size of a queue pair. */
static void limits(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 10, 10, 3, 3, 1 << 20 } };
	struct ibv_qp_attr attr;
	struct ibv_qp *a, *b;
	int n;

	start();
	init.send_cq = init.recv_cq = cq;
	CHECK(!ibv_create_qp(pd, &init) && errno == EINVAL);
	pair(&a, &b, 10);
	CHECK(!ibv_query_qp(a, &attr, IBV_QP_CAP, &init));
	CHECK(attr.cap.max_send_wr == 10 && attr.cap.max_inline_data == 64 && init.cap.max_recv_sge == 3 && init.send_cq == cq && attr.qp_state == IBV_QPS_RTS);
	CHECK(post(a, IBV_WR_SEND, 1, mem, 65, mr->lkey, NULL, 0, IBV_SEND_INLINE) == EINVAL);
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, "inline", 7, 0, mem, mr->rkey, IBV_SEND_INLINE | IBV_SEND_SIGNALED));
	CHECK(next(cq).status == IBV_WC_SUCCESS && !strcmp(mem, "inline"));
	/* There are no receives, so these stay. */
	for (n = 0; !post(a, IBV_WR_SEND, n, mem, 1, mr->lkey, NULL, 0, 0); n++)
		CHECK(n < 10);
	CHECK(n == 10);
	for (n = 0; !receive(a, n, mem, 1); n++)
		CHECK(n < 10);
	CHECK(n == 10);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(ibv_destroy_cq(cq) == EBUSY);
	CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
}

/* A completion channel's descriptor can be polled, and blocks or not. */
static void descriptor(void)
{
	struct pollfd p;
	struct ibv_cq *of;
	struct ibv_qp *a, *b;
	void *user;

	start();
	pair(&a, &b, 10);
	p = (struct pollfd){ .fd = channel->fd, .events = POLLIN };
	CHECK(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
	CHECK(ibv_get_cq_event(channel, &of, &user) == -1 && errno == EAGAIN);
	CHECK(poll(&p, 1, 0) == 0);
	CHECK(!ibv_req_notify_cq(cq, 1));
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, mem, 1, mr->lkey, mem, mr->rkey, IBV_SEND_SIGNALED));
	CHECK(next(cq).status == IBV_WC_SUCCESS);
	CHECK(poll(&p, 1, 0) == 0); /* it was not solicited */
	CHECK(!receive(b, 2, mem, 10));
	CHECK(!post(a, IBV_WR_SEND, 3, mem, 1, mr->lkey, NULL, 0, IBV_SEND_SOLICITED));
	CHECK(poll(&p, 1, 10000) == 1);
	CHECK(!ibv_get_cq_event(channel, &of, &user) && of == cq && user == &cq);
	CHECK(ibv_get_cq_event(channel, &of, &user) == -1 && errno == EAGAIN);
	CHECK(next(cq).wr_id == 2);
	ibv_ack_cq_events(cq, 1);
	CHECK(!fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK));
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
	CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
}

/* A thread that takes one event of a channel or, without one, of a context, and then waits for ever. */
struct taker {
	struct ibv_comp_channel *channel;
	struct ibv_context *context;
	pid_t thread;
	sem_t began;
};

static void *takes(void *arg)
{
	struct taker *t = arg;
	struct ibv_async_event e;
	struct ibv_cq *of;
	void *user;

	t->thread = gettid();
	sem_post(&t->began);
	if (t->channel) {
		CHECK(!ibv_get_cq_event(t->channel, &of, &user));
		ibv_ack_cq_events(of, 1);
	} else {
		CHECK(!ibv_get_async_event(t->context, &e));
		ibv_ack_async_event(&e);
	}
	for (;;)
		pause();
	return NULL;
}

static struct taker *new_taker(struct ibv_comp_channel *from, struct ibv_context *context)
{
	struct taker *t = calloc(1, sizeof(*t));
	pthread_t thread;

	CHECK(t && !sem_init(&t->began, 0, 0));
	t->channel = from;
	t->context = context;
	CHECK(!pthread_create(&thread, NULL, takes, t) && !pthread_detach(thread));
	CHECK(!sem_wait(&t->began));
	await_call(t->thread, SYS_read);
	return t;
}

/*
 * A channel, with its queue, and a context are destroyed while other threads wait for
 * their events: these wait for ever, as with the kernel's, or take an event that is on
 * its way.
 */
static void closes(void)
{
	for (int n = 0; n < 100; n++) {
		struct taker *completions, *errors;
		struct ibv_qp *a, *b;

		start();
		pair(&a, &b, 10);
		completions = new_taker(channel, ctx);
		errors = new_taker(NULL, ctx);
		if (n % 2) {
			CHECK(!ibv_req_notify_cq(cq, 0));
			CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, mem, 1, mr->lkey, mem, mr->rkey + 0x100, 0));
			CHECK(next(cq).status == IBV_WC_REM_ACCESS_ERR);
		}
		CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
		CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx) && !munmap(mem, SIZE));
		await_call(completions->thread, PAUSE);
		await_call(errors->thread, PAUSE);
	}
}

/* A forked child cannot use its parent's objects, and does not hang. */
static void forked(void)
{
	struct ibv_qp *a, *b;
	struct ibv_wc wc;
	int status;
	pid_t child;

	CHECK(!ibv_fork_init());
	start();
	pair(&a, &b, 10);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		struct ibv_cq *mine = cq;

		CHECK(ibv_poll_cq(mine, 1, &wc) < 0);
		CHECK(ibv_req_notify_cq(mine, 0));
		CHECK(post(a, IBV_WR_SEND, 1, mem, 1, mr->lkey, NULL, 0, 0));
		CHECK(!ibv_alloc_pd(ctx));
		ibv_destroy_qp(a);
		ibv_dereg_mr(mr);
		ibv_destroy_cq(mine);
		start(); /* a session of its own */
		pair(&a, &b, 10);
		CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, "child", 6, 0, mem, mr->rkey, IBV_SEND_INLINE | IBV_SEND_SIGNALED));
		CHECK(next(cq).status == IBV_WC_SUCCESS && !strcmp(mem, "child"));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, "parent", 7, 0, mem, mr->rkey, IBV_SEND_INLINE | IBV_SEND_SIGNALED));
	CHECK(next(cq).status == IBV_WC_SUCCESS && !strcmp(mem, "parent"));
}

#define THREADS 4
#define EACH 500

static struct ibv_qp *common;
static int seen[THREADS * EACH];

static int done;

static void *work(void *arg)
{
	long me = (long)arg;
	int posted = 0;
	struct ibv_wc wc;

	while (__atomic_load_n(&done, __ATOMIC_RELAXED) < THREADS * EACH) {
		if (posted < EACH && !post(common, IBV_WR_RDMA_WRITE, me * EACH + posted, mem + me * 64, 8, mr->lkey, mem + 4096 + me * 64, mr->rkey, IBV_SEND_SIGNALED))
			posted++;
		while (ibv_poll_cq(cq, 1, &wc) == 1) { /* of any thread */
			CHECK(wc.status == IBV_WC_SUCCESS);
			__atomic_add_fetch(&seen[wc.wr_id], 1, __ATOMIC_RELAXED);
			__atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

/* Threads share a queue pair and its completion queue: every request completes once. */
static void threads(void)
{
	pthread_t t[THREADS];
	struct ibv_qp *other;

	start();
	pair(&common, &other, 200);
	for (long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&t[i], NULL, work, (void *)i));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(t[i], NULL));
	for (int i = 0; i < THREADS * EACH; i++)
		CHECK(seen[i] == 1);
}

/* When a completion queue overruns, its queue pairs fail too. */
static void overrun(void)
{
	struct ibv_async_event e;
	struct ibv_cq *small;
	struct ibv_qp *a, *b;
	int fatal = 0, full = 0;

	start();
	small = ibv_create_cq(ctx, 3, NULL, NULL, 0);
	CHECK(small && small->cqe == 3);
	a = new_qp(small, NULL, 10);
	b = new_qp(cq, NULL, 10);
	connect_qp(a, b);
	connect_qp(b, a);
	for (int i = 0; i < 4; i++)
		CHECK(!post(a, IBV_WR_RDMA_WRITE, i, mem, 1, mr->lkey, mem, mr->rkey, IBV_SEND_SIGNALED));
	while (!fatal || !full) {
		e = event();
		fatal += e.event_type == IBV_EVENT_QP_FATAL && e.element.qp == a;
		full += e.event_type == IBV_EVENT_CQ_ERR && e.element.cq == small;
	}
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_cq(small));
}

/* A completion queue is resized with its waiting entries. */
static void resize(void)
{
	struct ibv_qp *a, *b;

	start();
	pair(&a, &b, 10);
	for (int i = 0; i < 3; i++)
		CHECK(!post(a, IBV_WR_RDMA_WRITE, i, mem, 1, mr->lkey, mem, mr->rkey, IBV_SEND_SIGNALED));
	CHECK(next(cq).wr_id == 0);
	CHECK(!ibv_resize_cq(cq, 5000) && cq->cqe >= 5000);
	CHECK(next(cq).wr_id == 1 && next(cq).wr_id == 2);
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 9, mem, 1, mr->lkey, mem, mr->rkey, IBV_SEND_SIGNALED));
	CHECK(next(cq).wr_id == 9);
	CHECK(ibv_resize_cq(cq, 0) == EINVAL && ibv_resize_cq(cq, 1 << 30) == EINVAL);
}

/* A shared receive queue feeds several queue pairs, and reports when it runs low. */
static void shared(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct ibv_async_event e;
	struct ibv_recv_wr *bad, wr = { .num_sge = 1 };
	struct ibv_qp *a, *b, *c, *d;
	struct ibv_srq *srq;
	int taken[8] = { 0 };

	start();
	srq = ibv_create_srq(pd, &init);
	CHECK(srq);
	for (int round = 0; round < 5; round++) {
		struct ibv_sge sge = { (uintptr_t)mem, 64, mr->lkey };

		wr.sg_list = &sge;
		for (int i = 0; i < 8; i++) {
			wr.wr_id = i;
			CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
		}
		CHECK(ibv_post_srq_recv(srq, &wr, &bad) == ENOMEM);
		if (round == 0) {
			a = new_qp(cq, NULL, 10);
			b = new_qp(cq, srq, 10);
			c = new_qp(cq, NULL, 10);
			d = new_qp(cq, srq, 10);
			connect_qp(a, b);
			connect_qp(b, a);
			connect_qp(c, d);
			connect_qp(d, c);
			CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
			CHECK(ibv_destroy_srq(srq) == EBUSY);
		}
		for (int i = 0; i < 8; i++)
			CHECK(!post(i % 2 ? a : c, IBV_WR_SEND, 100, mem, 8, mr->lkey, NULL, 0, IBV_SEND_SIGNALED));
		for (int i = 0; i < 16; i++) {
			struct ibv_wc wc = next(cq);

			CHECK(wc.status == IBV_WC_SUCCESS);
			if (wc.opcode == IBV_WC_RECV)
				taken[wc.wr_id]++;
		}
		for (int i = 0; i < 8; i++)
			CHECK(taken[i] == round + 1);
	}
	e = event();
	CHECK(e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && e.element.srq == srq);
	CHECK(!ibv_query_srq(srq, &attr) && attr.max_wr == 8 && attr.srq_limit == 0);
	CHECK(!ibv_destroy_qp(b) && !ibv_destroy_qp(d) && !ibv_destroy_srq(srq));
}

/* A memory window gives access to a part of a region. */
static void window(void)
{
	struct ibv_mr *big;
	struct ibv_mw *mw;
	struct ibv_send_wr *bad, wr = { .wr_id = 1, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_qp *a, *b;

	start();
	pair(&a, &b, 10);
	big = ibv_reg_mr(pd, mem, SIZE, ALL | IBV_ACCESS_MW_BIND);
	CHECK(big);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(mw);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ big, (uintptr_t)mem + 100, 10, IBV_ACCESS_REMOTE_WRITE };
	CHECK(!ibv_post_send(b, &wr, &bad));
	CHECK(next(cq).status == IBV_WC_SUCCESS);
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 2, "window", 7, 0, mem + 100, wr.bind_mw.rkey, IBV_SEND_INLINE | IBV_SEND_SIGNALED));
	CHECK(next(cq).status == IBV_WC_SUCCESS && !strcmp(mem + 100, "window"));
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 2, "window", 7, 0, mem + 104, wr.bind_mw.rkey, IBV_SEND_INLINE));
	CHECK(next(cq).status == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dealloc_mw(mw));
}

/* A reset queue pair forgets its requests and can be used again. */
static void reset(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp *a, *b;

	start();
	pair(&a, &b, 10);
	for (int i = 0; i < 3; i++) {
		CHECK(!receive(b, 1, mem, 8));
		CHECK(!post(a, IBV_WR_SEND, 2, mem, 8, mr->lkey, NULL, 0, IBV_SEND_SIGNALED));
		for (int k = 0; k < 2; k++)
			CHECK(next(cq).status == IBV_WC_SUCCESS);
		CHECK(!receive(b, 3, mem, 8));
		CHECK(!receive(a, 3, mem, 8));
		CHECK(!ibv_modify_qp(a, &attr, IBV_QP_STATE) && !ibv_modify_qp(b, &attr, IBV_QP_STATE));
		CHECK(receive(a, 3, mem, 8) == EINVAL && post(a, IBV_WR_SEND, 2, mem, 8, mr->lkey, NULL, 0, 0) == EINVAL);
		connect_qp(a, b);
		connect_qp(b, a);
	}
}

const struct check basics[] = {
	{ "transfers_carry_their_bytes", data },
	{ "wrong_key_ends_both_pairs", rkey },
	{ "unmapped_memory_is_a_fault", unmapped },
	{ "limits_are_kept", limits },
	{ "channel_can_be_polled", descriptor },
	{ "channel_closes_under_a_waiting_thread", closes },
	{ "forked_child_has_its_own_session", forked },
	{ "threads_share_a_pair", threads },
	{ "overrun_fails_the_pairs", overrun },
	{ "resized_queue_keeps_its_entries", resize },
	{ "shared_queue_feeds_several_pairs", shared },
	{ "window_gives_access_to_a_part", window },
	{ "reset_pair_can_be_used_again", reset },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	const struct check *lists[] = { basics, extended, misuses, unread, connections, features, sockets, extended_connections };

	if (argc > 1 && !strcmp(argv[1], "keep"))
		return keep(argv[2]);

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		for (const struct check *c = lists[i]; c->name; c++) {
			if (argc < 2) {
				puts(c->name);
			} else if (!strcmp(argv[1], c->name)) {
				alarm(110);
				c->run();
				return 0;
			}
		}
	}
	return argc < 2 ? 0 : 2;
}

/* unread.c: what verbs must not look at, what they accept, and the errors that they set. */
#include "kit.h"

#include <sys/mman.h>

/* garbage fills a struct as a program leaves it that does not initialise it. */
static void garbage(void *to, size_t n) { memset(to, 0xa5, n); }

/* modify changes a state and the attributes of a mask; all others are garbage. */
static int modify(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr, with = {
		.qp_state = to, .port_num = 1, .path_mtu = IBV_MTU_1024, .qp_access_flags = ALL, .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1,
		.max_rd_atomic = 1, .min_rnr_timer = 1, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .qkey = 7, .ah_attr = itself(),
	};

	garbage(&attr, sizeof(attr));
#define TAKE(bit, field)         \
	if (mask & IBV_QP_##bit) \
		attr.field = with.field;
	TAKE(STATE, qp_state)
	TAKE(PKEY_INDEX, pkey_index)
	TAKE(PORT, port_num)
	TAKE(ACCESS_FLAGS, qp_access_flags)
	TAKE(QKEY, qkey)
	TAKE(AV, ah_attr)
	TAKE(PATH_MTU, path_mtu)
	TAKE(DEST_QPN, dest_qp_num)
	TAKE(RQ_PSN, rq_psn)
	TAKE(MAX_DEST_RD_ATOMIC, max_dest_rd_atomic)
	TAKE(MIN_RNR_TIMER, min_rnr_timer)
	TAKE(SQ_PSN, sq_psn)
	TAKE(TIMEOUT, timeout)
	TAKE(RETRY_CNT, retry_cnt)
	TAKE(RNR_RETRY, rnr_retry)
	TAKE(MAX_QP_RD_ATOMIC, max_rd_atomic)
#undef TAKE
	if (mask & IBV_QP_AV)
		attr.ah_attr.port_num = 0xa5; /* the queue pair has a port already */
	return ibv_modify_qp(qp, &attr, mask);
}

static void masks(void)
{
	struct ibv_srq_init_attr srq_init;
	struct ibv_srq_attr srq_attr;
	struct ibv_modify_cq_attr moderation;
	struct ibv_cq_init_attr_ex cq_ex;
	struct ibv_send_wr *bad, wr;
	struct ibv_recv_wr *bad_recv, recv;
	struct ibv_qp *qp, *ud;
	struct ibv_srq *srq;
	struct ibv_cq_ex *ex;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	start();
	qp = new_qp(cq, NULL, 4);
	EQUAL("INIT", modify(qp, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	EQUAL("nothing", modify(qp, IBV_QPS_INIT, 0), 0);
	EQUAL("rights alone", modify(qp, 0, IBV_QP_ACCESS_FLAGS), 0);
	EQUAL("RTR", modify(qp, IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	EQUAL("RTS", modify(qp, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC), 0);
	EQUAL("a timer alone", modify(qp, 0, IBV_QP_MIN_RNR_TIMER), 0);

	/* A work request of which only the fields of its operation are set. */
	struct ibv_sge sge = { (uintptr_t)mem, 8, mr->lkey };

	garbage(&recv, sizeof(recv));
	recv.wr_id = 1;
	recv.next = NULL;
	recv.num_sge = 0;
	CHECK(!ibv_post_recv(qp, &recv, &bad_recv));
	garbage(&wr, sizeof(wr));
	wr.wr_id = 2;
	wr.next = NULL;
	wr.num_sge = 0;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_SIGNALED;
	CHECK(!ibv_post_send(qp, &wr, &bad));
	for (int i = 0; i < 2; i++) {
		wc = next(cq);
		EQUAL("an empty message", wc.status, IBV_WC_SUCCESS);
		CHECK(!(wc.wc_flags & IBV_WC_WITH_IMM));
	}
	ud = datagrams(&ah);
	CHECK(!receive(ud, 3, mem, 100));
	garbage(&wr, sizeof(wr));
	wr.next = NULL;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = ud->qp_num;
	wr.wr.ud.remote_qkey = 7;
	CHECK(!ibv_post_send(ud, &wr, &bad));
	for (int i = 0; i < 2; i++)
		EQUAL("a datagram", next(cq).status, IBV_WC_SUCCESS);

	garbage(&srq_init, sizeof(srq_init));
	srq_init.attr.max_wr = 4;
	srq_init.attr.max_sge = 1;
	srq = ibv_create_srq(pd, &srq_init);
	CHECK(srq);
	CHECK(!ibv_query_srq(srq, &srq_attr));
	EQUAL("a limit at creation", srq_attr.srq_limit, 0);
	garbage(&srq_attr, sizeof(srq_attr));
	srq_attr.srq_limit = 2;
	EQUAL("a limit", ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT), 0);
	EQUAL("nothing of a shared queue", ibv_modify_srq(srq, &srq_attr, 0), 0);
	garbage(&moderation, sizeof(moderation));
	moderation.attr_mask = IBV_CQ_ATTR_MODERATE;
	moderation.moderate.cq_count = 5;
	moderation.moderate.cq_period = 10;
	EQUAL("moderation", ibv_modify_cq(cq, &moderation), 0);
	garbage(&cq_ex, sizeof(cq_ex));
	cq_ex.cqe = 4;
	cq_ex.channel = NULL;
	cq_ex.comp_vector = 0;
	cq_ex.wc_flags = 0;
	cq_ex.comp_mask = 0;
	ex = ibv_create_cq_ex(ctx, &cq_ex);
	CHECK(ex);
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
}

/* REFUSES checks that a call returns an error number and sets errno to it. */
#define REFUSES(call, error)                \
	do {                                \
		errno = 0;                  \
		EQUAL(#call, call, error);  \
		EQUAL(#call, errno, error); \
	} while (0)

static void errnos(void)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_cq_init_attr_ex cq_init = { .cqe = 4 };
	struct ibv_poll_cq_attr later = { .comp_mask = 1 };
	union ibv_gid none = { .raw = { 1 } }, gid;
	struct ibv_qp *a, *b, *full;
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	struct ibv_cq_ex *ex;
	struct ibv_srq *srq;
	uint32_t handle;

	start();
	pair(&a, &b, 1);
	srq = ibv_create_srq(pd, &srq_init);
	ex = ibv_create_cq_ex(ctx, &cq_init);
	CHECK(srq && ex);
	REFUSES(ibv_dealloc_pd(pd), EBUSY);
	REFUSES(ibv_destroy_cq(cq), EBUSY);
	REFUSES(ibv_destroy_comp_channel(channel), EBUSY);
	REFUSES(ibv_query_port(ctx, 9, &port), EINVAL);
	REFUSES(ibv_query_gid_ex(ctx, 1, 200, &entry, 0), ENODATA);
	REFUSES(ibv_query_gid_ex(ctx, 1, 0, &entry, 1), EOPNOTSUPP);
	REFUSES(ibv_resize_cq(cq, 0), EINVAL);
	REFUSES(ibv_modify_cq(cq, &(struct ibv_modify_cq_attr){ 0 }), EINVAL);
	REFUSES(ibv_start_poll(ex, &later), EINVAL);
	REFUSES(ibv_modify_qp(a, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT }, IBV_QP_STATE), EINVAL);
	REFUSES(ibv_modify_qp(a, &(struct ibv_qp_attr){ 0 }, IBV_QP_ALT_PATH), EOPNOTSUPP);
	REFUSES(ibv_modify_qp_rate_limit(a, &(struct ibv_qp_rate_limit_attr){ .comp_mask = 1 }), EINVAL);
	REFUSES(ibv_modify_srq(srq, &(struct ibv_srq_attr){ .max_wr = 8 }, IBV_SRQ_MAX_WR), EOPNOTSUPP);
	REFUSES(ibv_attach_mcast(a, &none, 0), EINVAL);
	REFUSES(ibv_advise_mr(pd, 77, 0, NULL, 0), EOPNOTSUPP);
	REFUSES(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0), EINVAL);
	REFUSES(ibv_set_ece(a, &(struct ibv_ece){ .vendor_id = 1 }), EOPNOTSUPP);
	REFUSES(post(a, 77, 1, mem, 1, mr->lkey, NULL, 0, 0), EINVAL);
	full = new_qp(cq, NULL, 1);
	REFUSES(receive(full, 1, mem, 1), EINVAL);
	connect_qp(full, full);
	CHECK(!receive(full, 1, mem, 1));
	REFUSES(receive(full, 1, mem, 1), ENOMEM);
	CHECK(!ibv_post_srq_recv(srq, &(struct ibv_recv_wr){ 0 }, &(struct ibv_recv_wr *){ NULL }));
	REFUSES(ibv_post_srq_recv(srq, &(struct ibv_recv_wr){ 0 }, &(struct ibv_recv_wr *){ NULL }), ENOMEM);
	REFUSES(ibv_post_srq_recv(srq, &(struct ibv_recv_wr){ .num_sge = 9 }, &(struct ibv_recv_wr *){ NULL }), ENOMEM);

	/* Handles that the lab does not know. */
#define UNKNOWN(object, call)               \
	do {                                \
		handle = (object)->handle;  \
		(object)->handle = 4711;    \
		REFUSES(call, ENOENT);        \
		(object)->handle = handle;  \
	} while (0)
	UNKNOWN(pd, ibv_dealloc_pd(pd));
	UNKNOWN(mr, ibv_dereg_mr(mr));
	UNKNOWN(cq, ibv_destroy_cq(cq));
	UNKNOWN(a, ibv_destroy_qp(a));
	UNKNOWN(a, ibv_modify_qp(a, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE));
	UNKNOWN(srq, ibv_destroy_srq(srq));
	UNKNOWN(pd, ibv_reg_mr(pd, mem, 10, 0) ? 0 : errno);

	/* And those of another context of the same program. */
	struct ibv_context *first = ctx, *other = ibv_open_device(ctx->device);
	struct ibv_pd *spare = ibv_alloc_pd(ctx);

	CHECK(other && spare);
	spare->context = cq->context = a->context = srq->context = other;
	REFUSES(ibv_dealloc_pd(spare), ENOENT);
	REFUSES(ibv_destroy_cq(cq), ENOENT);
	REFUSES(ibv_destroy_qp(a), ENOENT);
	REFUSES(ibv_destroy_srq(srq), ENOENT);
	spare->context = cq->context = a->context = srq->context = first;
	CHECK(!ibv_dealloc_pd(spare));

	/* What succeeds leaves errno as it was. */
	errno = 77;
	CHECK(!ibv_query_gid(ctx, 1, 0, &gid) && !ibv_modify_qp(b, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE));
	EQUAL("errno after success", errno, 77);
}

/* Regions of no bytes, and of memory that the process may not write. */
static void regions(void)
{
	struct ibv_mr *empty, *region;
	struct ibv_qp *a, *b;
	char *readonly;

	start();
	empty = ibv_reg_mr(pd, mem, 0, ALL);
	CHECK(empty && empty->length == 0);
	pair(&a, &b, 4);
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, mem, 0, empty->lkey, mem, empty->rkey, IBV_SEND_SIGNALED));
	EQUAL("no bytes to no bytes", next(cq).status, IBV_WC_SUCCESS);
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, mem, 1, mr->lkey, mem, empty->rkey, IBV_SEND_SIGNALED));
	EQUAL("a byte to no bytes", next(cq).status, IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dereg_mr(empty));

	readonly = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(readonly != MAP_FAILED);
	errno = 0;
	CHECK(!ibv_reg_mr(pd, readonly, 8192, IBV_ACCESS_LOCAL_WRITE));
	EQUAL("LOCAL_WRITE to memory for reading", errno, EFAULT);
	CHECK(!mprotect(readonly, 4096, PROT_READ | PROT_WRITE));
	CHECK(!ibv_reg_mr(pd, readonly, 4097, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
	region = ibv_reg_mr(pd, readonly, 4096, IBV_ACCESS_LOCAL_WRITE);
	CHECK(region);
	EQUAL("rereg with memory for reading", ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL, readonly + 4096, 4096, IBV_ACCESS_LOCAL_WRITE), IBV_REREG_MR_ERR_CMD);
	CHECK(!ibv_dereg_mr(region));
	region = ibv_reg_mr(pd, readonly, 8192, IBV_ACCESS_REMOTE_READ);
	CHECK(region && !ibv_dereg_mr(region));
	region = ibv_reg_mr(pd, readonly, 8192, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	CHECK(region && !ibv_dereg_mr(region));
}

/* The memory of a shared queue's receives is in the queue's protection domain. */
static void shared_domain(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_recv_wr *bad, wr = { .num_sge = 1 };
	struct ibv_pd *other;
	struct ibv_mr *theirs;
	struct ibv_qp *a, *b;
	struct ibv_srq *srq;
	struct ibv_sge sge;
	struct ibv_wc wc;

	start();
	other = ibv_alloc_pd(ctx);
	theirs = ibv_reg_mr(other, mem, SIZE, ALL);
	srq = ibv_create_srq(other, &init);
	CHECK(other && theirs && srq);
	for (int foreign = 0; foreign < 2; foreign++) {
		a = new_qp(cq, NULL, 4);
		b = new_qp(cq, srq, 4); /* of pd */
		connect_qp(a, b);
		connect_qp(b, a);
		sge = (struct ibv_sge){ (uintptr_t)mem + 4096, 100, foreign ? mr->lkey : theirs->lkey };
		wr.wr_id = 1;
		wr.sg_list = &sge;
		CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
		strcpy(mem, "to the shared queue");
		CHECK(!post(a, IBV_WR_SEND, 2, mem, 20, mr->lkey, NULL, 0, IBV_SEND_SIGNALED));
		for (int i = 0; i < 2; i++) {
			wc = next(cq);
			if (wc.wr_id == 1)
				EQUAL("a receive of the shared queue", wc.status, foreign ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
			else
				EQUAL("a send to the shared queue", wc.status, foreign ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
		}
		CHECK(foreign || !strcmp(mem + 4096, "to the shared queue"));
		CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
	}
}

/* A datagram that does not fit is dropped; the receive request waits for the next one. */
static void long_datagrams(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_ah *ah;
	struct ibv_qp *ud;
	struct ibv_wc wc;

	start();
	sge = (struct ibv_sge){ (uintptr_t)mem, 0, mr->lkey };
	ud = datagrams(&ah);
	CHECK(!receive(ud, 1, mem + 4096, 40 + 50));
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = ud->qp_num;
	wr.wr.ud.remote_qkey = 7;
	for (int i = 0; i < 2; i++) {
		wr.wr_id = 2 + i;
		sge.length = i ? 50 : 51;
		CHECK(!ibv_post_send(ud, &wr, &bad));
		wc = next(cq);
		if (i && wc.wr_id == 1)
			wc = next(cq);
		EQUAL("sending", wc.wr_id, 2 + i);
		EQUAL("sending", wc.status, IBV_WC_SUCCESS);
		CHECK(!ibv_query_qp(ud, &attr, IBV_QP_STATE, &init));
		EQUAL("the state", attr.qp_state, IBV_QPS_RTS);
	}
}

/* A WRITE with immediate data and a wrong key ends the receive that it would have completed. */
static void immediate(void)
{
	struct ibv_qp *a, *b;
	struct ibv_wc wc;

	start();
	pair(&a, &b, 4);
	CHECK(!receive(b, 1, mem, 8) && !receive(b, 3, mem, 8));
	CHECK(!post(a, IBV_WR_RDMA_WRITE_WITH_IMM, 2, mem, 8, mr->lkey, mem + 4096, mr->rkey + 0x4200, IBV_SEND_SIGNALED));
	for (int i = 0; i < 3; i++) {
		wc = next(cq);
		EQUAL("a wrong key", wc.status, wc.wr_id == 1 ? IBV_WC_LOC_ACCESS_ERR : wc.wr_id == 2 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
	}
	EQUAL("its event", event().event_type, IBV_EVENT_QP_ACCESS_ERR);
}

const struct check unread[] = {
	{ "fields_outside_a_mask_are_not_read", masks },
	{ "errors_are_in_errno_too", errnos },
	{ "regions_may_be_empty_but_not_unwritable", regions },
	{ "shared_queue_has_its_own_domain", shared_domain },
	{ "long_datagrams_are_dropped", long_datagrams },
	{ "wrong_key_ends_the_receive_of_an_immediate", immediate },
	{ NULL, NULL },
};

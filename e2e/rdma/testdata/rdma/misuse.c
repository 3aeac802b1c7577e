/* misuse.c: responses to misused verbs: the errno of the man page, or a completion's status. */
#include "kit.h"

#include <sys/mman.h>

/* Queue pairs that cannot be made. */
static void qp_caps(void)
{
	struct ibv_device_attr d;
	struct ibv_cq *of_nobody;

	start();
	CHECK(!ibv_query_device(ctx, &d));
	const struct {
		const char *what;
		enum ibv_qp_type type;
		struct ibv_qp_cap cap;
		int error;
	} cases[] = {
		{ "max_send_wr", IBV_QPT_RC, { d.max_qp_wr + 1, 1, 1, 1, 0 }, EINVAL },
		{ "max_recv_wr", IBV_QPT_RC, { 1, d.max_qp_wr + 1, 1, 1, 0 }, EINVAL },
		{ "max_send_sge", IBV_QPT_UC, { 1, 1, d.max_sge + 1, 1, 0 }, EINVAL },
		{ "max_recv_sge", IBV_QPT_UD, { 1, 1, 1, d.max_sge + 1, 0 }, EINVAL },
		{ "max_inline_data", IBV_QPT_RC, { 1, 1, 1, 1, 1 << 16 }, EINVAL },
		{ "a negative number", IBV_QPT_RC, { -1, 1, 1, 1, 0 }, EINVAL },
		{ "a target without a domain", IBV_QPT_XRC_RECV, { 1, 1, 1, 1, 0 }, EINVAL },
		{ "raw packets", IBV_QPT_RAW_PACKET, { 1, 1, 1, 1, 0 }, EOPNOTSUPP },
		{ "no such type", 99, { 1, 1, 1, 1, 0 }, EOPNOTSUPP },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = cases[i].type, .cap = cases[i].cap };

		errno = 0;
		CHECK(!ibv_create_qp(pd, &init));
		EQUAL(cases[i].what, errno, cases[i].error);
	}
	of_nobody = NULL;
	struct ibv_qp_init_attr init = { .send_cq = of_nobody, .recv_cq = cq, .qp_type = IBV_QPT_RC };

	CHECK(!ibv_create_qp(pd, &init) && errno == EINVAL);
	CHECK(!ibv_create_cq(ctx, 0, NULL, NULL, 0) && errno == EINVAL);
	CHECK(!ibv_create_cq(ctx, -1, NULL, NULL, 0) && errno == EINVAL);
	CHECK(!ibv_create_cq(ctx, d.max_cqe + 1, NULL, NULL, 0) && errno == EINVAL);
	CHECK(!ibv_create_cq(ctx, 1, NULL, NULL, 1) && errno == EINVAL);
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = d.max_srq_wr + 1, .max_sge = 1 } };

	CHECK(!ibv_create_srq(pd, &srq) && errno == EINVAL);
	srq.attr = (struct ibv_srq_attr){ .max_wr = 1, .max_sge = d.max_srq_sge + 1 };
	CHECK(!ibv_create_srq(pd, &srq) && errno == EINVAL);
}

/* Work requests that are refused at once. None of them is posted or harms the queue pair. */
static void posting(void)
{
	struct ibv_sge sges[4] = { 0 };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .sg_list = sges, .num_sge = 4 };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = sges, .num_sge = 4 };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UC, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_send_wr list[3];
	struct ibv_ah *ah;
	struct ibv_qp *a, *b, *uc, *ud;
	struct ibv_wc wc;

	start();
	init.send_cq = init.recv_cq = cq;
	uc = ibv_create_qp(pd, &init);
	CHECK(uc);
	EQUAL("send in RESET", post(uc, IBV_WR_SEND, 1, mem, 1, mr->lkey, NULL, 0, 0), EINVAL);
	EQUAL("receive in RESET", receive(uc, 1, mem, 1), EINVAL);
	CHECK(!ibv_modify_qp(uc, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	EQUAL("send in INIT", post(uc, IBV_WR_SEND, 1, mem, 1, mr->lkey, NULL, 0, 0), EINVAL);
	EQUAL("receive in INIT", receive(uc, 1, mem, 1), 0);

	pair(&a, &b, 4);
	ud = datagrams(&ah);
	EQUAL("too many elements to send", ibv_post_send(a, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	EQUAL("too many elements to receive", ibv_post_recv(b, &recv, &bad_recv), EINVAL);
	CHECK(bad_recv == &recv);
	wr.num_sge = -1;
	EQUAL("fewer than no elements", ibv_post_send(a, &wr, &bad), EINVAL);
	const struct {
		const char *what;
		struct ibv_qp *qp;
		int opcode;
		uint32_t n;
		int flags;
	} cases[] = {
		{ "too many inline bytes", a, IBV_WR_SEND, 65, IBV_SEND_INLINE },
		{ "inline bytes of a READ", a, IBV_WR_RDMA_READ, 8, IBV_SEND_INLINE },
		{ "an atomic of 4 bytes", a, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 0 },
		{ "an atomic of 16 bytes", a, IBV_WR_ATOMIC_CMP_AND_SWP, 16, 0 },
		{ "no such operation", a, 77, 8, 0 },
		{ "TSO", a, IBV_WR_TSO, 8, 0 },
		{ "WRITE by UD", ud, IBV_WR_RDMA_WRITE, 8, 0 },
		{ "READ by UD", ud, IBV_WR_RDMA_READ, 8, 0 },
		{ "SEND without an address handle by UD", ud, IBV_WR_SEND, 8, 0 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		EQUAL(cases[i].what, post(cases[i].qp, cases[i].opcode, 1, mem, cases[i].n, mr->lkey, NULL, 0, cases[i].flags), EINVAL);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = uc->qp_num, .ah_attr = itself() };
	CHECK(!ibv_modify_qp(uc, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(uc, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	EQUAL("READ by UC", post(uc, IBV_WR_RDMA_READ, 1, mem, 8, mr->lkey, mem, mr->rkey, 0), EINVAL);
	EQUAL("atomic by UC", post(uc, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, mem, 8, mr->lkey, mem, mr->rkey, 0), EINVAL);
	EQUAL("SEND with invalidate by UC", post(uc, IBV_WR_SEND_WITH_INV, 1, mem, 8, mr->lkey, mem, mr->rkey, 0), EINVAL);
	EQUAL("more inline bytes than fit where none were asked for", post(uc, IBV_WR_SEND, 1, mem, init.cap.max_inline_data + 1, 0, NULL, 0, IBV_SEND_INLINE), EINVAL);

	/* A list is posted up to the first bad request. */
	for (int i = 0; i < 3; i++) {
		sges[0] = (struct ibv_sge){ (uintptr_t)mem, 1, mr->lkey };
		list[i] = (struct ibv_send_wr){
			.wr_id = i, .next = i < 2 ? &list[i + 1] : NULL, .opcode = i == 1 ? 77 : IBV_WR_RDMA_WRITE, .sg_list = sges, .num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED, .wr.rdma = { (uintptr_t)mem, mr->rkey },
		};
	}
	EQUAL("the second of a list", ibv_post_send(a, list, &bad), EINVAL);
	CHECK(bad == &list[1]);
	wc = next(cq);
	CHECK(wc.wr_id == 0 && wc.status == IBV_WC_SUCCESS && !ibv_poll_cq(cq, 1, &wc));

	for (int i = 0; i < 4; i++)
		EQUAL("filling", post(a, IBV_WR_SEND, i, mem, 1, mr->lkey, NULL, 0, 0), 0);
	EQUAL("a full send queue", post(a, IBV_WR_SEND, 5, mem, 1, mr->lkey, NULL, 0, 0), ENOMEM);
	for (int i = 0; i < 4; i++)
		CHECK(!receive(b, i, mem, 1));
	for (int i = 0; i < 4; i++)
		CHECK(next(cq).opcode == IBV_WC_RECV);
	for (int i = 0; i < 4; i++)
		EQUAL("filling", receive(b, i, mem, 1), 0);
	EQUAL("a full receive queue", receive(b, 5, mem, 1), ENOMEM);
}

static int modify(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = { .qp_state = to, .port_num = 1, .path_mtu = IBV_MTU_1024, .ah_attr = { .port_num = 1, .is_global = 1 } };

	CHECK(!ibv_query_gid(ctx, 1, 0, &attr.ah_attr.grh.dgid));
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask);
}

/* Changes of state and attributes that ibv_modify_qp(3) does not allow. */
static void states(void)
{
	enum { INIT = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, RTS = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC };
	enum { RTR = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER };
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	start();
	qp = new_qp(cq, NULL, 4);
	EQUAL("RESET to RTR", modify(qp, IBV_QPS_RTR, RTR), EINVAL);
	EQUAL("RESET to RTS", modify(qp, IBV_QPS_RTS, RTS), EINVAL);
	EQUAL("no access flags", modify(qp, IBV_QPS_INIT, INIT & ~IBV_QP_ACCESS_FLAGS), EINVAL);
	EQUAL("a Q_Key of RC", modify(qp, IBV_QPS_INIT, INIT | IBV_QP_QKEY), EINVAL);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 2 };
	EQUAL("no such port", ibv_modify_qp(qp, &attr, IBV_QP_STATE | INIT), EINVAL);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1, .pkey_index = 1 };
	EQUAL("no such P_Key", ibv_modify_qp(qp, &attr, IBV_QP_STATE | INIT), EINVAL);
	EQUAL("INIT", modify(qp, IBV_QPS_INIT, INIT), 0);
	EQUAL("INIT to RTS", modify(qp, IBV_QPS_RTS, RTS), EINVAL);
	for (int bit = IBV_QP_AV; bit <= IBV_QP_DEST_QPN; bit <<= 1)
		if (bit & RTR)
			EQUAL("an attribute less", modify(qp, IBV_QPS_RTR, RTR & ~bit), EINVAL);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = 9, .ah_attr = { .port_num = 1, .is_global = 1 } };
	EQUAL("no such MTU", ibv_modify_qp(qp, &attr, IBV_QP_STATE | RTR), EINVAL);
	attr.path_mtu = IBV_MTU_1024;
	EQUAL("no GID", ibv_modify_qp(qp, &attr, IBV_QP_STATE | RTR), EINVAL);
	EQUAL("RTR", modify(qp, IBV_QPS_RTR, RTR), 0);
	EQUAL("RTR to SQD", modify(qp, IBV_QPS_SQD, 0), EINVAL);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .retry_cnt = 8 };
	EQUAL("too many retries", ibv_modify_qp(qp, &attr, IBV_QP_STATE | RTS), EINVAL);
	EQUAL("RTS", modify(qp, IBV_QPS_RTS, RTS), 0);
	attr = (struct ibv_qp_attr){ .cur_qp_state = IBV_QPS_RTR, .qp_access_flags = 0 };
	EQUAL("not the current state", ibv_modify_qp(qp, &attr, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS), EINVAL);
	EQUAL("no such state", modify(qp, 17, 0), EINVAL);
	EQUAL("to the error state", modify(qp, IBV_QPS_ERR, 0), 0);
	EQUAL("and out of it", modify(qp, IBV_QPS_RTS, 0), EINVAL);
	EQUAL("to RESET", modify(qp, IBV_QPS_RESET, 0), 0);
	EQUAL("RESET to the error state", modify(qp, IBV_QPS_ERR, 0), EINVAL);
}

/* Memory that cannot be registered, and objects still in use by others. */
static void objects(void)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_pd *other;
	struct ibv_qp *a, *b, *ud;
	struct ibv_srq *srq;
	struct ibv_mr *region;
	struct ibv_mw *mw;
	struct ibv_ah *ah;

	start();
	const struct {
		const char *what;
		void *addr;
		size_t n;
		int access, error;
	} regions[] = {
		{ "REMOTE_WRITE alone", mem, 100, IBV_ACCESS_REMOTE_WRITE, EINVAL },
		{ "REMOTE_ATOMIC alone", mem, 100, IBV_ACCESS_REMOTE_ATOMIC, EINVAL },
		{ "a right that is none", mem, 100, 1 << 15, EOPNOTSUPP },
		{ "no memory", (void *)4096, 100, 0, EFAULT },
		{ "memory that ends", mem + SIZE - 100, 1 << 30, 0, EFAULT },
		{ "more than there is", mem, SIZE_MAX, 0, EINVAL },
	};
	for (size_t i = 0; i < sizeof(regions) / sizeof(*regions); i++) {
		errno = 0;
		CHECK(!ibv_reg_mr(pd, regions[i].addr, regions[i].n, regions[i].access));
		EQUAL(regions[i].what, errno, regions[i].error);
	}
	/* Access flags that are hints are ignored. */
	region = ibv_reg_mr(pd, mem, 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
	CHECK(region);
	EQUAL("a region that is there", ibv_dealloc_pd(pd), EBUSY);
	EQUAL("rereg without reason", ibv_rereg_mr(region, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	EQUAL("rereg with nothing", ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EQUAL("rereg of what is none", ibv_rereg_mr(region, 64, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	CHECK(!ibv_dereg_mr(region));

	CHECK(!ibv_create_ah(pd, &to) && errno == EINVAL); /* no GID */
	to.is_global = 0;
	CHECK(!ibv_create_ah(pd, &to) && errno == EINVAL);
	ud = datagrams(&ah);
	pair(&a, &b, 4);
	EQUAL("a queue that completes queue pairs", ibv_destroy_cq(cq), EBUSY);
	EQUAL("a channel of a queue", ibv_destroy_comp_channel(channel), EBUSY);
	EQUAL("a group of RC", ibv_attach_mcast(a, &group, 0), EINVAL);
	EQUAL("an address that is no group", ibv_attach_mcast(ud, &(union ibv_gid){ .raw = { 1 } }, 0), EINVAL);
	EQUAL("a group that it is not in", ibv_detach_mcast(ud, &group, 0), EINVAL);
	CHECK(!ibv_attach_mcast(ud, &group, 0));
	EQUAL("a member of a group", ibv_destroy_qp(ud), EBUSY);
	CHECK(!ibv_detach_mcast(ud, &group, 0) && !ibv_destroy_qp(ud) && !ibv_destroy_ah(ah));

	other = ibv_alloc_pd(ctx);
	mw = ibv_alloc_mw(other, IBV_MW_TYPE_1);
	CHECK(other && mw);
	EQUAL("a window of another domain", ibv_bind_mw(a, mw, &(struct ibv_mw_bind){ .bind_info = { mr, (uintptr_t)mem, 10, 0 } }), EPERM);
	EQUAL("a domain with a window", ibv_dealloc_pd(other), EBUSY);
	CHECK(!ibv_dealloc_mw(mw) && !ibv_dealloc_pd(other));
	CHECK(!ibv_alloc_mw(pd, 3) && errno == EINVAL);

	srq = ibv_create_srq(pd, &srq_init);
	CHECK(srq);
	EQUAL("a limit beyond the queue", ibv_modify_srq(srq, &(struct ibv_srq_attr){ .srq_limit = 5 }, IBV_SRQ_LIMIT), EINVAL);
	EQUAL("another size", ibv_modify_srq(srq, &(struct ibv_srq_attr){ .max_wr = 8 }, IBV_SRQ_MAX_WR), EOPNOTSUPP);
	EQUAL("the queue pair has receives of the shared queue", receive(new_qp(cq, srq, 4), 1, mem, 1), EINVAL);
	EQUAL("moderation without a period", ibv_modify_cq(cq, &(struct ibv_modify_cq_attr){ .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { 5, 0 } }), EINVAL);
	EQUAL("moderation", ibv_modify_cq(cq, &(struct ibv_modify_cq_attr){ .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { 5, 10 } }), 0);
	EQUAL("a rate limit in RESET", ibv_modify_qp_rate_limit(new_qp(cq, NULL, 4), &(struct ibv_qp_rate_limit_attr){ .rate_limit = 1000 }), EINVAL);
	EQUAL("a burst without a rate limit", ibv_modify_qp_rate_limit(a, &(struct ibv_qp_rate_limit_attr){ .max_burst_sz = 10000 }), EINVAL);
	EQUAL("a typical packet without a rate limit", ibv_modify_qp_rate_limit(a, &(struct ibv_qp_rate_limit_attr){ .typical_pkt_sz = 1024 }), EINVAL);
	EQUAL("a rate limit of a later kind", ibv_modify_qp_rate_limit(a, &(struct ibv_qp_rate_limit_attr){ .rate_limit = 1000, .comp_mask = 1 }), EINVAL);
	EQUAL("nothing to modify", ibv_modify_cq(cq, &(struct ibv_modify_cq_attr){ 0 }), EINVAL);

	/* Services that the NIC does not have are refused with EOPNOTSUPP. */
	CHECK(!ibv_alloc_null_mr(pd) && errno == EOPNOTSUPP);
	CHECK(!ibv_alloc_dm(ctx, &(struct ibv_alloc_dm_attr){ 0 }) && errno == EOPNOTSUPP);
	CHECK(!ibv_create_flow(a, &(struct ibv_flow_attr){ 0 }) && errno == EOPNOTSUPP);
	CHECK(!ibv_create_wq(ctx, &(struct ibv_wq_init_attr){ 0 }) && errno == EOPNOTSUPP);
	CHECK(!ibv_create_counters(ctx, &(struct ibv_counters_init_attr){ 0 }) && errno == EOPNOTSUPP);
	CHECK(!ibv_import_device(1) && errno == EOPNOTSUPP);
	CHECK(!ibv_reg_dmabuf_mr(pd, 0, 10, 0, 1, 0) && errno == EOPNOTSUPP);
}

/*
 * Work that fails with an error at the requester; the responder's queue pair is in
 * the error state, with an event.
 */
static void rights(void)
{
	enum { RD = IBV_ACCESS_REMOTE_READ, WR = IBV_ACCESS_REMOTE_WRITE, AT = IBV_ACCESS_REMOTE_ATOMIC, LW = IBV_ACCESS_LOCAL_WRITE };
	const struct {
		const char *what;
		enum ibv_wr_opcode opcode;
		int region, pair; /* rights */
		int from, n;      /* requested bytes, of a region of bytes 4096 to 8191 */
		enum ibv_wc_status status;
		int event;
	} cases[] = {
		{ "WRITE without right", IBV_WR_RDMA_WRITE, LW | RD | AT, ALL, 4096, 8, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ "READ without right", IBV_WR_RDMA_READ, LW | WR | AT, ALL, 4096, 8, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ "atomic without right", IBV_WR_ATOMIC_FETCH_AND_ADD, LW | RD | WR, ALL, 4096, 8, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ "WRITE beyond the end", IBV_WR_RDMA_WRITE, ALL, ALL, 8185, 8, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ "WRITE before the beginning", IBV_WR_RDMA_WRITE, ALL, ALL, 4095, 8, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ "long WRITE beyond the end", IBV_WR_RDMA_WRITE, ALL, ALL, 4096, 5000, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ "READ beyond the end", IBV_WR_RDMA_READ, ALL, ALL, 4096, 5000, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ "atomic that is not aligned", IBV_WR_ATOMIC_FETCH_AND_ADD, ALL, ALL, 4097, 8, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR },
		{ "WRITE to a queue pair without right", IBV_WR_RDMA_WRITE, ALL, LW, 4096, 8, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR },
		{ "READ from a queue pair without right", IBV_WR_RDMA_READ, ALL, LW, 4096, 8, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR },
	};
	struct ibv_qp_init_attr init;
	struct ibv_async_event e;
	struct ibv_qp_attr attr;
	struct ibv_qp *a, *b;
	struct ibv_mr *region;
	struct ibv_pd *other;
	uint32_t key;

	start();
	other = ibv_alloc_pd(ctx);
	CHECK(other);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases) + 2; i++) {
		bool gone = i == sizeof(cases) / sizeof(*cases), foreign = i > sizeof(cases) / sizeof(*cases);
		size_t c = gone || foreign ? 0 : i;
		const char *what = gone ? "a region that is no more" : foreign ? "a region of another domain" : cases[c].what;

		region = ibv_reg_mr(foreign ? other : pd, mem + 4096, 4096, gone || foreign ? ALL : cases[c].region);
		CHECK(region);
		key = region->rkey;
		if (gone)
			CHECK(!ibv_dereg_mr(region));
		a = new_qp(cq, NULL, 4);
		b = new_qp(cq, NULL, 4);
		connect_qp(a, b);
		connect_with(b, a, (struct how){ cases[c].pair, 7, 7 });
		EQUAL(what, post(a, cases[c].opcode, 1, mem + 16384, cases[c].n, mr->lkey, mem + cases[c].from, key, 0), 0);
		EQUAL(what, next(cq).status, cases[c].status);
		e = event();
		EQUAL(what, e.event_type, cases[c].event);
		CHECK(e.element.qp == b);
		CHECK(!ibv_query_qp(b, &attr, IBV_QP_STATE, &init));
		EQUAL(what, attr.qp_state, IBV_QPS_ERR);
		CHECK(!ibv_query_qp(a, &attr, IBV_QP_STATE, &init));
		EQUAL(what, attr.qp_state, IBV_QPS_ERR);
		CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
		if (!gone)
			CHECK(!ibv_dereg_mr(region));
		CHECK(!mem[4095] && !mem[4096] && !mem[8191] && !mem[8192]);
	}
}

/* Errors of local memory. */
static void local(void)
{
	struct ibv_mr *small, *readable;
	struct ibv_pd *other;
	struct ibv_qp *a, *b;

	start();
	other = ibv_alloc_pd(ctx);
	small = ibv_reg_mr(other, mem, 100, ALL);
	readable = ibv_reg_mr(pd, mem, 100, 0);
	CHECK(small && readable);
	const struct {
		const char *what;
		enum ibv_wr_opcode opcode;
		uint32_t key;
		char *from;
		uint32_t n;
	} cases[] = {
		{ "no such key", IBV_WR_RDMA_WRITE, mr->lkey + 0x4200, mem, 8 },
		{ "a key of another domain", IBV_WR_SEND, small->lkey, mem, 8 },
		{ "beyond the end", IBV_WR_RDMA_WRITE, readable->lkey, mem + 96, 8 },
		{ "READ into memory that is for reading", IBV_WR_RDMA_READ, readable->lkey, mem, 8 },
		{ "atomic into memory that is for reading", IBV_WR_ATOMIC_FETCH_AND_ADD, readable->lkey, mem, 8 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		pair(&a, &b, 4);
		CHECK(!receive(b, 9, mem + 4096, 100));
		EQUAL(cases[i].what, post(a, cases[i].opcode, 1, cases[i].from, cases[i].n, cases[i].key, mem + 8192, mr->rkey, 0), 0);
		EQUAL(cases[i].what, next(cq).status, IBV_WC_LOC_PROT_ERR);
		CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
	}
}

/* Receives that do not fit the incoming message. */
static void receives(void)
{
	struct ibv_sge sge = { 0, 100, 0 };
	struct ibv_recv_wr *bad, wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 };
	struct ibv_wc wc;
	struct ibv_ah *ah;
	struct ibv_qp *a, *b, *ud;

	start();
	for (int c = 0; c < 3; c++) {
		static const char *const what[] = { "a small buffer", "a small buffer for many packets", "a buffer with no key" };

		pair(&a, &b, 4);
		sge.addr = (uintptr_t)mem;
		if (c < 2)
			CHECK(!receive(b, 1, mem, 99));
		else
			CHECK(!ibv_post_recv(b, &wr, &bad));
		CHECK(!receive(b, 3, mem, 99));
		CHECK(!post(a, IBV_WR_SEND, 2, mem, c == 1 ? 5000 : 100, mr->lkey, NULL, 0, 0));
		for (int n = 0; n < 3; n++) {
			wc = next(cq);
			switch (wc.wr_id) {
			case 1:
				EQUAL(what[c], wc.status, c < 2 ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR);
				break;
			case 2:
				EQUAL(what[c], wc.status, c < 2 ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR);
				break;
			default:
				EQUAL(what[c], wc.status, IBV_WC_WR_FLUSH_ERR);
			}
		}
		CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
	}
	/* A datagram needs room for the GRH too; one that is too long is not sent. */
	ud = datagrams(&ah);
	struct ibv_sge list = { (uintptr_t)mem, 1025, mr->lkey };
	struct ibv_send_wr *bad_send, send = { .wr_id = 5, .opcode = IBV_WR_SEND, .sg_list = &list, .num_sge = 1, .wr.ud = { ah, ud->qp_num, 7 } };

	CHECK(!ibv_post_send(ud, &send, &bad_send));
	wc = next(cq);
	EQUAL("a datagram longer than the MTU", wc.status, IBV_WC_LOC_LEN_ERR);
}

/* A peer that is not ready or does not exist; and flushed work. */
static void peers(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *a, *b;
	struct ibv_wc wc;

	start();
	a = new_qp(cq, NULL, 4);
	b = new_qp(cq, NULL, 4);
	connect_with(a, b, (struct how){ ALL, 1, 1 });
	connect_with(b, a, (struct how){ ALL, 1, 1 });
	for (int i = 0; i < 3; i++)
		CHECK(!post(a, IBV_WR_SEND, i, mem, 8, mr->lkey, NULL, 0, 0));
	EQUAL("nobody receives", next(cq).status, IBV_WC_RNR_RETRY_EXC_ERR);
	for (int i = 1; i < 3; i++) {
		wc = next(cq);
		CHECK(wc.wr_id == (uint64_t)i);
		EQUAL("behind it", wc.status, IBV_WC_WR_FLUSH_ERR);
	}
	/* In the error state work is accepted and flushed. */
	CHECK(!post(a, IBV_WR_SEND, 8, mem, 8, mr->lkey, NULL, 0, 0));
	wc = next(cq);
	CHECK(wc.wr_id == 8 && wc.status == IBV_WC_WR_FLUSH_ERR);
	CHECK(!receive(a, 9, mem, 8));
	wc = next(cq);
	CHECK(wc.wr_id == 9 && wc.status == IBV_WC_WR_FLUSH_ERR);
	CHECK(!receive(b, 10, mem, 8));
	CHECK(!ibv_modify_qp(b, &attr, IBV_QP_STATE));
	wc = next(cq);
	CHECK(wc.wr_id == 10 && wc.status == IBV_WC_WR_FLUSH_ERR);
	CHECK(!ibv_destroy_qp(a));

	a = new_qp(cq, NULL, 4);
	connect_with(a, b, (struct how){ ALL, 1, 1 });
	CHECK(!ibv_destroy_qp(b));
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, mem, 8, mr->lkey, mem, mr->rkey, 0));
	EQUAL("the peer is gone", next(cq).status, IBV_WC_RETRY_EXC_ERR);
	CHECK(!ibv_destroy_qp(a));
}

const struct check misuses[] = {
	{ "impossible_pairs_are_refused", qp_caps },
	{ "bad_posts_are_refused", posting },
	{ "bad_states_are_refused", states },
	{ "objects_in_use_remain", objects },
	{ "rights_are_checked", rights },
	{ "local_errors_complete", local },
	{ "unfit_receives_complete", receives },
	{ "absent_peers_end_requests", peers },
	{ NULL, NULL },
};

/* extended.c: checks of ibv_wr_*(), of ibv_create_cq_ex() and of the NIC's clock. */
#include "kit.h"

#include <endian.h>
#include <poll.h>
#include <time.h>

#define RC_OPS 0x3ff /* all but TSO */
#define FIELDS (IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)

static struct ibv_qp_init_attr_ex init_of(enum ibv_qp_type type, uint64_t ops)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.cap = { .max_send_wr = 10, .max_recv_wr = 10, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64 },
		.pd = pd, .send_ops_flags = ops,
	};
}

static struct ibv_qp_ex *new_ex(struct ibv_cq *to, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = init_of(IBV_QPT_RC, ops);
	struct ibv_qp *qp;

	init.send_cq = init.recv_cq = to;
	qp = ibv_create_qp_ex(ctx, &init);
	CHECK(qp);
	CHECK(ibv_qp_to_qp_ex(qp));
	return ibv_qp_to_qp_ex(qp);
}

/* done waits for the completion of a work request that was signaled. */
static struct ibv_wc done(struct ibv_cq *from, uint64_t id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = next(from);

	EQUAL(ibv_wc_status_str(wc.status), wc.status, IBV_WC_SUCCESS);
	EQUAL("completion", wc.wr_id, id);
	EQUAL("completion", wc.opcode, opcode);
	return wc;
}

/* The operations of RC, each built and executed, with its data and its completions. */
static void wr(void)
{
	struct ibv_data_buf bufs[2] = { { "in", 2 }, { "line", 5 } };
	struct ibv_mw_bind_info info;
	struct ibv_cq *other;
	struct ibv_qp_ex *a, *b;
	struct ibv_sge sges[2];
	struct ibv_mw *mw;
	struct ibv_wc wc;
	uint64_t *number;
	uint32_t key;

	start();
	number = (uint64_t *)(mem + 8192);
	other = ibv_create_cq(ctx, 100, NULL, NULL, 0);
	a = new_ex(cq, RC_OPS);
	b = new_ex(other, RC_OPS);
	connect_qp(&a->qp_base, &b->qp_base);
	connect_qp(&b->qp_base, &a->qp_base);
	a->wr_flags = b->wr_flags = IBV_SEND_SIGNALED;

	/* Two at once. */
	strcpy(mem, "write");
	ibv_wr_start(a);
	a->wr_id = 1;
	ibv_wr_rdma_write(a, mr->rkey, (uintptr_t)mem + 4096);
	ibv_wr_set_sge(a, mr->lkey, (uintptr_t)mem, 6);
	a->wr_id = 2;
	ibv_wr_rdma_write(a, mr->rkey, (uintptr_t)mem + 5000);
	ibv_wr_set_inline_data(a, "inline", 7);
	EQUAL("complete", ibv_wr_complete(a), 0);
	done(cq, 1, IBV_WC_RDMA_WRITE);
	done(cq, 2, IBV_WC_RDMA_WRITE);
	CHECK(!strcmp(mem + 4096, "write") && !strcmp(mem + 5000, "inline"));

	CHECK(!receive(&b->qp_base, 30, mem + 100, 100));
	ibv_wr_start(a);
	a->wr_id = 3;
	ibv_wr_rdma_write_imm(a, mr->rkey, (uintptr_t)mem + 4096, htobe32(0x12345678));
	ibv_wr_set_inline_data_list(a, 2, bufs);
	EQUAL("complete", ibv_wr_complete(a), 0);
	done(cq, 3, IBV_WC_RDMA_WRITE);
	wc = done(other, 30, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM && be32toh(wc.imm_data) == 0x12345678 && wc.byte_len == 7 && !strcmp(mem + 4096, "inline"));

	CHECK(!receive(&b->qp_base, 31, mem + 100, 100) && !receive(&b->qp_base, 32, mem + 200, 100));
	strcpy(mem, "scatter gather");
	sges[0] = (struct ibv_sge){ (uintptr_t)mem + 8, 7, mr->lkey };
	sges[1] = (struct ibv_sge){ (uintptr_t)mem, 7, mr->lkey };
	ibv_wr_start(a);
	a->wr_id = 4;
	ibv_wr_send(a);
	ibv_wr_set_sge_list(a, 2, sges);
	a->wr_id = 5;
	ibv_wr_send_imm(a, htobe32(7));
	EQUAL("complete", ibv_wr_complete(a), 0);
	done(cq, 4, IBV_WC_SEND);
	done(cq, 5, IBV_WC_SEND);
	wc = done(other, 31, IBV_WC_RECV);
	CHECK(wc.byte_len == 14 && !memcmp(mem + 100, "gather\0scatter", 14));
	wc = done(other, 32, IBV_WC_RECV);
	CHECK(wc.byte_len == 0 && be32toh(wc.imm_data) == 7);

	*number = 40;
	ibv_wr_start(a);
	a->wr_id = 6;
	ibv_wr_atomic_fetch_add(a, mr->rkey, (uintptr_t)number, 2);
	ibv_wr_set_sge(a, mr->lkey, (uintptr_t)mem, 8);
	a->wr_id = 7;
	ibv_wr_atomic_cmp_swp(a, mr->rkey, (uintptr_t)number, 42, 99);
	ibv_wr_set_sge(a, mr->lkey, (uintptr_t)mem + 8, 8);
	a->wr_id = 8;
	ibv_wr_rdma_read(a, mr->rkey, (uintptr_t)number);
	ibv_wr_set_sge(a, mr->lkey, (uintptr_t)mem + 16, 8);
	EQUAL("complete", ibv_wr_complete(a), 0);
	done(cq, 6, IBV_WC_FETCH_ADD);
	done(cq, 7, IBV_WC_COMP_SWAP);
	done(cq, 8, IBV_WC_RDMA_READ);
	CHECK(((uint64_t *)mem)[0] == 40 && ((uint64_t *)mem)[1] == 42 && ((uint64_t *)mem)[2] == 99 && *number == 99);

	/* A window is bound, used and released; bound once more and invalidated. */
	CHECK(!ibv_dereg_mr(mr));
	mr = ibv_reg_mr(pd, mem, SIZE, ALL | IBV_ACCESS_MW_BIND);
	CHECK(mr);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(mw);
	info = (struct ibv_mw_bind_info){ mr, (uintptr_t)mem + 4096, 100, IBV_ACCESS_REMOTE_WRITE };
	for (int round = 0; round < 2; round++) {
		key = ibv_inc_rkey(mw->rkey);
		ibv_wr_start(b);
		b->wr_id = 50;
		ibv_wr_bind_mw(b, mw, key, &info);
		EQUAL("complete", ibv_wr_complete(b), 0);
		done(other, 50, IBV_WC_BIND_MW);
		mw->rkey = key;
		CHECK(!receive(&b->qp_base, 33, mem + 100, 100));
		ibv_wr_start(a);
		a->wr_id = 9;
		ibv_wr_rdma_write(a, key, (uintptr_t)mem + 4096);
		ibv_wr_set_inline_data(a, round ? "second" : "first", 7);
		if (!round) {
			a->wr_id = 10;
			ibv_wr_send_inv(a, key);
		}
		EQUAL("complete", ibv_wr_complete(a), 0);
		done(cq, 9, IBV_WC_RDMA_WRITE);
		CHECK(!strcmp(mem + 4096, round ? "second" : "first"));
		if (!round) {
			done(cq, 10, IBV_WC_SEND);
			wc = done(other, 33, IBV_WC_RECV);
			CHECK(wc.wc_flags & IBV_WC_WITH_INV);
			EQUAL("invalidated", wc.invalidated_rkey, key);
			continue;
		}
		ibv_wr_start(b);
		b->wr_id = 51;
		ibv_wr_local_inv(b, key);
		EQUAL("complete", ibv_wr_complete(b), 0);
		done(other, 51, IBV_WC_LOCAL_INV);
	}
	CHECK(!post(&a->qp_base, IBV_WR_RDMA_WRITE, 11, "x", 1, 0, mem + 4096, key, IBV_SEND_INLINE));
	EQUAL("through a window that was taken back", next(cq).status, IBV_WC_REM_ACCESS_ERR);
}

/* Datagrams need an address. */
static void wr_datagrams(void)
{
	struct ibv_wc wc;
	struct ibv_qp_ex *x;
	struct ibv_ah *ah;
	struct ibv_qp *qp;

	start();
	qp = datagrams(&ah);
	x = ibv_qp_to_qp_ex(qp);
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(x);
	ibv_wr_send(x);
	ibv_wr_set_inline_data(x, "nowhere", 8);
	EQUAL("no address", ibv_wr_complete(x), EINVAL);
	ibv_wr_start(x);
	ibv_wr_send(x);
	ibv_wr_set_inline_data(x, "nowhere", 8);
	ibv_wr_send(x);
	ibv_wr_set_ud_addr(x, ah, qp->qp_num, 7);
	EQUAL("the first has no address", ibv_wr_complete(x), EINVAL);

	CHECK(!receive(qp, 2, mem, 100));
	ibv_wr_start(x);
	x->wr_id = 1;
	ibv_wr_send_imm(x, htobe32(5));
	ibv_wr_set_ud_addr(x, ah, qp->qp_num, 7);
	ibv_wr_set_inline_data(x, "datagram", 9);
	EQUAL("complete", ibv_wr_complete(x), 0);
	for (int i = 0; i < 2; i++) {
		wc = next(cq);
		EQUAL(ibv_wc_status_str(wc.status), wc.status, IBV_WC_SUCCESS);
		if (wc.opcode != IBV_WC_RECV)
			continue;
		/* 0xa: it is preceded by an IPv4 header, as ConnectX NICs report it. */
		CHECK(wc.wr_id == 2 && wc.byte_len == 49 && wc.src_qp == qp->qp_num && wc.wc_flags & IBV_WC_GRH && wc.sl == 0xa);
		CHECK(!strcmp(mem + 40, "datagram"));
	}
}

/* Errors between wr_start and wr_complete: nothing is posted, and the next work is not affected. */
static void wr_errors(void)
{
	enum { NO_OPERATION, TOO_MANY, TOO_LONG, NO_WORK, TWICE, INLINE_READ, INLINE_ATOMIC, ATOMIC_LENGTH, ATOMIC_ALONE, BIND_DATA, ADDRESS, FULL, TSO, XRC, CASES };
	static const char *const names[] = {
		"an operation that was not asked for", "too many elements", "too many inline bytes", "data without work", "data twice", "inline bytes of a READ",
		"inline bytes of an atomic", "an atomic of 4 bytes", "an atomic without data", "data of an invalidation", "an address for RC", "a full queue", "TSO", "the number of a shared receive queue",
	};
	static const int errors[CASES] = { [FULL] = ENOMEM, [TSO] = EOPNOTSUPP };
	struct ibv_qp_init_attr_ex init;
	struct ibv_sge sges[3] = { 0 };
	struct ibv_qp *b, *plain;
	struct ibv_ah_attr to;
	struct ibv_qp_ex *x;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	static char many[65];

	start();
	to = itself();
	ah = ibv_create_ah(pd, &to);
	CHECK(ah);
	x = new_ex(cq, RC_OPS & ~IBV_QP_EX_WITH_SEND_WITH_IMM);
	b = new_qp(cq, NULL, 10);
	ibv_wr_start(x);
	ibv_wr_send(x);
	EQUAL("in RESET", ibv_wr_complete(x), EINVAL);
	connect_qp(&x->qp_base, b);
	connect_qp(b, &x->qp_base);
	x->wr_flags = IBV_SEND_SIGNALED;
	for (int c = 0; c < CASES; c++) {
		ibv_wr_start(x);
		x->wr_id = 1000; /* never to be seen */
		ibv_wr_rdma_write(x, mr->rkey, (uintptr_t)mem + 4096);
		ibv_wr_set_inline_data(x, "not to be", 10);
		switch (c) {
		case NO_OPERATION:
			ibv_wr_send_imm(x, 0);
			break;
		case TOO_MANY:
			ibv_wr_send(x);
			ibv_wr_set_sge_list(x, 3, sges);
			break;
		case TOO_LONG:
			ibv_wr_send(x);
			ibv_wr_set_inline_data(x, many, sizeof(many));
			break;
		case NO_WORK:
			ibv_wr_abort(x);
			ibv_wr_start(x);
			ibv_wr_set_sge(x, mr->lkey, (uintptr_t)mem, 1);
			break;
		case TWICE:
			ibv_wr_set_sge(x, mr->lkey, (uintptr_t)mem, 1);
			break;
		case INLINE_READ:
			ibv_wr_rdma_read(x, mr->rkey, (uintptr_t)mem);
			ibv_wr_set_inline_data(x, many, 1);
			break;
		case INLINE_ATOMIC:
			ibv_wr_atomic_fetch_add(x, mr->rkey, (uintptr_t)mem, 1);
			ibv_wr_set_inline_data(x, many, 8);
			break;
		case ATOMIC_LENGTH:
			ibv_wr_atomic_fetch_add(x, mr->rkey, (uintptr_t)mem, 1);
			ibv_wr_set_sge(x, mr->lkey, (uintptr_t)mem, 4);
			break;
		case ATOMIC_ALONE:
			ibv_wr_atomic_fetch_add(x, mr->rkey, (uintptr_t)mem, 1);
			break;
		case BIND_DATA:
			ibv_wr_local_inv(x, mr->rkey);
			ibv_wr_set_sge(x, mr->lkey, (uintptr_t)mem, 1);
			break;
		case ADDRESS:
			ibv_wr_set_ud_addr(x, ah, 17, 7);
			break;
		case FULL:
			for (int i = 0; i < 10; i++)
				ibv_wr_rdma_write(x, mr->rkey, (uintptr_t)mem);
			break;
		case TSO:
			ibv_wr_send_tso(x, many, 1, 1);
			break;
		case XRC:
			ibv_wr_set_xrc_srqn(x, 1);
			break;
		}
		EQUAL(names[c], ibv_wr_complete(x), errors[c] ? errors[c] : EINVAL);
		ibv_wr_start(x);
		x->wr_id = c;
		ibv_wr_rdma_write(x, mr->rkey, (uintptr_t)mem);
		EQUAL(names[c], ibv_wr_complete(x), 0);
		wc = next(cq);
		EQUAL(names[c], wc.status, IBV_WC_SUCCESS);
		EQUAL(names[c], wc.wr_id, c);
		CHECK(!mem[4096]);
	}
	/* Aborted work has no effect. */
	ibv_wr_start(x);
	ibv_wr_rdma_write(x, mr->rkey, (uintptr_t)mem + 4096);
	ibv_wr_set_inline_data(x, "not to be", 10);
	ibv_wr_abort(x);
	CHECK(!post(&x->qp_base, IBV_WR_RDMA_WRITE, 77, mem, 1, mr->lkey, mem, mr->rkey, IBV_SEND_SIGNALED));
	EQUAL("behind an abort", next(cq).wr_id, 77);
	CHECK(!mem[4096]);

	plain = new_qp(cq, NULL, 10);
	CHECK(!ibv_qp_to_qp_ex(plain));
	for (int i = 0; i < 5; i++) {
		static const struct {
			enum ibv_qp_type type;
			uint64_t ops;
			uint32_t mask, flags;
		} refused[] = {
			{ IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE, 0, 0 }, { IBV_QPT_UC, IBV_QP_EX_WITH_SEND_WITH_INV, 0, 0 }, { IBV_QPT_RC, IBV_QP_EX_WITH_TSO, 0, 0 },
			{ IBV_QPT_RC, 0, IBV_QP_INIT_ATTR_CREATE_FLAGS, IBV_QP_CREATE_SOURCE_QPN }, { IBV_QPT_RC, 0, IBV_QP_INIT_ATTR_XRCD, 0 },
		};

		init = init_of(refused[i].type, refused[i].ops);
		init.comp_mask |= refused[i].mask;
		init.create_flags = refused[i].flags;
		errno = 0;
		CHECK(!ibv_create_qp_ex(ctx, &init));
		EQUAL("create_qp_ex", errno, EOPNOTSUPP);
	}
}

static uint64_t clock_now(void)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	CHECK(!ibv_query_rt_values_ex(ctx, &v) && v.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
	return v.raw_clock.tv_nsec;
}

/* A queue is read entry by entry, with the time of each. */
static void cq_ex(void)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 100, .cq_context = &cq, .wc_flags = FIELDS };
	static const struct {
		uint64_t fields;
		uint32_t mask, flags;
	} refused[] = {
		{ IBV_WC_EX_WITH_CVLAN, 0, 0 }, { IBV_WC_EX_WITH_FLOW_TAG, 0, 0 },
		{ 0, IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN },
	};
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_device_attr_ex device;
	struct ibv_cq_ex *x;
	struct ibv_qp_ex *a;
	struct ibv_qp *b;
	uint64_t before, last;
	struct ibv_wc wc;

	start();
	CHECK(!ibv_query_device_ex(ctx, NULL, &device));
	CHECK(device.completion_timestamp_mask == UINT64_MAX && device.hca_core_clock == 1000000);
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		struct ibv_cq_init_attr_ex bad = { .cqe = 10, .wc_flags = refused[i].fields, .comp_mask = refused[i].mask, .flags = refused[i].flags };

		errno = 0;
		CHECK(!ibv_create_cq_ex(ctx, &bad));
		EQUAL("create_cq_ex", errno, EOPNOTSUPP);
	}
	init.comp_vector = 1;
	CHECK(!ibv_create_cq_ex(ctx, &init) && errno == EINVAL);
	init.comp_vector = 0;
	init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	init.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	x = ibv_create_cq_ex(ctx, &init);
	CHECK(x && x->cqe >= 100 && x->cq_context == &cq);
	a = new_ex(ibv_cq_ex_to_cq(x), RC_OPS);
	b = new_qp(cq, NULL, 10);
	connect_qp(&a->qp_base, b);
	connect_qp(b, &a->qp_base);
	EQUAL("an empty queue", ibv_start_poll(x, &attr), ENOENT);
	attr.comp_mask = 1;
	EQUAL("an unknown attribute", ibv_start_poll(x, &attr), EINVAL);
	attr.comp_mask = 0;

	last = before = clock_now();
	a->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(a);
	for (a->wr_id = 0; a->wr_id < 3; a->wr_id++) {
		ibv_wr_rdma_write(a, mr->rkey, (uintptr_t)mem);
		ibv_wr_set_sge(a, mr->lkey, (uintptr_t)mem, 1);
	}
	CHECK(!ibv_wr_complete(a));
	for (uint64_t n = 0; n < 3;) {
		int error;

		while ((error = ibv_start_poll(x, &attr)) == ENOENT)
			;
		for (; !error; error = ibv_next_poll(x)) {
			EQUAL("id", x->wr_id, n++);
			EQUAL("status", x->status, IBV_WC_SUCCESS);
			EQUAL("opcode", ibv_wc_read_opcode(x), IBV_WC_RDMA_WRITE);
			EQUAL("qp_num", ibv_wc_read_qp_num(x), a->qp_base.qp_num);
			CHECK(!ibv_wc_read_slid(x) && !ibv_wc_read_sl(x) && !ibv_wc_read_dlid_path_bits(x) && !ibv_wc_read_vendor_err(x));
			CHECK(ibv_wc_read_completion_ts(x) >= last);
			last = ibv_wc_read_completion_ts(x);
		}
		EQUAL("the end", error, ENOENT);
		ibv_end_poll(x);
	}
	CHECK(last > before && last <= clock_now());

	/* A receive has more fields. And the queue can also be polled with ibv_poll_cq. */
	CHECK(!receive(&a->qp_base, 5, mem, 100) && !receive(&a->qp_base, 6, mem, 100));
	CHECK(!post(b, IBV_WR_SEND_WITH_IMM, 7, mem, 9, mr->lkey, NULL, 0, 0));
	while (ibv_start_poll(x, &attr))
		;
	EQUAL("opcode", ibv_wc_read_opcode(x), IBV_WC_RECV);
	EQUAL("byte_len", ibv_wc_read_byte_len(x), 9);
	EQUAL("flags", ibv_wc_read_wc_flags(x), IBV_WC_WITH_IMM);
	EQUAL("imm", ibv_wc_read_imm_data(x), 0);
	EQUAL("src_qp", ibv_wc_read_src_qp(x), 0);
	ibv_end_poll(x);
	CHECK(!post(b, IBV_WR_SEND, 7, mem, 9, mr->lkey, NULL, 0, 0));
	wc = next(ibv_cq_ex_to_cq(x));
	CHECK(wc.wr_id == 6 && wc.byte_len == 9);
	CHECK(!ibv_resize_cq(ibv_cq_ex_to_cq(x), 500) && x->cqe >= 500);
	EQUAL("in use", ibv_destroy_cq(ibv_cq_ex_to_cq(x)), EBUSY);
	CHECK(!ibv_destroy_qp(&a->qp_base) && !ibv_destroy_cq(ibv_cq_ex_to_cq(x)));
}

static struct ibv_cq_ex *timed_cq(void)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 100, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK };
	struct ibv_cq_ex *x = ibv_create_cq_ex(ctx, &init);

	CHECK(x);
	return x;
}

/*
 * stamps waits for a completion, and returns its times by the NIC's clock and by the
 * time of day.
 */
static void stamps(struct ibv_cq_ex *x, uint64_t *clock, uint64_t *day)
{
	struct ibv_poll_cq_attr attr = { 0 };

	while (ibv_start_poll(x, &attr))
		;
	EQUAL("status", x->status, IBV_WC_SUCCESS);
	*clock = ibv_wc_read_completion_ts(x);
	*day = ibv_wc_read_completion_wallclock_ns(x);
	ibv_end_poll(x);
}

static uint64_t time_of_day(void)
{
	struct timespec t;

	CHECK(!clock_gettime(CLOCK_REALTIME, &t));
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* An entry's time of day is when it was made, by the program's clock, even in a resized queue. */
static void wallclock(void)
{
	/* The kernel may adjust the time of day while the lab runs. */
	const uint64_t adjusted = 20000000;
	struct ibv_cq_ex *x;
	struct ibv_qp *a, *b;

	start();
	x = timed_cq();
	a = new_qp(ibv_cq_ex_to_cq(x), NULL, 10);
	b = new_qp(cq, NULL, 10);
	connect_qp(a, b);
	connect_qp(b, a);
	for (int i = 0; i < 4; i++) {
		uint64_t before = time_of_day(), clock = clock_now(), ts, day;

		CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, mem, 8, mr->lkey, mem, mr->rkey, IBV_SEND_SIGNALED));
		stamps(x, &ts, &day);
		CHECK(ts >= clock && ts <= clock_now());
		CHECK(day + adjusted >= before && day <= time_of_day() + adjusted);
		if (i == 1)
			CHECK(!ibv_resize_cq(ibv_cq_ex_to_cq(x), 500));
		usleep(1000);
	}
}

/* post_writes posts n WRITEs of SIZE bytes at once, up to 3, so that the NIC need not wait for the program. */
static void post_writes(struct ibv_qp *qp, int n)
{
	struct ibv_sge sge = { (uintptr_t)mem, SIZE, mr->lkey };
	struct ibv_send_wr list[3], *bad;

	for (int i = 0; i < n; i++)
		list[i] = (struct ibv_send_wr){
			.next = i + 1 < n ? &list[i + 1] : NULL, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED, .wr.rdma = { (uintptr_t)mem, mr->rkey },
		};
	CHECK(!ibv_post_send(qp, list, &bad));
}

/* A queue pair keeps its rate limit, measured by the NIC's clock. */
static void rate_limit(void)
{
	enum { KBPS = 200000, PACKET = 1024 };
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = KBPS, .max_burst_sz = 8192, .typical_pkt_sz = PACKET };
	struct ibv_device_attr_ex device;
	struct ibv_cq_ex *x;
	struct ibv_qp *a, *b;

	start();
	CHECK(!ibv_query_device_ex(ctx, NULL, &device));
	EQUAL("qp_rate_limit_min", device.packet_pacing_caps.qp_rate_limit_min, 1);
	EQUAL("qp_rate_limit_max", device.packet_pacing_caps.qp_rate_limit_max, 5000000);
	EQUAL("supported_qpts", device.packet_pacing_caps.supported_qpts, 1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD | 1 << IBV_QPT_XRC_SEND);
	x = timed_cq();
	a = new_qp(ibv_cq_ex_to_cq(x), NULL, 10);
	b = new_qp(cq, NULL, 10);
	connect_qp(a, b);
	connect_qp(b, a);
	for (int i = 0; i < 3; i++) {
		/* Packets have 58 bytes of headers and ICRC, and 24 of Ethernet's own: FCS, preamble and gap. */
		const uint64_t wire = (uint64_t)SIZE / PACKET * (PACKET + 58 + 24), least = 2 * wire * 8 * 1000000 / KBPS;
		uint64_t first, last, day;

		limit.rate_limit = i == 2 ? 0 : KBPS;
		if (i)
			limit.max_burst_sz = limit.typical_pkt_sz = 0;
		EQUAL("a rate limit", ibv_modify_qp_rate_limit(a, &limit), 0);
		post_writes(a, 3);
		stamps(x, &first, &day);
		for (int k = 1; k < 3; k++)
			stamps(x, &last, &day);
		printf("%llu ns for 2 WRITEs, at the limit %llu\n", (unsigned long long)(last - first), (unsigned long long)least);
		if (i < 2) /* a burst may be on either side */
			CHECK(last - first + 1000000 >= least);
		else
			CHECK(last - first < least / 2);
	}
}

/*
 * An entry that exists when its event is requested causes it, unless it was polled
 * or an event has reported it.
 */
static void missed(void)
{
	struct pollfd p;
	struct ibv_cq *of, *in;
	struct ibv_qp *a, *b;
	void *user;

	start();
	in = ibv_create_cq(ctx, 100, NULL, channel, 0);
	CHECK(in);
	a = new_qp(cq, NULL, 10);
	b = new_qp(in, NULL, 10);
	connect_qp(a, b);
	connect_qp(b, a);
	p = (struct pollfd){ .fd = channel->fd, .events = POLLIN };
	for (int solicited = 0; solicited < 2; solicited++) {
		CHECK(!receive(b, 1, mem, 10));
		CHECK(!post(a, IBV_WR_SEND, 2, mem, 1, mr->lkey, NULL, 0, IBV_SEND_SIGNALED | (solicited ? IBV_SEND_SOLICITED : 0)));
		CHECK(next(cq).status == IBV_WC_SUCCESS); /* so the receive has completed */
		CHECK(!ibv_req_notify_cq(in, solicited));
		EQUAL("an event", poll(&p, 1, 30000), 1);
		CHECK(!ibv_get_cq_event(channel, &of, &user) && of == in);
		ibv_ack_cq_events(in, 1);
		CHECK(!ibv_req_notify_cq(in, solicited));
		EQUAL("a second event", poll(&p, 1, 50), 0);
		CHECK(next(in).wr_id == 1);
	}
	/*
	 * A request for solicited entries alone has not missed the others. The
	 * outstanding request does no harm.
	 */
	CHECK(!receive(b, 1, mem, 10));
	CHECK(!receive(b, 1, mem, 10));
	CHECK(!post(a, IBV_WR_SEND, 2, mem, 1, mr->lkey, NULL, 0, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED));
	CHECK(next(cq).status == IBV_WC_SUCCESS);
	EQUAL("an event", poll(&p, 1, 30000), 1);
	CHECK(!ibv_get_cq_event(channel, &of, &user));
	ibv_ack_cq_events(in, 1);
	CHECK(next(in).wr_id == 1);
	CHECK(!post(a, IBV_WR_SEND, 2, mem, 1, mr->lkey, NULL, 0, IBV_SEND_SIGNALED));
	CHECK(next(cq).status == IBV_WC_SUCCESS);
	CHECK(!ibv_req_notify_cq(in, 1));
	EQUAL("an event of one that is not solicited", poll(&p, 1, 50), 0);
}

const struct check extended[] = {
	{ "wr_operations_complete", wr },
	{ "wr_datagrams_need_an_address", wr_datagrams },
	{ "wr_errors_post_nothing", wr_errors },
	{ "cq_ex_is_read_entry_by_entry", cq_ex },
	{ "wallclock_is_the_programs", wallclock },
	{ "rate_limit_is_kept", rate_limit },
	{ "missed_entry_causes_an_event", missed },
	{ NULL, NULL },
};

/* xrc.c: extended reliable connections (ibv_open_xrcd(3), ibv_open_qp(3), ibv_create_srq_ex(3)). */
#include "kit.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/wait.h>

/* new_file returns a descriptor of a new file without a name. */
static int new_file(void)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);

	CHECK(fd >= 0);
	return fd;
}

static struct ibv_xrcd *open_domain(int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = oflags };

	errno = 0;
	return ibv_open_xrcd(ctx, &attr);
}

static struct ibv_srq *new_srq(struct ibv_xrcd *x, struct ibv_cq *to, uint32_t *number)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 8, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = x, .cq = to,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(ctx, &attr);

	CHECK(srq && !ibv_get_srq_num(srq, number) && *number);
	return srq;
}

static struct ibv_qp *new_target(struct ibv_xrcd *x)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = x };
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &attr);

	CHECK(qp);
	return qp;
}

static struct ibv_qp *new_initiator(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_SEND, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = pd, .send_cq = cq, .sq_sig_all = 1,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64 },
	};
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &attr);

	CHECK(qp && !attr.cap.max_recv_wr);
	return qp;
}

static struct ibv_qp *open_qp(struct ibv_xrcd *x, uint32_t number)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE, .qp_num = number, .xrcd = x, .qp_type = IBV_QPT_XRC_RECV,
	};

	errno = 0;
	return ibv_open_qp(ctx, &attr);
}

static void receive_shared(struct ibv_srq *srq, uint64_t id, void *to, uint32_t n)
{
	struct ibv_sge sge = { (uintptr_t)to, n, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
}

/* work posts an operation for a shared receive queue, and returns its completion. */
static struct ibv_wc work(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t srqn, void *from, uint32_t n, void *to)
{
	struct ibv_sge sge = { (uintptr_t)from, n, mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = 1, .opcode = op, .sg_list = &sge, .num_sge = 1, .qp_type.xrc.remote_srqn = srqn };

	wr.wr.rdma.remote_addr = (uintptr_t)to;
	wr.wr.rdma.rkey = mr->rkey;
	CHECK(!ibv_post_send(qp, &wr, &bad));
	return next(cq);
}

/* Messages reach the shared receive queue that they name, and its completion queue. */
static void messages(void)
{
	struct ibv_cq *first_cq, *second_cq;
	struct ibv_srq *first, *second;
	struct ibv_device_attr device;
	uint32_t one, two;
	struct ibv_xrcd *x;
	struct ibv_qp *a, *b;
	struct ibv_qp_ex *ex;
	struct ibv_wc wc;

	start();
	CHECK(!ibv_query_device(ctx, &device) && device.device_cap_flags & IBV_DEVICE_XRC);
	x = open_domain(-1, O_CREAT);
	CHECK(x);
	first_cq = ibv_create_cq(ctx, 10, NULL, NULL, 0);
	second_cq = ibv_create_cq(ctx, 10, NULL, NULL, 0);
	first = new_srq(x, first_cq, &one);
	second = new_srq(x, second_cq, &two);
	CHECK(one != two);
	a = new_initiator();
	b = new_target(x);
	connect_qp(a, b);
	connect_qp(b, a);
	strcpy(mem, "for the second");
	receive_shared(first, 10, mem + 4096, 2000);
	receive_shared(first, 11, mem + 8192, 2000);
	receive_shared(second, 20, mem + 12288, 2000);
	EQUAL("a SEND", work(a, IBV_WR_SEND, two, mem, 1500, NULL).status, IBV_WC_SUCCESS);
	wc = next(second_cq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 20 && wc.byte_len == 1500 && !strcmp(mem + 12288, "for the second"));
	EQUAL("the local queue pair", wc.qp_num, b->qp_num);
	EQUAL("the peer", wc.src_qp, a->qp_num);
	EQUAL("a WRITE with immediate data", work(a, IBV_WR_RDMA_WRITE_WITH_IMM, one, mem, 100, mem + 20000).status, IBV_WC_SUCCESS);
	wc = next(first_cq);
	CHECK(wc.wr_id == 10 && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && !strcmp(mem + 20000, "for the second"));
	EQUAL("a READ", work(a, IBV_WR_RDMA_READ, one, mem + 24000, 100, mem).status, IBV_WC_SUCCESS);
	CHECK(!strcmp(mem + 24000, "for the second"));

	/* With ibv_wr_*() the number is set for each request, but not for local ones. */
	ex = ibv_qp_to_qp_ex(a);
	ibv_wr_start(ex);
	ibv_wr_send_imm(ex, htobe32(77));
	ibv_wr_set_xrc_srqn(ex, one);
	ibv_wr_set_inline_data(ex, mem, 20);
	CHECK(!ibv_wr_complete(ex));
	CHECK(next(cq).status == IBV_WC_SUCCESS);
	wc = next(first_cq);
	CHECK(wc.wr_id == 11 && wc.wc_flags & IBV_WC_WITH_IMM && be32toh(wc.imm_data) == 77 && wc.byte_len == 20);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, mem, 20);
	EQUAL("without a number", ibv_wr_complete(ex), EINVAL);

	/* A number of none ends the connection. */
	EQUAL("a number of none", work(a, IBV_WR_SEND, 0xffffff, mem, 10, NULL).status, IBV_WC_REM_INV_REQ_ERR);
	EQUAL("an event", event().event_type, IBV_EVENT_QP_ACCESS_ERR);
	EQUAL("a domain in use", ibv_close_xrcd(x), EBUSY);
	EQUAL("a completion queue in use", ibv_destroy_cq(first_cq), EBUSY);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_srq(first) && !ibv_destroy_srq(second));
	CHECK(!ibv_destroy_cq(first_cq) && !ibv_destroy_cq(second_cq) && !ibv_close_xrcd(x));
}

/* What cannot be made. */
static void refused(void)
{
	struct ibv_qp_init_attr old = { .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_srq_init_attr_ex whole, attr;
	struct ibv_srq_init_attr plain = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_recv_wr *bad_recv, recv = { .wr_id = 1 };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	struct ibv_qp_init_attr_ex target = { .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp_open_attr open = { .comp_mask = IBV_QP_OPEN_ATTR_NUM };
	struct ibv_xrcd_init_attr domain = { .comp_mask = IBV_XRCD_INIT_ATTR_FD };
	static const uint32_t parts[] = { IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQ_INIT_ATTR_CQ };
	struct ibv_xrcd *x;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	uint32_t number;
	int fd;

	start();
	fd = new_file();
	CHECK(!open_domain(fd, 0) && errno == EAGAIN);
	CHECK(!open_domain(1000, O_CREAT) && errno == EBADF);
	CHECK(!open_domain(-2, O_CREAT) && errno == EBADF);
	CHECK(!ibv_open_xrcd(ctx, &domain) && errno == EINVAL);
	domain.comp_mask = IBV_XRCD_INIT_ATTR_RESERVED;
	CHECK(!ibv_open_xrcd(ctx, &domain) && errno == EOPNOTSUPP);
	x = open_domain(fd, O_CREAT | O_EXCL);
	CHECK(x);
	CHECK(!open_domain(fd, O_CREAT | O_EXCL) && errno == EINVAL);

	whole = (struct ibv_srq_init_attr_ex){
		.attr = plain.attr, .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = x, .cq = cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	for (int i = 0; i < 3; i++) {
		attr = whole;
		attr.comp_mask &= ~parts[i];
		CHECK(!ibv_create_srq_ex(ctx, &attr) && errno == EINVAL);
	}
	CHECK(!ibv_create_qp_ex(ctx, &target) && errno == EINVAL);
	old.send_cq = old.recv_cq = cq;
	CHECK(!ibv_create_qp(pd, &old) && errno == EINVAL);
	CHECK(!ibv_open_qp(ctx, &open) && errno == EINVAL);
	CHECK(!open_qp(x, 12345) && errno == EINVAL);

	srq = ibv_create_srq(pd, &plain);
	EQUAL("the number of a queue without a domain", ibv_get_srq_num(srq, &number), EINVAL);
	srq = new_srq(x, cq, &number);
	old = (struct ibv_qp_init_attr){ .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .srq = srq, .cap = { 1, 1, 1, 1, 0 } };
	CHECK(!ibv_create_qp(pd, &old) && errno == EINVAL);

	qp = new_target(x);
	EQUAL("a receive at a target", ibv_post_recv(qp, &recv, &bad_recv), EINVAL);
	EQUAL("a send at a target", ibv_post_send(qp, &wr, &bad), EINVAL);
	qp = new_initiator();
	EQUAL("a receive at an initiator", ibv_post_recv(qp, &recv, &bad_recv), EINVAL);
}

static void tell(int to, uint32_t n) { CHECK(write(to, &n, sizeof(n)) == sizeof(n)); }

static uint32_t hear(int from)
{
	uint32_t n;

	CHECK(read(from, &n, sizeof(n)) == sizeof(n));
	return n;
}

/* in_child opens its parent's queue pair, and gets messages before and after the parent gives it up. */
static void in_child(int fd, int from, int to)
{
	struct ibv_xrcd *x;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	uint32_t qp_num = hear(from), number; /* the domain exists by then */

	start();
	x = open_domain(fd, 0);
	CHECK(x);
	qp = open_qp(x, qp_num);
	CHECK(qp);
	srq = new_srq(x, cq, &number);
	receive_shared(srq, 1, mem, 100);
	receive_shared(srq, 2, mem, 100);
	tell(to, number);
	EQUAL("the first", next(cq).wr_id, 1);
	tell(to, 0);
	EQUAL("after the parent's handle", next(cq).wr_id, 2);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq) && !ibv_close_xrcd(x));
	exit(0);
}

/* A queue pair of type XRC_RECV is shared by processes, and outlives the handle of its maker. */
static void shared(void)
{
	int down[2], up[2], status, fd = new_file();
	struct ibv_xrcd *x;
	struct ibv_qp *a, *b;
	uint32_t srqn;
	pid_t child;

	CHECK(!pipe(down) && !pipe(up));
	child = fork();
	CHECK(child >= 0);
	if (!child)
		in_child(fd, down[0], up[1]);
	start();
	x = open_domain(fd, O_CREAT);
	CHECK(x);
	a = new_initiator();
	b = new_target(x);
	connect_qp(a, b);
	connect_qp(b, a);
	tell(down[1], b->qp_num);
	srqn = hear(up[0]);
	EQUAL("to the child", work(a, IBV_WR_SEND, srqn, mem, 10, NULL).status, IBV_WC_SUCCESS);
	hear(up[0]);
	CHECK(!ibv_destroy_qp(b) && !ibv_close_xrcd(x));
	EQUAL("to the child alone", work(a, IBV_WR_SEND, srqn, mem, 10, NULL).status, IBV_WC_SUCCESS);
	CHECK(waitpid(child, &status, 0) == child);
	EQUAL("the child's status", status, 0);
	EQUAL("after the last handle", work(a, IBV_WR_SEND, srqn, mem, 10, NULL).status, IBV_WC_RETRY_EXC_ERR);
}

const struct check extended_connections[] = {
	{ "xrc_messages_reach_their_queues", messages },
	{ "xrc_is_refused_without_its_parts", refused },
	{ "xrc_target_is_shared_by_processes", shared },
	{ NULL, NULL },
};

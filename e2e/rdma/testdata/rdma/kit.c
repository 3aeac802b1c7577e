/* kit.c: see kit.h. */
#include "kit.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/mman.h>

struct ibv_context *ctx;
struct ibv_pd *pd;
struct ibv_comp_channel *channel;
struct ibv_cq *cq;
char *mem;
struct ibv_mr *mr;

void start(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	ctx = ibv_open_device(list[0]);
	CHECK(ctx);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	CHECK(pd);
	channel = ibv_create_comp_channel(ctx);
	CHECK(channel);
	cq = ibv_create_cq(ctx, 1000, &cq, channel, 0);
	CHECK(cq);
	mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mem != MAP_FAILED);
	mr = ibv_reg_mr(pd, mem, SIZE, ALL);
	CHECK(mr);
}

struct ibv_qp *new_qp(struct ibv_cq *to, struct ibv_srq *srq, int depth)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = to, .recv_cq = to, .srq = srq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 3, .max_recv_sge = 3, .max_inline_data = 64 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	CHECK(qp);
	return qp;
}

struct ibv_ah_attr itself(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64 };

	CHECK(!ibv_query_gid(ctx, 1, 0, &attr.grh.dgid));
	return attr;
}

void connect_with(struct ibv_qp *a, struct ibv_qp *b, struct how how)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = how.access };

	CHECK(!ibv_modify_qp(a, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = b->qp_num, .max_dest_rd_atomic = 4, .min_rnr_timer = 1, .ah_attr = itself(),
	};
	CHECK(!ibv_modify_qp(a, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = how.retries, .rnr_retry = how.rnr_retries, .max_rd_atomic = 4 };
	CHECK(!ibv_modify_qp(a, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

void connect_qp(struct ibv_qp *a, struct ibv_qp *b) { connect_with(a, b, (struct how){ ALL, 7, 7 }); }

void pair(struct ibv_qp **a, struct ibv_qp **b, int depth)
{
	*a = new_qp(cq, NULL, depth);
	*b = new_qp(cq, NULL, depth);
	connect_qp(*a, *b);
	connect_qp(*b, *a);
}

void ready(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7 };

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

struct ibv_qp *datagrams(struct ibv_ah **ah)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.cap = { .max_send_wr = 10, .max_recv_wr = 10, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64 }, .pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	};
	struct ibv_ah_attr to = itself();
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &init);

	CHECK(qp);
	ready(qp);
	*ah = ibv_create_ah(pd, &to);
	CHECK(*ah);
	return qp;
}

int post(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id, void *from, uint32_t n, uint32_t lkey, void *to, uint32_t rkey, int flags)
{
	struct ibv_sge sge = { (uintptr_t)from, n, lkey };
	struct ibv_send_wr *bad = NULL, wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = flags,
		.wr.rdma = { (uintptr_t)to, rkey },
	};
	int error;

	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)to;
		wr.wr.atomic.rkey = rkey;
	}
	error = ibv_post_send(qp, &wr, &bad);
	CHECK(!error == !bad);
	return error;
}

int receive(struct ibv_qp *qp, uint64_t id, void *to, uint32_t n)
{
	struct ibv_sge sge = { (uintptr_t)to, n, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(qp, &wr, &bad);
}

struct ibv_wc next(struct ibv_cq *from)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(from, 1, &wc)) == 0)
		;
	CHECK(n == 1);
	return wc;
}

struct ibv_async_event event(void)
{
	struct ibv_async_event e;

	do {
		CHECK(!ibv_get_async_event(ctx, &e));
		ibv_ack_async_event(&e);
	} while (e.event_type == IBV_EVENT_COMM_EST);
	return e;
}

void await_call(pid_t thread, long call)
{
	char path[64], text[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", thread);
	do {
		usleep(100);
		fd = open(path, O_RDONLY);
		CHECK(fd >= 0);
		memset(text, 0, sizeof(text));
		CHECK(read(fd, text, sizeof(text) - 1) > 0);
		close(fd);
	} while (!isdigit((unsigned char)text[0]) || atol(text) != call); /* it begins with the number, or with "running" */
}

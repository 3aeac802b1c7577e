/* features.c: what few programs ask for. */
#include "kit.h"

/* Multicast: members on the sender's NIC get what it sends, and itself only if it has not asked otherwise. */
static void multicast(void)
{
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 1, 2, 3 } };
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_UD, .cap = { 4, 4, 1, 1, 16 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
	};
	struct ibv_ah_attr to;
	struct ibv_ah *all;

	start();
	init.send_cq = init.recv_cq = cq;
	init.pd = pd;
	to = itself();
	to.grh.dgid = group;
	all = ibv_create_ah(pd, &to);
	CHECK(all);
	for (int blocked = 0; blocked < 2; blocked++) {
		struct ibv_sge sge = { (uintptr_t)mem, 8, mr->lkey };
		struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = { all, 0xffffff, 7 } };
		struct ibv_qp *qps[2];
		int got[2] = { 0 };

		init.create_flags = blocked ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
		for (int i = 0; i < 2; i++) {
			qps[i] = ibv_create_qp_ex(ctx, &init);
			CHECK(qps[i]);
			ready(qps[i]);
			CHECK(!ibv_attach_mcast(qps[i], &group, 0));
			CHECK(!receive(qps[i], i, mem + 4096 * (i + 1), 100));
		}
		strcpy(mem, "to all");
		CHECK(!ibv_post_send(qps[0], &wr, &bad));
		for (int i = blocked; i < 2; i++) {
			struct ibv_wc wc = next(cq);

			CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id < 2 && wc.src_qp == qps[0]->qp_num && wc.wc_flags & IBV_WC_GRH);
			CHECK(!strcmp(mem + 4096 * (wc.wr_id + 1) + 40, "to all"));
			got[wc.wr_id]++;
		}
		CHECK(got[0] == !blocked && got[1] == 1);
		for (int i = 0; i < 2; i++) {
			CHECK(!ibv_detach_mcast(qps[i], &group, 0));
			CHECK(!ibv_destroy_qp(qps[i]));
		}
	}
	init.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	CHECK(!ibv_create_qp_ex(ctx, &init) && errno == EOPNOTSUPP);
}

const struct check features[] = {
	{ "multicast", multicast }, { NULL, NULL },
};

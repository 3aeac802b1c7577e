/* features.c: features that few programs use. */
#include "kit.h"

#include <sys/mman.h>

/* Multicast: members on the sender's NIC get its packets; so does the sender unless it opts out. */
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

/* carries sends n bytes from one address to another over connected queue pairs. */
static enum ibv_wc_status carries(struct ibv_qp *a, void *from, uint32_t lkey, uint32_t n, void *to, uint32_t rkey)
{
	CHECK(!post(a, IBV_WR_RDMA_WRITE, 1, from, n, lkey, to, rkey, IBV_SEND_SIGNALED));
	return next(cq).status;
}

/* On-demand paging: memory that appears, disappears and reappears after its registration. */
static void on_demand(void)
{
	const int access = ALL | IBV_ACCESS_ON_DEMAND;
	struct ibv_device_attr_ex attr;
	struct ibv_mr *explicit, *implicit;
	struct ibv_sge sge;
	struct ibv_pd *other;
	struct ibv_qp *a, *b;
	unsigned char present;
	char *p;

	start();
	CHECK(!ibv_query_device_ex(ctx, NULL, &attr));
	CHECK(attr.odp_caps.general_caps == (IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT));
	CHECK(attr.odp_caps.per_transport_caps.rc_odp_caps == 0x3f && !(attr.odp_caps.per_transport_caps.uc_odp_caps & IBV_ODP_SUPPORT_READ));

	p = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED && !munmap(p, SIZE));
	CHECK(!ibv_reg_mr(pd, p, SIZE, ALL) && errno == EFAULT);
	explicit = ibv_reg_mr(pd, p, SIZE, access);
	CHECK(explicit);
	pair(&a, &b, 4);
	EQUAL("memory that is not there yet", carries(a, mem, mr->lkey, 8, p, explicit->rkey), IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
	CHECK(mmap(p, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	pair(&a, &b, 4);
	strcpy(mem, "paged");
	EQUAL("memory that has come", carries(a, mem, mr->lkey, 8, p, explicit->rkey), IBV_WC_SUCCESS);
	CHECK(!strcmp(p, "paged"));

	/* The whole address space in one region. */
	implicit = ibv_reg_mr(pd, NULL, SIZE_MAX, access);
	CHECK(implicit);
	strcpy(mem, "anywhere");
	EQUAL("an implicit region", carries(a, mem, implicit->lkey, 9, p + 5000, implicit->rkey), IBV_WC_SUCCESS);
	CHECK(!strcmp(p + 5000, "anywhere"));

	/* Prefetching makes pages present if it is asked to wait. */
	sge = (struct ibv_sge){ (uintptr_t)(p + 8 * 4096), 4096, explicit->lkey };
	CHECK(!mincore(p + 8 * 4096, 4096, &present));
	EQUAL("before prefetching", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), 0);
	EQUAL("prefetching without waiting", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
	EQUAL("prefetching", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), 0);
	CHECK(!mincore(p + 8 * 4096, 4096, &present) && present & 1);
	EQUAL("no such advice", ibv_advise_mr(pd, 77, 0, &sge, 1), EOPNOTSUPP);
	EQUAL("no such flag", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 2, &sge, 1), EINVAL);
	EQUAL("nothing", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0), EINVAL);
	sge.length = SIZE;
	EQUAL("more than the region", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	sge = (struct ibv_sge){ (uintptr_t)p, 4096, explicit->lkey ^ 0xff00 };
	EQUAL("no region", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), ENOENT);
	sge.lkey = explicit->lkey;
	other = ibv_alloc_pd(ctx);
	CHECK(other);
	EQUAL("another's region", ibv_advise_mr(other, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EPERM);
	CHECK(!munmap(p, SIZE));
	EQUAL("memory that has gone", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), EFAULT);
}

static int taken, given; /* by the allocators below */

static void *take(struct ibv_pd *of, void *context, size_t size, size_t alignment, uint64_t type)
{
	(void)of, (void)type;
	CHECK(context == &taken && alignment <= 64);
	taken++;
	return malloc(size);
}

static void give(struct ibv_pd *of, void *context, void *p, uint64_t type)
{
	(void)of, (void)type;
	CHECK(context == &taken);
	given++;
	free(p);
}

static void *no_memory(struct ibv_pd *of, void *context, size_t size, size_t alignment, uint64_t type)
{
	(void)of, (void)context, (void)size, (void)alignment, (void)type;
	return NULL;
}

/* Parent domains: their objects belong to the underlying domain, and allocators are called. */
static void domains(void)
{
	struct ibv_td_init_attr none = { 0 };
	struct ibv_parent_domain_init_attr init = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT, .alloc = take, .free = give, .pd_context = &taken,
	};
	struct ibv_cq_init_attr_ex wanted = { .cqe = 10, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct ibv_pd *base, *starved;
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq;
	struct ibv_cq_ex *ex;
	struct ibv_qp *a, *b;
	struct ibv_td *td;

	start();
	base = pd;
	td = ibv_alloc_td(ctx, &none);
	CHECK(td);
	CHECK(!ibv_alloc_parent_domain(ctx, &init) && errno == EINVAL); /* without a domain */
	init.pd = base;
	init.td = td;
	init.comp_mask |= 1 << 9;
	CHECK(!ibv_alloc_parent_domain(ctx, &init) && errno == EINVAL);
	init.comp_mask &= 3;
	pd = ibv_alloc_parent_domain(ctx, &init);
	CHECK(pd && pd != base);
	init.pd = pd;
	CHECK(!ibv_alloc_parent_domain(ctx, &init) && errno == EINVAL); /* of a parent domain */
	EQUAL("a domain with a parent domain", ibv_dealloc_pd(base), EBUSY);
	EQUAL("a thread domain with one", ibv_dealloc_td(td), EBUSY);

	/* Regions of the underlying domain can be used. */
	pair(&a, &b, 4);
	CHECK(taken == 4);
	EQUAL("in a parent domain", carries(a, mem, mr->lkey, 8, mem + 100, mr->rkey), IBV_WC_SUCCESS);
	srq = ibv_create_srq(pd, &shared);
	CHECK(srq && taken == 5);
	wanted.parent_domain = pd;
	ex = ibv_create_cq_ex(ctx, &wanted);
	CHECK(ex);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && given == 4);
	EQUAL("a parent domain of a shared receive queue", ibv_dealloc_pd(pd), EBUSY);
	CHECK(!ibv_destroy_srq(srq) && given == 5);
	EQUAL("a parent domain of a completion queue", ibv_dealloc_pd(pd), EBUSY);
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));

	init.pd = base;
	init.alloc = no_memory;
	starved = ibv_alloc_parent_domain(ctx, &init);
	CHECK(starved);
	errno = 0;
	CHECK(!ibv_create_srq(starved, &shared) && errno == ENOMEM && given == 5);
	CHECK(!ibv_dealloc_pd(starved));

	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_dealloc_td(td));
	wanted.parent_domain = base;
	CHECK(!ibv_create_cq_ex(ctx, &wanted) && errno == EINVAL);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_dealloc_pd(base));
}

const struct check features[] = {
	{ "multicast_reaches_members", multicast },
	{ "on_demand_memory_comes_and_goes", on_demand },
	{ "domains_use_their_allocators", domains },
	{ NULL, NULL },
};

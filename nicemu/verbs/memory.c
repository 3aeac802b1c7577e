/* memory.c: memory regions and windows, address handles. */
#define _GNU_SOURCE
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "weft.h"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define VALGRIND_MAKE_MEM_DEFINED(p, n) (void)(p)
#endif

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* gone frees an object that the lab has destroyed, or whose session is dead. */
static int gone(struct ibv_context *c, int error, void *object)
{
	if (!error || to_context(c)->session->dead)
		free(object);
	return error;
}

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static bool populate(uint64_t addr)
{
	return !madvise((void *)(uintptr_t)(addr & ~(uint64_t)(WEFT_PAGE - 1)), WEFT_PAGE, MADV_POPULATE_WRITE);
}

/* can_write reports whether the process may write the page at an address, which changes no byte of it. */
static bool can_write(uint64_t addr)
{
	char here = 0;

	return populate(addr) || !populate((uintptr_t)&here) /* the kernel is too old to say */;
}

#define WRITING (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

/*
 * may_register checks the first and the last page of a region that will be written, which the
 * kernel pins for writing (ib_umem_get). The lab can only check that they are there. 0 or EFAULT.
 */
static int may_register(uint64_t addr, uint64_t length, unsigned int access)
{
	if (!(access & WRITING) || access & IBV_ACCESS_ON_DEMAND || !length || addr + length < addr)
		return 0;
	if (can_write(addr) && can_write(addr + length - 1))
		return 0;
	return weft_refuse(EFAULT, "the process may not write all of %#llx to %#llx", (unsigned long long)addr, (unsigned long long)(addr + length - 1));
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct weft_reg_mr r = { .pd = pd->handle, .access = access, .addr = (uintptr_t)addr, .length = length, .iova = iova };
	struct ibv_mr *mr = calloc(1, sizeof(*mr));
	struct weft_mr_answer a;
	int error;

	if (!mr)
		return weft_fail(ENOMEM);
	error = may_register(r.addr, length, access);
	if (!error)
		error = weft_call(to_context(pd->context)->session, WEFT_REG_MR, &r, sizeof(r), &a, sizeof(a), NULL, 0);
	if (error) {
		free(mr);
		return weft_fail(error);
	}
	*mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = length, .handle = a.handle, .lkey = a.key, .rkey = a.key };
	return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_mr(pd, addr, length, (uintptr_t)addr, access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return reg_mr(pd, addr, length, iova, access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	return reg_mr(pd, addr, length, iova, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	return weft_fail(EOPNOTSUPP);
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct weft_reg_mr r = {
		.pd = (flags & IBV_REREG_MR_CHANGE_PD) && pd ? pd->handle : 0, .access = access, .addr = (uintptr_t)addr,
		.length = length, .iova = (uintptr_t)addr, .mr = mr->handle, .flags = flags,
	};
	struct weft_mr_answer a;

	if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED || (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length)) ||
	    (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS)) || (flags & IBV_REREG_MR_CHANGE_PD && !pd)) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS && may_register(flags & IBV_REREG_MR_CHANGE_TRANSLATION ? r.addr : (uintptr_t)mr->addr, flags & IBV_REREG_MR_CHANGE_TRANSLATION ? length : mr->length, access))
		return IBV_REREG_MR_ERR_CMD;
	if (weft_call(to_context(mr->context)->session, WEFT_REREG_MR, &r, sizeof(r), &a, sizeof(a), NULL, 0))
		return IBV_REREG_MR_ERR_CMD; /* the region is unchanged */
	mr->lkey = mr->rkey = a.key;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = addr;
		mr->length = length;
	}
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	return gone(mr->context, weft_call_handle(to_context(mr->context)->session, WEFT_DEREG_MR, mr->handle), mr);
}

/* prefetch makes the kernel bring in pages, as it does for hardware that is about to use them. */
static int prefetch(uint64_t addr, uint64_t n, bool write)
{
	uint64_t start = addr & ~(uint64_t)(WEFT_PAGE - 1);

	if (!n || !madvise((void *)(uintptr_t)start, addr + n - start, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	return errno == EINVAL ? 0 : EFAULT; /* an older kernel: the pages come when they are used */
}

/* Checks elements. IBV_ADVISE_MR_FLAG_FLUSH makes pages present; else they come when used. */
int weft_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list, uint32_t n)
{
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;

	if ((unsigned int)advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return weft_error(EOPNOTSUPP);
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !n)
		return weft_error(EINVAL);
	for (uint32_t i = 0; i < n; i++) {
		struct weft_locate q = { pd->handle, list[i].lkey, list[i].addr, list[i].length, write };
		struct weft_locate_answer a;
		int error = weft_call(to_context(pd->context)->session, WEFT_LOCATE, &q, sizeof(q), &a, sizeof(a), NULL, 0);

		if (!error && flags & IBV_ADVISE_MR_FLAG_FLUSH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
			error = prefetch(a.addr, list[i].length, write);
		if (error)
			return weft_error(error);
	}
	return 0;
}

struct ibv_mw *weft_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct weft_alloc_mw q = { pd->handle, type };
	struct ibv_mw *mw = calloc(1, sizeof(*mw));
	struct weft_mr_answer a;
	int error;

	if (!mw)
		return weft_fail(ENOMEM);
	error = weft_call(to_context(pd->context)->session, WEFT_ALLOC_MW, &q, sizeof(q), &a, sizeof(a), NULL, 0);
	if (error) {
		free(mw);
		return weft_fail(error);
	}
	*mw = (struct ibv_mw){ .context = pd->context, .pd = pd, .rkey = a.key, .handle = a.handle, .type = type };
	return mw;
}

int weft_dealloc_mw(struct ibv_mw *mw)
{
	return gone(mw->context, weft_call_handle(to_context(mw->context)->session, WEFT_DEALLOC_MW, mw->handle), mw);
}

int weft_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = bind->send_flags,
		.bind_mw = { .mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info },
	};
	int error;

	if (mw->type != IBV_MW_TYPE_1)
		return weft_error(EINVAL);
	error = weft_post_send(qp, &wr, &bad);
	if (!error)
		mw->rkey = wr.bind_mw.rkey;
	return error;
}

void weft_put_ah(struct weft_ah_attr *to, const struct ibv_ah_attr *from)
{
	memset(to, 0, sizeof(*to));
	if (from->is_global) {
		memcpy(to->dgid, from->grh.dgid.raw, sizeof(to->dgid));
		to->flow_label = from->grh.flow_label;
		to->sgid_index = from->grh.sgid_index;
		to->hop_limit = from->grh.hop_limit;
		to->traffic_class = from->grh.traffic_class;
	}
	to->sl = from->sl;
	to->static_rate = from->static_rate;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
}

void weft_get_ah(struct ibv_ah_attr *to, const struct weft_ah_attr *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to->grh.dgid.raw, from->dgid, sizeof(from->dgid));
	to->grh.flow_label = from->flow_label;
	to->grh.sgid_index = from->sgid_index;
	to->grh.hop_limit = from->hop_limit;
	to->grh.traffic_class = from->traffic_class;
	to->sl = from->sl;
	to->static_rate = from->static_rate;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct weft_create_ah q = { .pd = pd->handle };
	struct ibv_ah *ah = calloc(1, sizeof(*ah));
	struct weft_handle h;
	int error;

	if (!ah)
		return weft_fail(ENOMEM);
	weft_put_ah(&q.ah, attr);
	error = weft_call(to_context(pd->context)->session, WEFT_CREATE_AH, &q, sizeof(q), &h, sizeof(h), NULL, 0);
	if (error) {
		free(ah);
		return weft_fail(error);
	}
	*ah = (struct ibv_ah){ pd->context, pd, h.handle };
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	return gone(ah->context, weft_call_handle(to_context(ah->context)->session, WEFT_DESTROY_AH, ah->handle), ah);
}

/* index_of finds the index of the port's GID to which a datagram was sent. */
static int index_of(struct ibv_context *c, uint8_t port, const uint8_t raw[16])
{
	int used = weft_used_gids(c);
	union ibv_gid gid;

	for (int i = 0; i < used && !ibv_query_gid(c, port, i, &gid); i++) {
		if (!memcmp(gid.raw, raw, sizeof(gid.raw)))
			return i;
	}
	return -1;
}

static void mapped(uint8_t to[16], const uint8_t ipv4[4])
{
	memset(to, 0, 10);
	to[10] = to[11] = 0xff;
	memcpy(to + 12, ipv4, 4);
}

/*
 * A datagram is preceded by an IPv6 header, or by an IPv4 header in the last 20 of
 * 40 bytes (annex A17 of the InfiniBand specification).
 */
int ibv_init_ah_from_wc(struct ibv_context *c, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	const uint8_t *b = (const uint8_t *)grh, *ipv4 = b + 20;
	uint8_t from[16], to[16];
	int index;

	memset(attr, 0, sizeof(*attr));
	VALGRIND_MAKE_MEM_DEFINED(grh, sizeof(*grh)); /* the lab has written it */
	attr->port_num = port;
	if (!(wc->wc_flags & IBV_WC_GRH)) {
		errno = EINVAL;
		return -1;
	}
	if (b[0] >> 4 == 6) {
		memcpy(from, b + 8, 16);
		memcpy(to, b + 24, 16);
		attr->grh.traffic_class = be32toh(grh->version_tclass_flow) >> 20 & 0xff;
		attr->grh.flow_label = be32toh(grh->version_tclass_flow) & 0xfffff;
	} else {
		mapped(from, ipv4 + 12);
		mapped(to, ipv4 + 16);
		attr->grh.traffic_class = ipv4[1];
	}
	index = index_of(c, port, to);
	if (index < 0) {
		errno = EADDRNOTAVAIL; /* a group address: the program must choose */
		return -1;
	}
	attr->is_global = 1;
	memcpy(attr->grh.dgid.raw, from, sizeof(from));
	attr->grh.sgid_index = index;
	attr->grh.hop_limit = 0xff;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

static int mcast(struct ibv_qp *qp, enum weft_op op, const union ibv_gid *gid)
{
	struct weft_mcast m = { .qp = qp->handle };

	memcpy(m.gid, gid->raw, sizeof(m.gid));
	return weft_call(to_context(qp->context)->session, op, &m, sizeof(m), NULL, 0, NULL, 0);
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return mcast(qp, WEFT_ATTACH_MCAST, gid);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return mcast(qp, WEFT_DETACH_MCAST, gid);
}

/* Forked children need no special handling: the lab reads and writes the parent's memory. */
int ibv_fork_init(void) { return 0; }
enum ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }
int ibv_dontfork_range(void *base, size_t size) { (void)base, (void)size; return 0; }
int ibv_dofork_range(void *base, size_t size) { (void)base, (void)size; return 0; }

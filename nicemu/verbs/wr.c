/*
 * wr.c: work requests that a program builds with ibv_wr_*() (ibv_wr_post(3)). The send
 * queue is locked from wr_start to wr_complete or wr_abort; slots fill meanwhile, but
 * become visible to the lab only in wr_complete. The first error is kept for
 * wr_complete, which then posts nothing.
 */
#include <endian.h>

#include "post.h"

static struct weft_qp_object *to_object(struct ibv_qp_ex *ex) { return (struct weft_qp_object *)ex; }

static void fail(struct weft_qp_object *qp, int error)
{
	if (!qp->error)
		qp->error = error;
	qp->building = NULL;
}

/* needs_address reports whether a work request needs wr_set_ud_addr or wr_set_xrc_srqn. */
static bool needs_address(const struct weft_qp_object *qp, const struct weft_send *s)
{
	return qp->qp.qp_type == IBV_QPT_UD || (qp->qp.qp_type == IBV_QPT_XRC_SEND && !weft_is(s->opcode, WEFT_LOCALS));
}

/* finish ends the work request that is being built. */
static void finish(struct weft_qp_object *qp)
{
	const struct weft_send *s = qp->building;

	if (s && ((needs_address(qp, s) && !qp->addressed) || (weft_is(s->opcode, WEFT_ATOMICS) && !s->sges)))
		fail(qp, EINVAL);
	qp->building = NULL;
}

/* begin starts a work request; NULL, with the error kept, if that is not possible. */
static struct weft_send *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct weft_qp_object *qp = to_object(ex);
	struct weft_half *h = &qp->send;
	struct weft_send *s;

	finish(qp);
	if (qp->error)
		return NULL;
	s = weft_next(h);
	if (!s || !(qp->offered >> opcode & 1)) {
		fail(qp, s ? EINVAL : ENOMEM);
		return NULL;
	}
	*s = (struct weft_send){ .opcode = opcode, .flags = ex->wr_flags & ~IBV_SEND_INLINE };
	h->wr_ids[h->posted & h->mask] = ex->wr_id;
	h->posted++;
	qp->addressed = false;
	qp->building = s;
	return s;
}

static void remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr, __be32 imm)
{
	struct weft_send *s = begin(ex, opcode);

	if (!s)
		return;
	s->rkey = rkey;
	s->remote_addr = addr;
	s->imm = be32toh(imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr) { remote(ex, IBV_WR_RDMA_READ, rkey, addr, 0); }
static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr) { remote(ex, IBV_WR_RDMA_WRITE, rkey, addr, 0); }

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr, uint64_t compare_add, uint64_t swap)
{
	struct weft_send *s = begin(ex, opcode);

	if (!s)
		return;
	s->rkey = rkey;
	s->remote_addr = addr;
	s->compare_add = compare_add;
	s->swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
}

static void key(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t imm)
{
	struct weft_send *s = begin(ex, opcode);

	if (s)
		s->imm = imm;
}

static void wr_send(struct ibv_qp_ex *ex) { key(ex, IBV_WR_SEND, 0); }
static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm) { key(ex, IBV_WR_SEND_WITH_IMM, be32toh(imm)); }
static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey) { key(ex, IBV_WR_SEND_WITH_INV, rkey); }
static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey) { key(ex, IBV_WR_LOCAL_INV, rkey); }

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct weft_send *s = begin(ex, IBV_WR_BIND_MW);

	if (s)
		weft_put_bind(s, mw, rkey, info);
}

/* For operations that are not supported: IBV_QP_INIT_ATTR_SEND_OPS_FLAGS with them was refused. */
static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t n, uint16_t mss)
{
	(void)hdr, (void)n, (void)mss;
	fail(to_object(ex), EOPNOTSUPP);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	struct weft_qp_object *qp = to_object(ex);
	struct weft_send *s = qp->building;

	if (!s || qp->qp.qp_type != IBV_QPT_XRC_SEND) {
		fail(qp, EINVAL);
		return;
	}
	s->remote_srqn = srqn;
	qp->addressed = true;
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *value)
{
	(void)rkey, (void)addr, (void)value;
	fail(to_object(ex), EOPNOTSUPP);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct weft_qp_object *qp = to_object(ex);
	struct weft_send *s = qp->building;

	if (!s || !ah || qp->qp.qp_type != IBV_QPT_UD) {
		fail(qp, EINVAL);
		return;
	}
	s->ah = ah->handle;
	s->remote_qpn = qpn;
	s->remote_qkey = qkey;
	qp->addressed = true;
}

/* data returns the work request if its operation is among these; else NULL, with the error kept. */
static struct weft_send *data(struct weft_qp_object *qp, uint32_t operations)
{
	struct weft_send *s = qp->building;

	if (!s || !weft_is(s->opcode, operations) || s->sges || s->flags & IBV_SEND_INLINE) {
		fail(qp, EINVAL);
		return NULL;
	}
	return s;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct weft_qp_object *qp = to_object(ex);
	struct weft_send *s = data(qp, ~WEFT_LOCALS);

	if (!s)
		return;
	if (n > qp->send.max_sge || !weft_has_right_length(s->opcode, list, n)) {
		fail(qp, EINVAL);
		return;
	}
	s->sges = n;
	weft_put_sges(s + 1, list, n);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { addr, length, lkey };

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	struct weft_qp_object *qp = to_object(ex);
	struct weft_send *s = data(qp, WEFT_SENDS | WEFT_WRITES);

	if (!s)
		return;
	s->flags |= IBV_SEND_INLINE;
	for (size_t i = 0; i < n; i++) {
		int error = weft_put_inline(qp, s, list[i].addr, list[i].length);

		if (error) {
			fail(qp, error);
			return;
		}
	}
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { addr, length };

	wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct weft_qp_object *qp = to_object(ex);

	pthread_spin_lock(&qp->send.lock);
	qp->before = qp->send.posted;
	qp->building = NULL;
	qp->error = weft_may_send(qp);
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct weft_qp_object *qp = to_object(ex);

	qp->send.posted = qp->before;
	qp->building = NULL;
	pthread_spin_unlock(&qp->send.lock);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct weft_qp_object *qp = to_object(ex);
	int error;

	finish(qp);
	error = qp->error;
	if (error) {
		wr_abort(ex);
		return weft_error(error);
	}
	if (qp->send.posted != qp->before)
		weft_publish(qp, &qp->send);
	pthread_spin_unlock(&qp->send.lock);
	return 0;
}

void weft_offer_wr(struct weft_qp_object *qp, uint64_t operations)
{
	struct ibv_qp_ex *ex = &qp->ex;

	qp->offered = operations;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_atomic_write = wr_atomic_write;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp) { return to_qp(qp)->ex.wr_start ? &to_qp(qp)->ex : NULL; }

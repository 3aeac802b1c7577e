/* post.c: work requests as lists of structs: ibv_post_send() and ibv_post_recv(). */
#include <endian.h>

#include "post.h"

uint32_t weft_operations(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return WEFT_SENDS | WEFT_WRITES | WEFT_OP(IBV_WR_RDMA_READ) | WEFT_ATOMICS | WEFT_LOCALS;
	case IBV_QPT_UC:
		return (WEFT_SENDS & ~WEFT_OP(IBV_WR_SEND_WITH_INV)) | WEFT_WRITES | WEFT_LOCALS;
	case IBV_QPT_UD:
		return WEFT_SENDS & ~WEFT_OP(IBV_WR_SEND_WITH_INV);
	default:
		return 0;
	}
}

static void put_operation(struct weft_send *s, const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	*s = (struct weft_send){ .opcode = wr->opcode, .flags = wr->send_flags };
	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_IMM:
		s->imm = be32toh(wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		s->imm = wr->invalidate_rkey;
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		s->imm = be32toh(wr->imm_data);
		/* fallthrough */
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
		s->remote_addr = wr->wr.rdma.remote_addr;
		s->rkey = wr->wr.rdma.rkey;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		s->remote_addr = wr->wr.atomic.remote_addr;
		s->rkey = wr->wr.atomic.rkey;
		s->compare_add = wr->wr.atomic.compare_add;
		s->swap = wr->wr.atomic.swap;
		break;
	case IBV_WR_BIND_MW:
		weft_put_bind(s, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		break;
	default:
		break;
	}
	if (qp->qp_type == IBV_QPT_XRC_SEND)
		s->remote_srqn = wr->qp_type.xrc.remote_srqn;
	if (qp->qp_type == IBV_QPT_UD) {
		s->ah = wr->wr.ud.ah->handle;
		s->remote_qpn = wr->wr.ud.remote_qpn;
		s->remote_qkey = wr->wr.ud.remote_qkey;
	}
}

/*
 * check checks a work request against ibv_post_send(3) for its queue pair's type. It
 * returns 0 or an errno.
 */
static int check(const struct weft_qp_object *qp, const struct ibv_send_wr *wr)
{
	if (!weft_is(wr->opcode, weft_operations(qp->qp.qp_type)))
		return weft_refuse(EINVAL, "post to queue pair %u: its type does not have opcode %d", qp->qp.qp_num, wr->opcode);
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->send.max_sge)
		return weft_refuse(EINVAL, "post to queue pair %u: num_sge is %d: max_send_sge is %u", qp->qp.qp_num, wr->num_sge, qp->send.max_sge);
	if (wr->send_flags & IBV_SEND_INLINE && !weft_is(wr->opcode, WEFT_SENDS | WEFT_WRITES))
		return weft_refuse(EINVAL, "post to queue pair %u: opcode %d has no inline data", qp->qp.qp_num, wr->opcode);
	if (qp->qp.qp_type == IBV_QPT_UD && !wr->wr.ud.ah)
		return weft_refuse(EINVAL, "post to queue pair %u: a datagram has no address handle", qp->qp.qp_num);
	if (!weft_has_right_length(wr->opcode, wr->sg_list, wr->num_sge))
		return weft_refuse(EINVAL, "post to queue pair %u: the list of an atomic is not of 8 bytes", qp->qp.qp_num);
	return 0;
}

static int put_send(struct weft_qp_object *qp, const struct ibv_send_wr *wr)
{
	struct weft_half *h = &qp->send;
	struct weft_send *s = weft_next(h);
	int error;

	if (!s)
		return weft_error(ENOMEM);
	error = check(qp, wr);
	if (error)
		return error;
	put_operation(s, &qp->qp, wr);
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		s->sges = wr->num_sge;
		weft_put_sges(s + 1, wr->sg_list, wr->num_sge);
	}
	for (int i = 0; wr->send_flags & IBV_SEND_INLINE && i < wr->num_sge; i++) {
		error = weft_put_inline(qp, s, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		if (error)
			return error;
	}
	h->wr_ids[h->posted & h->mask] = wr->wr_id;
	h->posted++;
	return 0;
}

int weft_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct weft_qp_object *qp = to_qp(ibv);
	struct weft_half *h = &qp->send;
	int error = weft_may_send(qp);
	uint32_t before;

	if (error) {
		*bad = wr;
		return error;
	}
	pthread_spin_lock(&h->lock);
	before = h->posted;
	for (; wr; wr = wr->next) {
		error = put_send(qp, wr);
		if (error) {
			*bad = wr;
			break;
		}
	}
	if (h->posted != before)
		weft_publish(qp, h);
	pthread_spin_unlock(&h->lock);
	return error;
}

int weft_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct weft_qp_object *qp = to_qp(ibv);
	struct weft_half *h = &qp->recv;
	uint32_t before;
	int error = 0;

	if (qp->session->dead || ibv->state == IBV_QPS_RESET || ibv->srq || weft_is_xrc(ibv)) {
		*bad = wr;
		if (qp->session->dead)
			return weft_error(EIO);
		return weft_refuse(EINVAL, "receive at queue pair %u: it %s", ibv->qp_num,
				   weft_is_xrc(ibv) ? "has no receives, as it is of type XRC" : ibv->srq ? "has a shared receive queue" : "is in RESET");
	}
	pthread_spin_lock(&h->lock);
	before = h->posted;
	for (; wr; wr = wr->next) {
		struct weft_recv *r = weft_next(h);

		if (!r || wr->num_sge < 0 || (uint32_t)wr->num_sge > h->max_sge) {
			error = !r ? weft_error(ENOMEM) : weft_refuse(EINVAL, "receive at queue pair %u: num_sge is %d: max_recv_sge is %u", ibv->qp_num, wr->num_sge, h->max_sge);
			*bad = wr;
			break;
		}
		*r = (struct weft_recv){ .cookie = h->posted, .sges = wr->num_sge };
		weft_put_sges(r + 1, wr->sg_list, wr->num_sge);
		h->wr_ids[h->posted & h->mask] = wr->wr_id;
		h->posted++;
	}
	if (h->posted != before)
		weft_publish(qp, h);
	pthread_spin_unlock(&h->lock);
	return error;
}

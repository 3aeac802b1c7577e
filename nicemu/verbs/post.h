/* post.h: putting work requests into queues, for ibv_post_*() and ibv_wr_*(). */
#ifndef WEFT_POST_H
#define WEFT_POST_H

#include <string.h>

#include "weft.h"

/* Sets of operations, by enum ibv_wr_opcode. */
#define WEFT_OP(opcode) (1u << (opcode))
#define WEFT_SENDS (WEFT_OP(IBV_WR_SEND) | WEFT_OP(IBV_WR_SEND_WITH_IMM) | WEFT_OP(IBV_WR_SEND_WITH_INV))
#define WEFT_WRITES (WEFT_OP(IBV_WR_RDMA_WRITE) | WEFT_OP(IBV_WR_RDMA_WRITE_WITH_IMM))
#define WEFT_ATOMICS (WEFT_OP(IBV_WR_ATOMIC_CMP_AND_SWP) | WEFT_OP(IBV_WR_ATOMIC_FETCH_AND_ADD))
#define WEFT_LOCALS (WEFT_OP(IBV_WR_LOCAL_INV) | WEFT_OP(IBV_WR_BIND_MW))

static inline bool weft_is(uint32_t opcode, uint32_t set) { return opcode < 32 && WEFT_OP(opcode) & set; }

/* weft_has_right_length checks the length of a list for the operation: atomics have 8 bytes. */
static inline bool weft_has_right_length(uint32_t opcode, const struct ibv_sge *list, size_t n)
{
	uint64_t length = 0;

	for (size_t i = 0; i < n; i++)
		length += list[i].length;
	return !weft_is(opcode, WEFT_ATOMICS) || length == sizeof(uint64_t);
}

/* weft_next returns the slot to be posted next; NULL if the queue is full. */
static inline void *weft_next(struct weft_half *h)
{
	if (h->posted - __atomic_load_n(&h->done, __ATOMIC_ACQUIRE) >= h->max_wr)
		return NULL;
	return h->slots + (size_t)(h->posted & h->mask) * h->stride;
}

static inline void weft_put_sges(void *slot, const struct ibv_sge *list, uint32_t n)
{
	struct weft_sge *to = slot;

	for (uint32_t i = 0; i < n; i++)
		to[i] = (struct weft_sge){ list[i].addr, list[i].length, list[i].lkey };
}

/* weft_put_inline appends inline bytes to a slot; EINVAL if there are too many. */
static inline int weft_put_inline(const struct weft_qp_object *qp, struct weft_send *s, const void *from, size_t n)
{
	if (n > qp->max_inline - s->inlined)
		return weft_refuse(EINVAL, "post to queue pair %u: %zu bytes inline: max_inline_data is %u", qp->qp.qp_num, s->inlined + n, qp->max_inline);
	memcpy((char *)(s + 1) + s->inlined, from, n);
	s->inlined += n;
	return 0;
}

static inline void weft_put_bind(struct weft_send *s, const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	s->rkey = mw->rkey;
	s->imm = rkey;
	s->ah = info->mr ? info->mr->lkey : 0;
	s->remote_addr = info->addr;
	s->compare_add = info->length;
	s->swap = info->mw_access_flags;
}

/* weft_publish makes posted slots visible to the lab. */
static inline void weft_publish(struct weft_qp_object *qp, struct weft_half *h)
{
	__atomic_store_n(h->index, h->posted, __ATOMIC_RELEASE);
	weft_ring(qp->session, qp->number);
}

static inline bool weft_is_xrc(const struct ibv_qp *qp) { return qp->qp_type == IBV_QPT_XRC_SEND || qp->qp_type == IBV_QPT_XRC_RECV; }

/* weft_may_send returns 0, or the error why nothing can be posted to the send queue now. */
static inline int weft_may_send(const struct weft_qp_object *qp)
{
	if (qp->session->dead)
		return weft_error(EIO);
	if (qp->qp.qp_type == IBV_QPT_XRC_RECV)
		return weft_refuse(EINVAL, "post to queue pair %u: it sends nothing, as it is of type XRC_RECV", qp->qp.qp_num);
	/* The lab itself moves it to SQE and ERR, where posting is allowed. */
	if (qp->qp.state < IBV_QPS_RTS)
		return weft_refuse(EINVAL, "post to queue pair %u: it is not in RTS yet", qp->qp.qp_num);
	return 0;
}

#endif

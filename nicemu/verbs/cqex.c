/* cqex.c: completion queues that are read entry by entry (ibv_create_cq_ex(3)). */
#include "weft.h"

#define FIELDS                                                                                                      \
	(IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP |             \
	 IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL | IBV_WC_EX_WITH_DLID_PATH_BITS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct weft_cq_object *to_object(struct ibv_cq_ex *ex) { return (struct weft_cq_object *)ex; }

/* advance makes the next entry the current one; false if there is none. */
static bool advance(struct weft_cq_object *cq)
{
	if (!weft_cq_take(cq, &cq->wc, &cq->time))
		return false;
	cq->ex.wr_id = cq->wc.wr_id;
	cq->ex.status = cq->wc.status;
	return true;
}

/* The queue is locked from a successful start_poll to end_poll. */
static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct weft_cq_object *cq = to_object(ex);

	if (attr && attr->comp_mask)
		return weft_error(EINVAL);
	if (cq->session->dead)
		return weft_error(EIO);
	weft_cq_lock(cq);
	if (advance(cq))
		return 0;
	weft_cq_unlock(cq, true);
	return ENOENT;
}

static int next_poll(struct ibv_cq_ex *ex) { return advance(to_object(ex)) ? 0 : ENOENT; }
static void end_poll(struct ibv_cq_ex *ex) { weft_cq_unlock(to_object(ex), false); }

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex) { return to_object(ex)->wc.opcode; }
static uint32_t read_vendor_err(struct ibv_cq_ex *ex) { return to_object(ex)->wc.vendor_err; }
static uint32_t read_byte_len(struct ibv_cq_ex *ex) { return to_object(ex)->wc.byte_len; }
static __be32 read_imm_data(struct ibv_cq_ex *ex) { return to_object(ex)->wc.imm_data; }
static uint32_t read_qp_num(struct ibv_cq_ex *ex) { return to_object(ex)->wc.qp_num; }
static uint32_t read_src_qp(struct ibv_cq_ex *ex) { return to_object(ex)->wc.src_qp; }
static unsigned int read_wc_flags(struct ibv_cq_ex *ex) { return to_object(ex)->wc.wc_flags; }
static uint32_t read_slid(struct ibv_cq_ex *ex) { return to_object(ex)->wc.slid; }
static uint8_t read_sl(struct ibv_cq_ex *ex) { return to_object(ex)->wc.sl; }
static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex) { return to_object(ex)->wc.dlid_path_bits; }
static uint64_t read_completion_ts(struct ibv_cq_ex *ex) { return to_object(ex)->time; }

/* The time of day is by the program's clock, which a dilated lab slows down. */
static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	struct weft_cq_object *cq = to_object(ex);

	return __atomic_load_n(&cq->ring->epoch, __ATOMIC_RELAXED) + cq->time;
}

struct ibv_cq_ex *weft_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct ibv_pd *domain = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? attr->parent_domain : NULL;
	struct weft_cq_object *cq;

	/* A single-threaded queue is locked too, although it need not be. */
	if (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) || flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED || attr->wc_flags & ~(uint64_t)FIELDS)
		return weft_fail(EOPNOTSUPP);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD && (!domain || !to_domain(domain)->of))
		return weft_fail(EINVAL);
	cq = weft_new_cq(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector,
			 attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	if (!cq)
		return NULL;
	cq->domain = domain;
	weft_enter_domain(domain);
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = next_poll;
	cq->ex.end_poll = end_poll;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_vendor_err = read_vendor_err;
	cq->ex.read_byte_len = read_byte_len;
	cq->ex.read_imm_data = read_imm_data;
	cq->ex.read_qp_num = read_qp_num;
	cq->ex.read_src_qp = read_src_qp;
	cq->ex.read_wc_flags = read_wc_flags;
	cq->ex.read_slid = read_slid;
	cq->ex.read_sl = read_sl;
	cq->ex.read_dlid_path_bits = read_dlid_path_bits;
	cq->ex.read_completion_ts = read_completion_ts;
	cq->ex.read_completion_wallclock_ns = read_completion_wallclock_ns;
	return &cq->ex;
}

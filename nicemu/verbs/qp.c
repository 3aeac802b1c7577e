/* qp.c: queue pairs: their creation, states and attributes. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "weft.h"

static bool init_half(struct weft_half *h, struct ibv_pd *pd, uint32_t *index, char *slots, uint32_t n, uint32_t stride, uint32_t max_wr, uint32_t max_sge)
{
	*h = (struct weft_half){ .index = index, .slots = slots, .mask = n - 1, .stride = stride, .max_wr = max_wr, .max_sge = max_sge };
	pthread_spin_init(&h->lock, PTHREAD_PROCESS_PRIVATE);
	h->wr_ids = weft_table_of(pd, n, &h->theirs);
	return h->wr_ids;
}

static void free_qp(struct weft_qp_object *qp)
{
	/* A forked child does not inherit the mapping. */
	if (qp->ring && !qp->session->dead)
		munmap(qp->ring, qp->size);
	weft_free_table(qp->qp.pd, qp->send.wr_ids, qp->send.theirs);
	weft_free_table(qp->qp.pd, qp->recv.wr_ids, qp->recv.theirs);
	weft_leave_domain(qp->qp.pd);
	free(qp);
}

/* set_up makes the library's half of a queue pair that the lab has made. */
static int set_up(struct weft_qp_object *qp, struct weft_context *c, const struct weft_qp_answer *a, int fd)
{
	char *slots;
	size_t sends = (size_t)a->send_slots * a->send_stride;

	qp->size = WEFT_PAGE + sends + (size_t)a->recv_slots * a->recv_stride;
	qp->ring = weft_map(fd, qp->size);
	if (!qp->ring)
		return errno;
	slots = (char *)qp->ring + WEFT_PAGE;
	if (!init_half(&qp->send, qp->qp.pd, &qp->ring->send, slots, a->send_slots, a->send_stride, a->max_send_wr, a->max_send_sge) ||
	    !init_half(&qp->recv, qp->qp.pd, &qp->ring->recv, slots + sends, a->recv_slots, a->recv_stride, a->max_recv_wr, a->max_recv_sge))
		return ENOMEM;
	if (weft_table_put(&c->qps, a->handle, qp))
		return ENOMEM;
	if (weft_table_put(&c->numbers, a->qp_num, qp)) {
		weft_table_remove(&c->qps, a->handle);
		return ENOMEM;
	}
	return 0;
}

static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, bool block_self_mcast)
{
	struct weft_context *c = to_context(pd->context);
	struct weft_create_qp q = {
		.pd = pd->handle, .send_cq = attr->send_cq ? attr->send_cq->handle : 0, .recv_cq = attr->recv_cq ? attr->recv_cq->handle : 0,
		.srq = attr->srq ? attr->srq->handle : 0, .type = attr->qp_type, .signal_all = !!attr->sq_sig_all,
		.max_send_wr = attr->cap.max_send_wr, .max_recv_wr = attr->cap.max_recv_wr, .max_send_sge = attr->cap.max_send_sge,
		.max_recv_sge = attr->cap.max_recv_sge, .max_inline = attr->cap.max_inline_data,
		.block_self_mcast = block_self_mcast,
	};
	struct weft_qp_object *qp = calloc(1, sizeof(*qp));
	struct weft_qp_answer a;
	int error, fd;

	if (!qp)
		return weft_fail(ENOMEM);
	if (!attr->send_cq || (!attr->recv_cq && attr->qp_type != IBV_QPT_XRC_SEND) || attr->qp_type == IBV_QPT_XRC_RECV) {
		free(qp);
		return weft_fail(EINVAL);
	}
	qp->session = c->session;
	qp->qp.pd = pd;
	weft_enter_domain(pd);
	error = weft_call(c->session, WEFT_CREATE_QP, &q, sizeof(q), &a, sizeof(a), &fd, 1);
	if (error)
		goto failed;
	error = set_up(qp, c, &a, fd);
	if (error) {
		weft_call_handle(c->session, WEFT_DESTROY_QP, a.handle);
		goto failed;
	}
	qp->number = a.number;
	qp->max_inline = a.max_inline;
	qp->signal_all = q.signal_all;
	qp->qp = (struct ibv_qp){
		.context = pd->context, .qp_context = attr->qp_context, .pd = pd, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq,
		.srq = attr->srq, .handle = a.handle, .qp_num = a.qp_num, .state = IBV_QPS_RESET, .qp_type = attr->qp_type,
	};
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	attr->cap = (struct ibv_qp_cap){ a.max_send_wr, a.max_recv_wr, a.max_send_sge, a.max_recv_sge, a.max_inline };
	return &qp->qp;
failed:
	free_qp(qp);
	return weft_fail(error);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr) { return create(pd, attr, false); }

#define EX_ATTRS (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)

static uint32_t create_flags(const struct ibv_qp_init_attr_ex *ex)
{
	return ex->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? ex->create_flags : 0;
}

/* is_offered reports whether the requested features of a queue pair are supported. */
static bool is_offered(const struct ibv_qp_init_attr_ex *ex)
{
	bool target = ex->qp_type == IBV_QPT_XRC_RECV;

	if (ex->comp_mask & ~(uint32_t)EX_ATTRS || !(ex->comp_mask & IBV_QP_INIT_ATTR_PD || target))
		return false;
	if (ex->comp_mask & IBV_QP_INIT_ATTR_XRCD && !target)
		return false;
	if (create_flags(ex) & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
		return false;
	if (ex->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER && ex->max_tso_header)
		return false;
	return !(ex->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) || !(ex->send_ops_flags & ~(uint64_t)weft_operations(ex->qp_type));
}

struct ibv_qp *weft_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *ex)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = ex->qp_context, .send_cq = ex->send_cq, .recv_cq = ex->recv_cq, .srq = ex->srq, .cap = ex->cap,
		.qp_type = ex->qp_type, .sq_sig_all = ex->sq_sig_all,
	};
	struct ibv_qp *qp;

	if (!is_offered(ex))
		return weft_fail(EOPNOTSUPP);
	if (ex->qp_type == IBV_QPT_XRC_RECV)
		return weft_create_target(c, ex);
	qp = create(ex->pd, &attr, create_flags(ex) & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
	if (!qp)
		return NULL;
	ex->cap = attr.cap;
	if (ex->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		weft_offer_wr(to_qp(qp), ex->send_ops_flags);
	return qp;
}

/*
 * QP_ATTRS lists the common fields of the two forms of attributes: the lab's name,
 * the verbs name, and the bit of the mask that selects it.
 */
#define QP_ATTRS(X)                                                                                             \
	X(state, qp_state, STATE) X(cur_state, cur_qp_state, CUR_STATE) X(path_mtu, path_mtu, PATH_MTU)             \
	X(path_mig_state, path_mig_state, PATH_MIG_STATE) X(qkey, qkey, QKEY) X(rq_psn, rq_psn, RQ_PSN)             \
	X(sq_psn, sq_psn, SQ_PSN) X(dest_qp_num, dest_qp_num, DEST_QPN) X(access, qp_access_flags, ACCESS_FLAGS)    \
	X(pkey_index, pkey_index, PKEY_INDEX) X(en_sqd_async_notify, en_sqd_async_notify, EN_SQD_ASYNC_NOTIFY)      \
	X(max_rd_atomic, max_rd_atomic, MAX_QP_RD_ATOMIC) X(max_dest_rd_atomic, max_dest_rd_atomic, MAX_DEST_RD_ATOMIC) \
	X(min_rnr_timer, min_rnr_timer, MIN_RNR_TIMER) X(port_num, port_num, PORT) X(timeout, timeout, TIMEOUT)     \
	X(retry_cnt, retry_cnt, RETRY_CNT) X(rnr_retry, rnr_retry, RNR_RETRY)

/* put_qp_attr takes the attributes of the mask; programs need not initialise the others. */
static void put_qp_attr(struct weft_qp_attr *to, const struct ibv_qp_attr *a, int mask)
{
#define PUT(ours, theirs, bit)          \
	if (mask & IBV_QP_##bit)        \
		to->ours = a->theirs;
	QP_ATTRS(PUT)
#undef PUT
	if (mask & IBV_QP_AV)
		weft_put_ah(&to->ah, &a->ah_attr);
}

void weft_get_qp_attr(struct ibv_qp_attr *to, const struct weft_qp_attr *a)
{
	memset(to, 0, sizeof(*to));
#define GET(ours, theirs, bit) to->theirs = a->ours;
	QP_ATTRS(GET)
#undef GET
	to->sq_draining = a->sq_draining; /* reported only, never set */
	weft_get_ah(&to->ah_attr, &a->ah);
}

static void forget(struct weft_half *h)
{
	h->posted = h->done = 0;
}

/* clean removes a queue pair's entries from its completion queues. */
static void clean(struct ibv_qp *qp)
{
	if (qp->send_cq)
		weft_cq_clean(qp->send_cq, qp->qp_num);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		weft_cq_clean(qp->recv_cq, qp->qp_num);
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct weft_qp_object *qp = to_qp(ibv);
	struct weft_qp_attr q = { .qp = ibv->handle, .mask = mask };
	struct weft_handle state;
	int error;

	put_qp_attr(&q, attr, mask);
	/* Nothing is posted while the lab takes over or discards posted work. */
	pthread_spin_lock(&qp->send.lock);
	pthread_spin_lock(&qp->recv.lock);
	error = weft_call(qp->session, WEFT_MODIFY_QP, &q, sizeof(q), &state, sizeof(state), NULL, 0);
	if (!error) {
		ibv->state = state.handle;
		if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET) {
			clean(ibv);
			forget(&qp->send);
			forget(&qp->recv);
		}
	}
	pthread_spin_unlock(&qp->recv.lock);
	pthread_spin_unlock(&qp->send.lock);
	return error;
}

int weft_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	struct weft_rate_limit q = { .qp = qp->handle, .rate = attr->rate_limit, .max_burst = attr->max_burst_sz, .typical_packet = attr->typical_pkt_sz };

	if (attr->comp_mask)
		return weft_error(EINVAL);
	return weft_call(to_qp(qp)->session, WEFT_SET_RATE_LIMIT, &q, sizeof(q), NULL, 0, NULL, 0);
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct weft_qp_object *qp = to_qp(ibv);
	struct weft_handle h = { .handle = ibv->handle };
	struct weft_qp_attr a;
	int error = weft_call(qp->session, WEFT_QUERY_QP, &h, sizeof(h), &a, sizeof(a), NULL, 0);

	(void)mask; /* all attributes are returned */
	if (error)
		return error;
	weft_get_qp_attr(attr, &a);
	attr->cap = (struct ibv_qp_cap){ qp->send.max_wr, qp->recv.max_wr, qp->send.max_sge, qp->recv.max_sge, qp->max_inline };
	ibv->state = attr->qp_state;
	*init = (struct ibv_qp_init_attr){
		.qp_context = ibv->qp_context, .send_cq = ibv->send_cq, .recv_cq = ibv->recv_cq, .srq = ibv->srq,
		.cap = attr->cap, .qp_type = ibv->qp_type, .sq_sig_all = qp->signal_all,
	};
	return 0;
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp, (void)op, (void)flags;
	return 0;
}

/* No vendor extensions of connections are supported (enhanced connection establishment). */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	memset(ece, 0, sizeof(*ece));
	return 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	if (!ece->vendor_id)
		return 0;
	return weft_error(EOPNOTSUPP);
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct weft_qp_object *qp = to_qp(ibv);
	struct weft_context *c = to_context(ibv->context);
	int error;

	if (weft_table_get(&c->qps, ibv->handle) != qp)
		return weft_error(ENOENT);
	error = weft_call_handle(qp->session, WEFT_DESTROY_QP, ibv->handle);
	if (error && !qp->session->dead)
		return error;
	clean(ibv);
	weft_table_remove(&c->qps, ibv->handle);
	if (ibv->qp_type != IBV_QPT_XRC_RECV)
		weft_table_remove(&c->numbers, ibv->qp_num);
	pthread_mutex_lock(&ibv->mutex);
	while (!qp->session->dead && ibv->events_completed != qp->async_events)
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	pthread_mutex_unlock(&ibv->mutex);
	free_qp(qp);
	return 0;
}

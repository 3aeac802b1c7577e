/* qp.c: queue pairs and shared receive queues, and posting to them. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "weft.h"

static bool init_half(struct weft_half *h, uint32_t *index, char *slots, uint32_t n, uint32_t stride, uint32_t max_wr, uint32_t max_sge)
{
	*h = (struct weft_half){ .index = index, .slots = slots, .mask = n - 1, .stride = stride, .max_wr = max_wr, .max_sge = max_sge };
	pthread_spin_init(&h->lock, PTHREAD_PROCESS_PRIVATE);
	h->wr_ids = calloc(n, sizeof(*h->wr_ids));
	return h->wr_ids;
}

static void free_qp(struct weft_qp_object *qp)
{
	/* What a forked child inherits is not mapped in it. */
	if (qp->ring && !qp->session->dead)
		munmap(qp->ring, qp->size);
	free(qp->send.wr_ids);
	free(qp->recv.wr_ids);
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
	if (!init_half(&qp->send, &qp->ring->send, slots, a->send_slots, a->send_stride, a->max_send_wr, a->max_send_sge) ||
	    !init_half(&qp->recv, &qp->ring->recv, slots + sends, a->recv_slots, a->recv_stride, a->max_recv_wr, a->max_recv_sge))
		return ENOMEM;
	if (weft_table_put(&c->qps, a->handle, qp))
		return ENOMEM;
	if (weft_table_put(&c->numbers, a->qp_num, qp)) {
		weft_table_remove(&c->qps, a->handle);
		return ENOMEM;
	}
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct weft_context *c = to_context(pd->context);
	struct weft_create_qp q = {
		.pd = pd->handle, .send_cq = attr->send_cq ? attr->send_cq->handle : 0, .recv_cq = attr->recv_cq ? attr->recv_cq->handle : 0,
		.srq = attr->srq ? attr->srq->handle : 0, .type = attr->qp_type, .signal_all = !!attr->sq_sig_all,
		.max_send_wr = attr->cap.max_send_wr, .max_recv_wr = attr->cap.max_recv_wr, .max_send_sge = attr->cap.max_send_sge,
		.max_recv_sge = attr->cap.max_recv_sge, .max_inline = attr->cap.max_inline_data,
	};
	struct weft_qp_object *qp = calloc(1, sizeof(*qp));
	struct weft_qp_answer a;
	int error, fd;

	if (!qp)
		return weft_fail(ENOMEM);
	qp->session = c->session;
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

struct ibv_qp *weft_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *ex)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = ex->qp_context, .send_cq = ex->send_cq, .recv_cq = ex->recv_cq, .srq = ex->srq, .cap = ex->cap,
		.qp_type = ex->qp_type, .sq_sig_all = ex->sq_sig_all,
	};
	struct ibv_qp *qp;

	(void)c;
	if (ex->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS) || !(ex->comp_mask & IBV_QP_INIT_ATTR_PD) ||
	    (ex->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && ex->create_flags))
		return weft_fail(EOPNOTSUPP);
	qp = ibv_create_qp(ex->pd, &attr);
	if (qp)
		ex->cap = attr.cap;
	return qp;
}

/* Posting by ibv_wr_*() is not offered: IBV_QP_INIT_ATTR_SEND_OPS_FLAGS is refused. */
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	(void)qp;
	return NULL;
}

static void put_qp_attr(struct weft_qp_attr *to, const struct ibv_qp_attr *a)
{
	to->state = a->qp_state;
	to->cur_state = a->cur_qp_state;
	to->path_mtu = a->path_mtu;
	to->path_mig_state = a->path_mig_state;
	to->qkey = a->qkey;
	to->rq_psn = a->rq_psn;
	to->sq_psn = a->sq_psn;
	to->dest_qp_num = a->dest_qp_num;
	to->access = a->qp_access_flags;
	to->pkey_index = a->pkey_index;
	to->en_sqd_async_notify = a->en_sqd_async_notify;
	to->max_rd_atomic = a->max_rd_atomic;
	to->max_dest_rd_atomic = a->max_dest_rd_atomic;
	to->min_rnr_timer = a->min_rnr_timer;
	to->port_num = a->port_num;
	to->timeout = a->timeout;
	to->retry_cnt = a->retry_cnt;
	to->rnr_retry = a->rnr_retry;
	weft_put_ah(&to->ah, &a->ah_attr);
}

void weft_get_qp_attr(struct ibv_qp_attr *to, const struct weft_qp_attr *a)
{
	memset(to, 0, sizeof(*to));
	to->qp_state = a->state;
	to->cur_qp_state = a->cur_state;
	to->path_mtu = a->path_mtu;
	to->path_mig_state = a->path_mig_state;
	to->qkey = a->qkey;
	to->rq_psn = a->rq_psn;
	to->sq_psn = a->sq_psn;
	to->dest_qp_num = a->dest_qp_num;
	to->qp_access_flags = a->access;
	to->pkey_index = a->pkey_index;
	to->en_sqd_async_notify = a->en_sqd_async_notify;
	to->sq_draining = a->sq_draining;
	to->max_rd_atomic = a->max_rd_atomic;
	to->max_dest_rd_atomic = a->max_dest_rd_atomic;
	to->min_rnr_timer = a->min_rnr_timer;
	to->port_num = a->port_num;
	to->timeout = a->timeout;
	to->retry_cnt = a->retry_cnt;
	to->rnr_retry = a->rnr_retry;
	weft_get_ah(&to->ah_attr, &a->ah);
}

static void forget(struct weft_half *h)
{
	h->posted = h->done = 0;
}

/* clean takes a queue pair's entries out of its completion queues. */
static void clean(struct ibv_qp *qp)
{
	weft_cq_clean(qp->send_cq, qp->qp_num);
	if (qp->recv_cq != qp->send_cq)
		weft_cq_clean(qp->recv_cq, qp->qp_num);
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct weft_qp_object *qp = to_qp(ibv);
	struct weft_qp_attr q = { .qp = ibv->handle, .mask = mask };
	struct weft_handle state;
	int error;

	put_qp_attr(&q, attr);
	/* Nothing is posted while the lab takes over what was, or forgets it. */
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

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct weft_qp_object *qp = to_qp(ibv);
	struct weft_handle h = { .handle = ibv->handle };
	struct weft_qp_attr a;
	int error = weft_call(qp->session, WEFT_QUERY_QP, &h, sizeof(h), &a, sizeof(a), NULL, 0);

	(void)mask; /* all is given */
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

/* No vendor's extensions of connections are known (enhanced connection establishment). */
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
	return EOPNOTSUPP;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct weft_qp_object *qp = to_qp(ibv);
	struct weft_context *c = to_context(ibv->context);
	int error = weft_call_handle(qp->session, WEFT_DESTROY_QP, ibv->handle);

	if (error && !qp->session->dead)
		return error;
	clean(ibv);
	weft_table_remove(&c->qps, ibv->handle);
	weft_table_remove(&c->numbers, ibv->qp_num);
	pthread_mutex_lock(&ibv->mutex);
	while (!qp->session->dead && ibv->events_completed != qp->async_events)
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	pthread_mutex_unlock(&ibv->mutex);
	free_qp(qp);
	return 0;
}

/* next gives the slot that is posted next; NULL if the queue is full. */
static char *next(struct weft_half *h)
{
	if (h->posted - __atomic_load_n(&h->done, __ATOMIC_ACQUIRE) >= h->max_wr)
		return NULL;
	return h->slots + (size_t)(h->posted & h->mask) * h->stride;
}

static void put_sges(void *slot, const struct ibv_sge *list, int n)
{
	struct weft_sge *to = slot;

	for (int i = 0; i < n; i++)
		to[i] = (struct weft_sge){ list[i].addr, list[i].length, list[i].lkey };
}

/* put_inline copies bytes into a slot; false if they are too many. */
static bool put_inline(struct weft_qp_object *qp, struct weft_send *s, const struct ibv_send_wr *wr)
{
	char *to = (char *)(s + 1);
	uint64_t n = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		if (n + wr->sg_list[i].length > qp->max_inline)
			return false;
		memcpy(to + n, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		n += wr->sg_list[i].length;
	}
	s->sges = 0;
	s->inlined = n;
	return true;
}

static void put_operation(struct weft_send *s, const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	*s = (struct weft_send){ .opcode = wr->opcode, .flags = wr->send_flags, .sges = wr->num_sge };
	s->imm = be32toh(wr->imm_data);
	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		s->imm = wr->invalidate_rkey;
		break;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
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
		s->rkey = wr->bind_mw.mw->rkey;
		s->imm = wr->bind_mw.rkey;
		s->ah = wr->bind_mw.bind_info.mr ? wr->bind_mw.bind_info.mr->lkey : 0;
		s->remote_addr = wr->bind_mw.bind_info.addr;
		s->compare_add = wr->bind_mw.bind_info.length;
		s->swap = wr->bind_mw.bind_info.mw_access_flags;
		break;
	default:
		break;
	}
	if (qp->qp_type == IBV_QPT_UD) {
		s->ah = wr->wr.ud.ah->handle;
		s->remote_qpn = wr->wr.ud.remote_qpn;
		s->remote_qkey = wr->wr.ud.remote_qkey;
	}
}

static int put_send(struct weft_qp_object *qp, const struct ibv_send_wr *wr)
{
	struct weft_half *h = &qp->send;
	struct weft_send *s = (struct weft_send *)next(h);

	if (!s)
		return ENOMEM;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > h->max_sge || (wr->opcode > IBV_WR_SEND_WITH_INV) || (qp->qp.qp_type == IBV_QPT_UD && !wr->wr.ud.ah))
		return EINVAL;
	put_operation(s, &qp->qp, wr);
	if (!(wr->send_flags & IBV_SEND_INLINE))
		put_sges(s + 1, wr->sg_list, wr->num_sge);
	else if (!put_inline(qp, s, wr))
		return EINVAL;
	h->wr_ids[h->posted & h->mask] = wr->wr_id;
	h->posted++;
	return 0;
}

static void publish(struct weft_half *h) { __atomic_store_n(h->index, h->posted, __ATOMIC_RELEASE); }

int weft_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct weft_qp_object *qp = to_qp(ibv);
	struct weft_half *h = &qp->send;
	uint32_t before;
	int error = 0;

	/* It goes to SQE and ERR by itself, where posting is allowed. */
	if (qp->session->dead || ibv->state < IBV_QPS_RTS) {
		*bad = wr;
		return qp->session->dead ? EIO : EINVAL;
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
	if (h->posted != before) {
		publish(h);
		weft_ring(qp->session, qp->number);
	}
	pthread_spin_unlock(&h->lock);
	return error;
}

int weft_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct weft_qp_object *qp = to_qp(ibv);
	struct weft_half *h = &qp->recv;
	uint32_t before;
	int error = 0;

	if (qp->session->dead || ibv->state == IBV_QPS_RESET || ibv->srq) {
		*bad = wr;
		return qp->session->dead ? EIO : EINVAL;
	}
	pthread_spin_lock(&h->lock);
	before = h->posted;
	for (; wr; wr = wr->next) {
		struct weft_recv *r = (struct weft_recv *)next(h);

		if (!r || wr->num_sge < 0 || (uint32_t)wr->num_sge > h->max_sge) {
			error = r ? EINVAL : ENOMEM;
			*bad = wr;
			break;
		}
		*r = (struct weft_recv){ .cookie = h->posted, .sges = wr->num_sge };
		put_sges(r + 1, wr->sg_list, wr->num_sge);
		h->wr_ids[h->posted & h->mask] = wr->wr_id;
		h->posted++;
	}
	if (h->posted != before) {
		publish(h);
		weft_ring(qp->session, qp->number);
	}
	pthread_spin_unlock(&h->lock);
	return error;
}

static void free_srq(struct weft_srq_object *srq)
{
	if (srq->ring && !srq->session->dead)
		munmap(srq->ring, srq->size);
	free(srq->next);
	free(srq->wr_ids);
	free(srq);
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct weft_context *c = to_context(pd->context);
	struct weft_create_srq q = { pd->handle, attr->attr.max_wr, attr->attr.max_sge, attr->attr.srq_limit };
	struct weft_srq_object *srq = calloc(1, sizeof(*srq));
	struct weft_srq_answer a;
	int error, fd;

	if (!srq)
		return weft_fail(ENOMEM);
	srq->session = c->session;
	error = weft_call(c->session, WEFT_CREATE_SRQ, &q, sizeof(q), &a, sizeof(a), &fd, 1);
	if (error)
		goto failed;
	srq->size = WEFT_PAGE + (size_t)a.slots * a.stride;
	srq->ring = weft_map(fd, srq->size);
	srq->next = calloc(a.max_wr, sizeof(*srq->next));
	srq->wr_ids = calloc(a.max_wr, sizeof(*srq->wr_ids));
	if (!srq->ring || !srq->next || !srq->wr_ids || weft_table_put(&c->srqs, a.handle, srq)) {
		weft_call_handle(c->session, WEFT_DESTROY_SRQ, a.handle);
		error = ENOMEM;
		goto failed;
	}
	srq->slots = (char *)srq->ring + WEFT_PAGE;
	srq->number = a.number;
	srq->mask = a.slots - 1;
	srq->stride = a.stride;
	srq->max_wr = a.max_wr;
	srq->max_sge = a.max_sge;
	for (uint32_t i = 0; i < a.max_wr; i++)
		srq->next[i] = i + 1;
	pthread_spin_init(&srq->lock, PTHREAD_PROCESS_PRIVATE);
	srq->srq = (struct ibv_srq){ .context = pd->context, .srq_context = attr->srq_context, .pd = pd, .handle = a.handle };
	pthread_mutex_init(&srq->srq.mutex, NULL);
	pthread_cond_init(&srq->srq.cond, NULL);
	attr->attr.max_wr = a.max_wr;
	attr->attr.max_sge = a.max_sge;
	return &srq->srq;
failed:
	free_srq(srq);
	return weft_fail(error);
}

struct ibv_srq *weft_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *ex)
{
	struct ibv_srq_init_attr attr = { ex->srq_context, ex->attr };
	struct ibv_srq *srq;

	(void)c;
	if (!(ex->comp_mask & IBV_SRQ_INIT_ATTR_PD) || (ex->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && ex->srq_type != IBV_SRQT_BASIC))
		return weft_fail(EOPNOTSUPP);
	srq = ibv_create_srq(ex->pd, &attr);
	if (srq)
		ex->attr = attr.attr;
	return srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct weft_modify_srq m = { srq->handle, mask, attr->max_wr, attr->srq_limit };

	return weft_call(to_srq(srq)->session, WEFT_MODIFY_SRQ, &m, sizeof(m), NULL, 0, NULL, 0);
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct weft_handle h = { .handle = srq->handle };
	struct weft_srq_attr a;
	int error = weft_call(to_srq(srq)->session, WEFT_QUERY_SRQ, &h, sizeof(h), &a, sizeof(a), NULL, 0);

	if (!error)
		*attr = (struct ibv_srq_attr){ a.max_wr, a.max_sge, a.limit };
	return error;
}

int ibv_destroy_srq(struct ibv_srq *ibv)
{
	struct weft_srq_object *srq = to_srq(ibv);
	int error = weft_call_handle(srq->session, WEFT_DESTROY_SRQ, ibv->handle);

	if (error && !srq->session->dead)
		return error;
	weft_table_remove(&to_context(ibv->context)->srqs, ibv->handle);
	pthread_mutex_lock(&ibv->mutex);
	while (!srq->session->dead && ibv->events_completed != srq->async_events)
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	pthread_mutex_unlock(&ibv->mutex);
	free_srq(srq);
	return 0;
}

int weft_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct weft_srq_object *srq = to_srq(ibv);
	uint32_t before;
	int error = 0;

	if (srq->session->dead) {
		*bad = wr;
		return EIO;
	}
	pthread_spin_lock(&srq->lock);
	before = srq->posted;
	for (; wr; wr = wr->next) {
		struct weft_recv *r = (struct weft_recv *)(srq->slots + (size_t)(srq->posted & srq->mask) * srq->stride);
		uint32_t cookie = srq->free;

		if (srq->outstanding >= srq->max_wr || wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->max_sge) {
			error = srq->outstanding >= srq->max_wr ? ENOMEM : EINVAL;
			*bad = wr;
			break;
		}
		srq->free = srq->next[cookie];
		srq->wr_ids[cookie] = wr->wr_id;
		*r = (struct weft_recv){ .cookie = cookie, .sges = wr->num_sge };
		put_sges(r + 1, wr->sg_list, wr->num_sge);
		srq->posted++;
		srq->outstanding++;
	}
	if (srq->posted != before) {
		__atomic_store_n(&srq->ring->recv, srq->posted, __ATOMIC_RELEASE);
		weft_ring(srq->session, srq->number);
	}
	pthread_spin_unlock(&srq->lock);
	return error;
}

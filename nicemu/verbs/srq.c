/* srq.c: shared receive queues. */
#include <stdlib.h>
#include <sys/mman.h>

#include "post.h"

static void free_srq(struct weft_srq_object *srq)
{
	if (srq->ring && !srq->session->dead)
		munmap(srq->ring, srq->size);
	free(srq->next);
	weft_free_table(srq->srq.pd, srq->wr_ids, srq->theirs);
	weft_leave_domain(srq->srq.pd);
	free(srq);
}

/* enlist enters a queue into the tables of its context. */
static bool enlist(struct weft_context *c, uint32_t handle, uint32_t srq_num, struct weft_srq_object *srq)
{
	if (weft_table_put(&c->srqs, handle, srq))
		return false;
	if (srq_num && weft_table_put(&c->srq_numbers, srq_num, srq)) {
		weft_table_remove(&c->srqs, handle);
		return false;
	}
	return true;
}

/* The limit in attr is not looked at: "irrelevant for ibv_create_srq" (ibv_create_srq(3)). */
static struct ibv_srq *create(struct ibv_pd *pd, struct ibv_srq_init_attr *attr, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct weft_context *c = to_context(pd->context);
	struct weft_create_srq q = {
		.pd = pd->handle, .max_wr = attr->attr.max_wr, .max_sge = attr->attr.max_sge, .xrcd = weft_xrcd_handle(xrcd), .cq = cq ? cq->handle : 0,
	};
	struct weft_srq_object *srq = calloc(1, sizeof(*srq));
	struct weft_srq_answer a;
	int error, fd;

	if (!srq)
		return weft_fail(ENOMEM);
	srq->session = c->session;
	srq->srq.pd = pd;
	weft_enter_domain(pd);
	error = weft_call(c->session, WEFT_CREATE_SRQ, &q, sizeof(q), &a, sizeof(a), &fd, 1);
	if (error)
		goto failed;
	srq->size = WEFT_PAGE + (size_t)a.slots * a.stride;
	srq->ring = weft_map(fd, srq->size);
	srq->next = calloc(a.max_wr, sizeof(*srq->next));
	srq->wr_ids = weft_table_of(pd, a.max_wr, &srq->theirs);
	if (!srq->ring || !srq->next || !srq->wr_ids || !enlist(c, a.handle, a.srq_num, srq)) {
		weft_call_handle(c->session, WEFT_DESTROY_SRQ, a.handle);
		error = ENOMEM;
		goto failed;
	}
	srq->slots = (char *)srq->ring + WEFT_PAGE;
	srq->number = a.number;
	srq->srq_num = a.srq_num;
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

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr) { return create(pd, attr, NULL, NULL); }

/* is_whole reports whether the attributes of a queue of an XRC domain are there. */
static bool is_whole(const struct ibv_srq_init_attr_ex *ex)
{
	return ex->comp_mask & IBV_SRQ_INIT_ATTR_PD && ex->comp_mask & IBV_SRQ_INIT_ATTR_XRCD && ex->comp_mask & IBV_SRQ_INIT_ATTR_CQ && ex->xrcd && ex->cq;
}

struct ibv_srq *weft_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *ex)
{
	struct ibv_srq_init_attr attr = { ex->srq_context, ex->attr };
	bool xrc = ex->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && ex->srq_type == IBV_SRQT_XRC;
	struct ibv_srq *srq;

	(void)c;
	if (xrc && !is_whole(ex))
		return weft_fail(EINVAL);
	if (!(ex->comp_mask & IBV_SRQ_INIT_ATTR_PD) || (ex->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && ex->srq_type != IBV_SRQT_BASIC && !xrc))
		return weft_fail(EOPNOTSUPP);
	srq = create(ex->pd, &attr, xrc ? ex->xrcd : NULL, xrc ? ex->cq : NULL);
	if (srq)
		ex->attr = attr.attr;
	return srq;
}

int weft_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	if (!to_srq(srq)->srq_num)
		return weft_error(EINVAL);
	*number = to_srq(srq)->srq_num;
	return 0;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct weft_modify_srq m = {
		.srq = srq->handle, .mask = mask, .max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : 0, .limit = mask & IBV_SRQ_LIMIT ? attr->srq_limit : 0,
	};

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
	int error;

	if (weft_table_get(&to_context(ibv->context)->srqs, ibv->handle) != srq)
		return weft_error(ENOENT);
	error = weft_call_handle(srq->session, WEFT_DESTROY_SRQ, ibv->handle);
	if (error && !srq->session->dead)
		return error;
	weft_table_remove(&to_context(ibv->context)->srqs, ibv->handle);
	if (srq->srq_num)
		weft_table_remove(&to_context(ibv->context)->srq_numbers, srq->srq_num); /* its entries vanish from the completion queue */
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
		return weft_error(EIO);
	}
	pthread_spin_lock(&srq->lock);
	before = srq->posted;
	for (; wr; wr = wr->next) {
		struct weft_recv *r = (struct weft_recv *)(srq->slots + (size_t)(srq->posted & srq->mask) * srq->stride);
		uint32_t cookie = srq->free;

		if (srq->outstanding >= srq->max_wr || wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->max_sge) {
			error = srq->outstanding >= srq->max_wr ? weft_error(ENOMEM) : weft_refuse(EINVAL, "receive at a shared receive queue: num_sge is %d: max_sge is %u", wr->num_sge, srq->max_sge);
			*bad = wr;
			break;
		}
		srq->free = srq->next[cookie];
		srq->wr_ids[cookie] = wr->wr_id;
		*r = (struct weft_recv){ .cookie = cookie, .sges = wr->num_sge };
		weft_put_sges(r + 1, wr->sg_list, wr->num_sge);
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

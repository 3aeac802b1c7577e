/* cq.c: completion queues and channels, asynchronous events. */
#include <endian.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "weft.h"

/*
 * After this many empty polls in a row the processor is yielded: the lab needs it,
 * and a polling program would keep it busy. The yield comes before the poll, so that
 * the result is not stale: if an rdma_cm event follows an empty poll, libfabric
 * assumes that no completion precedes the event.
 */
#define PATIENCE 64

struct channel {
	struct ibv_comp_channel channel;
	struct weft_waiters waiters;
	uint32_t handle;
};

static struct channel *to_channel(struct ibv_comp_channel *c) { return (struct channel *)c; }

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct weft_context *c = to_context(context);
	struct weft_handle h = { .handle = c->device.handle };
	struct channel *ch = calloc(1, sizeof(*ch));
	int error;

	if (!ch)
		return weft_fail(ENOMEM);
	error = weft_call(c->session, WEFT_CREATE_CHANNEL, &h, sizeof(h), &h, sizeof(h), &ch->waiters.fd, 1);
	if (error) {
		free(ch);
		return weft_fail(error);
	}
	pthread_mutex_init(&ch->waiters.mutex, NULL);
	ch->waiters.of = &c->waiters;
	ch->channel.context = context;
	ch->channel.fd = ch->waiters.fd;
	ch->handle = h.handle;
	return &ch->channel;
}

static uint32_t handle_of(struct ibv_comp_channel *c) { return c ? to_channel(c)->handle : 0; }

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct channel *ch = to_channel(channel);

	if (__atomic_load_n(&channel->refcnt, __ATOMIC_ACQUIRE))
		return weft_error(EBUSY);
	weft_end(&ch->waiters);
	weft_call_handle(to_context(channel->context)->session, WEFT_DESTROY_CHANNEL, ch->handle);
	if (weft_release(&ch->waiters))
		free(ch);
	return 0;
}

static size_t size_of(uint32_t slots) { return WEFT_PAGE + (size_t)slots * sizeof(struct weft_cqe); }

struct weft_cq_object *weft_new_cq(struct ibv_context *context, uint32_t cqe, void *user, struct ibv_comp_channel *channel, uint32_t vector, bool epoch)
{
	struct weft_context *c = to_context(context);
	struct weft_create_cq q = { .context = c->device.handle, .cqe = cqe, .channel = handle_of(channel), .epoch = epoch };
	struct weft_cq_object *cq;
	struct weft_cq_answer a;
	int error, fd;

	if (cqe < 1 || cqe > INT32_MAX || vector >= (uint32_t)context->num_comp_vectors)
		return weft_fail(EINVAL);
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return weft_fail(ENOMEM);
	error = weft_call(c->session, WEFT_CREATE_CQ, &q, sizeof(q), &a, sizeof(a), &fd, 1);
	if (error)
		goto failed;
	cq->size = size_of(a.slots);
	cq->ring = weft_map(fd, cq->size);
	error = cq->ring ? weft_table_put(&c->cqs, a.handle, cq) : errno;
	if (error) {
		if (cq->ring)
			munmap(cq->ring, cq->size);
		weft_call_handle(c->session, WEFT_DESTROY_CQ, a.handle);
		goto failed;
	}
	cq->entries = (struct weft_cqe *)((char *)cq->ring + WEFT_PAGE);
	cq->slots = a.slots;
	cq->session = c->session;
	pthread_spin_init(&cq->lock, PTHREAD_PROCESS_PRIVATE);
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cq_context = user;
	cq->cq.handle = a.handle;
	cq->cq.cqe = a.cqe;
	pthread_mutex_init(&cq->cq.mutex, NULL);
	pthread_cond_init(&cq->cq.cond, NULL);
	if (channel)
		__atomic_add_fetch(&channel->refcnt, 1, __ATOMIC_RELAXED);
	return cq;
failed:
	free(cq);
	return weft_fail(error);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *user, struct ibv_comp_channel *channel, int vector)
{
	struct weft_cq_object *cq = weft_new_cq(context, cqe, user, channel, vector, false);

	return cq ? &cq->cq : NULL;
}

int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	struct weft_cq_object *cq = to_cq(ibv);
	struct weft_create_cq q = { .cq = ibv->handle, .cqe = cqe };
	struct weft_cq_answer a;
	struct weft_cq *ring;
	int error, fd;

	if (cqe < 1)
		return weft_error(EINVAL);
	/* Waiting entries move with the queue, so none may be taken meanwhile. */
	pthread_spin_lock(&cq->lock);
	error = weft_call(cq->session, WEFT_RESIZE_CQ, &q, sizeof(q), &a, sizeof(a), &fd, 1);
	if (!error) {
		ring = weft_map(fd, size_of(a.slots));
		if (ring) {
			munmap(cq->ring, cq->size);
			cq->ring = ring;
			cq->entries = (struct weft_cqe *)((char *)ring + WEFT_PAGE);
			cq->size = size_of(a.slots);
			cq->slots = a.slots;
			cq->taken = ring->taken;
			ibv->cqe = a.cqe;
		} else {
			error = errno;
			cq->session->dead = true; /* the lab has the new one */
		}
	}
	pthread_spin_unlock(&cq->lock);
	return weft_error(error);
}

int weft_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	struct weft_modify_cq m = { .cq = cq->handle };

	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return weft_error(EINVAL);
	m.count = attr->moderate.cq_count;
	m.period = attr->moderate.cq_period;
	return weft_call(to_cq(cq)->session, WEFT_MODIFY_CQ, &m, sizeof(m), NULL, 0, NULL, 0);
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct weft_cq_object *cq = to_cq(ibv);
	int error;

	if (weft_table_get(&to_context(ibv->context)->cqs, ibv->handle) != cq)
		return weft_error(ENOENT);
	error = weft_call_handle(cq->session, WEFT_DESTROY_CQ, ibv->handle);
	if (error && !cq->session->dead)
		return error;
	weft_table_remove(&to_context(ibv->context)->cqs, ibv->handle);
	/* The program must first acknowledge the events that it has taken. */
	pthread_mutex_lock(&ibv->mutex);
	while (!cq->session->dead && (ibv->comp_events_completed != cq->events || ibv->async_events_completed != cq->async_events))
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	pthread_mutex_unlock(&ibv->mutex);
	if (ibv->channel)
		__atomic_sub_fetch(&ibv->channel->refcnt, 1, __ATOMIC_RELEASE);
	if (!cq->session->dead)
		munmap(cq->ring, cq->size);
	weft_leave_domain(cq->domain);
	free(cq);
	return 0;
}

/* finish_shared frees a request of a shared receive queue and returns its ID. */
static uint64_t finish_shared(struct weft_srq_object *srq, const struct weft_cqe *e)
{
	uint32_t cookie = (uint32_t)e->id;
	uint64_t id;

	if (cookie >= srq->max_wr)
		return 0;
	pthread_spin_lock(&srq->lock);
	id = srq->wr_ids[cookie];
	srq->next[cookie] = srq->free;
	srq->free = cookie;
	srq->outstanding--;
	pthread_spin_unlock(&srq->lock);
	return id;
}

/* finish frees the slot of a work request and returns its ID. */
static uint64_t finish(struct weft_qp_object *qp, const struct weft_cqe *e)
{
	bool received = e->opcode & IBV_WC_RECV;
	struct weft_half *h = received ? &qp->recv : &qp->send;
	uint64_t id;

	if (received && qp->qp.srq)
		return finish_shared(to_srq(qp->qp.srq), e);
	id = h->wr_ids[e->id & h->mask];
	/* Earlier ones that were not signaled have completed, too. */
	__atomic_store_n(&h->done, (uint32_t)e->id + 1, __ATOMIC_RELEASE);
	return id;
}

/* The opcode in the completion of a failed send is undefined in verbs, but the lab sets it. */
static bool deliver(struct weft_context *c, const struct weft_cqe *e, struct ibv_wc *wc)
{
	if (e->dropped)
		return false;
	if (e->srq_num) {
		struct weft_srq_object *srq = weft_table_get(&c->srq_numbers, e->srq_num);

		if (!srq)
			return false;
		wc->wr_id = finish_shared(srq, e);
	} else {
		struct weft_qp_object *qp = weft_table_get(&c->numbers, e->qp_num);

		if (!qp)
			return false;
		wc->wr_id = finish(qp, e);
	}
	wc->status = e->status;
	wc->opcode = e->opcode;
	wc->vendor_err = e->vendor_err;
	wc->byte_len = e->byte_len;
	if (e->flags & IBV_WC_WITH_INV)
		wc->invalidated_rkey = e->imm;
	else
		wc->imm_data = htobe32(e->imm);
	wc->qp_num = e->qp_num;
	wc->src_qp = e->src_qp;
	wc->wc_flags = e->flags;
	wc->pkey_index = e->pkey_index;
	wc->slid = 0;
	wc->sl = e->sl;
	wc->dlid_path_bits = 0;
	return true;
}

bool weft_cq_take(struct weft_cq_object *cq, struct ibv_wc *wc, uint64_t *time)
{
	while (__atomic_load_n(&cq->ring->made, __ATOMIC_ACQUIRE) != cq->taken) {
		const struct weft_cqe *e = &cq->entries[cq->taken++ & (cq->slots - 1)];

		*time = e->time;
		if (deliver(to_context(cq->cq.context), e, wc))
			return true;
	}
	return false;
}

void weft_cq_lock(struct weft_cq_object *cq)
{
	if (__atomic_load_n(&cq->empty, __ATOMIC_RELAXED) >= PATIENCE) {
		__atomic_store_n(&cq->empty, 0, __ATOMIC_RELAXED);
		sched_yield();
	}
	pthread_spin_lock(&cq->lock);
}

void weft_cq_unlock(struct weft_cq_object *cq, bool empty)
{
	__atomic_store_n(&cq->empty, empty ? cq->empty + 1 : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&cq->ring->taken, cq->taken, __ATOMIC_RELEASE);
	pthread_spin_unlock(&cq->lock);
}

int weft_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct weft_cq_object *cq = to_cq(ibv);
	uint64_t time;
	int got = 0;

	if (cq->session->dead) {
		errno = EIO;
		return -1;
	}
	weft_cq_lock(cq);
	while (got < n && weft_cq_take(cq, &wc[got], &time))
		got++;
	weft_cq_unlock(cq, !got);
	return got;
}

void weft_cq_clean(struct ibv_cq *ibv, uint32_t qp_num)
{
	struct weft_cq_object *cq = to_cq(ibv);
	struct weft_context *c = to_context(ibv->context);
	struct weft_qp_object *qp = weft_table_get(&c->numbers, qp_num);

	if (cq->session->dead)
		return;
	pthread_spin_lock(&cq->lock);
	for (uint32_t i = cq->taken; i != __atomic_load_n(&cq->ring->made, __ATOMIC_ACQUIRE); i++) {
		struct weft_cqe *e = &cq->entries[i & (cq->slots - 1)];

		if (e->qp_num != qp_num || e->srq_num || e->dropped)
			continue;
		e->dropped = 1;
		if (qp && qp->qp.srq && e->opcode & IBV_WC_RECV)
			finish(qp, e); /* the slot of the shared queue is free */
	}
	pthread_spin_unlock(&cq->lock);
}

/*
 * is_missed reports whether there are entries that the program has not polled and
 * that no event has reported. Their event is due now: not every program polls again
 * after requesting one.
 */
static bool is_missed(struct weft_cq_object *cq, bool solicited_only)
{
	uint32_t last = __atomic_load_n(solicited_only ? &cq->ring->solicited : &cq->ring->made, __ATOMIC_SEQ_CST);
	uint32_t told = __atomic_load_n(&cq->ring->told, __ATOMIC_SEQ_CST);

	return (int32_t)(last - told) > 0 && (int32_t)(last - cq->taken) > 0;
}

int weft_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct weft_cq_object *cq = to_cq(ibv);
	bool missed;

	if (cq->session->dead)
		return weft_error(EIO);
	pthread_spin_lock(&cq->lock);
	/* The lab checks it after each entry that it makes. */
	__atomic_fetch_or(&cq->ring->arm, solicited_only ? WEFT_ARM_SOLICITED : WEFT_ARM_ANY, __ATOMIC_SEQ_CST);
	missed = is_missed(cq, solicited_only);
	pthread_spin_unlock(&cq->lock);
	return missed ? weft_call_handle(cq->session, WEFT_NOTIFY_CQ, ibv->handle) : 0;
}

/* Another thread may destroy the queue, the channel and the context meanwhile. */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **ibv, void **user)
{
	struct weft_context *c = to_context(channel->context);
	struct weft_session *s = c->session;
	struct channel *ch = to_channel(channel);
	struct weft_cq_object *cq = NULL;
	uint32_t handle;
	ssize_t n;
	int error;

	if (!weft_enter(&ch->waiters)) {
		errno = weft_closed(s);
		return -1;
	}
	do {
		n = weft_read(&ch->waiters, &handle, sizeof(handle));
		if (n == sizeof(handle)) /* NULL if it was destroyed */
			cq = weft_table_count(&c->cqs, handle, offsetof(struct weft_cq_object, events));
	} while (n == sizeof(handle) && !cq);
	error = errno;
	weft_leave(&ch->waiters);
	if (!cq) {
		errno = n < 0 ? error : weft_closed(s);
		return -1;
	}
	pthread_spin_lock(&cq->lock); /* of ring, which ibv_resize_cq replaces */
	__atomic_store_n(&cq->ring->event, 0, __ATOMIC_SEQ_CST);
	pthread_spin_unlock(&cq->lock);
	*ibv = &cq->cq;
	*user = cq->cq.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/*
 * element sets the event's element to the object that the event concerns, which remains
 * until the event is acknowledged; false if it was destroyed.
 */
static bool element(struct weft_context *c, struct ibv_async_event *event, uint32_t handle)
{
	struct weft_cq_object *cq;
	struct weft_srq_object *srq;
	struct weft_qp_object *qp;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		cq = weft_table_count(&c->cqs, handle, offsetof(struct weft_cq_object, async_events));
		event->element.cq = cq ? &cq->cq : NULL;
		return cq;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		srq = weft_table_count(&c->srqs, handle, offsetof(struct weft_srq_object, async_events));
		event->element.srq = srq ? &srq->srq : NULL;
		return srq;
	case IBV_EVENT_DEVICE_FATAL:
		return true;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_GID_CHANGE:
		event->element.port_num = handle;
		return true;
	default:
		qp = weft_table_count(&c->qps, handle, offsetof(struct weft_qp_object, async_events));
		event->element.qp = qp ? &qp->qp : NULL;
		return qp;
	}
}

/* Another thread may destroy the object, and the context, meanwhile. */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct weft_context *c = to_context(context);
	struct weft_session *s = c->session;
	struct weft_async a;
	bool found = false;
	ssize_t n;
	int error;

	if (!weft_enter(&c->waiters)) {
		errno = weft_closed(s);
		return -1;
	}
	do {
		n = weft_read(&c->waiters, &a, sizeof(a));
		if (n == sizeof(a)) {
			event->event_type = a.event;
			found = element(c, event, a.handle);
		}
	} while (n == sizeof(a) && !found);
	error = errno;
	weft_leave(&c->waiters);
	if (!found) {
		errno = n < 0 ? error : weft_closed(s);
		return -1;
	}
	return 0;
}

static void ack(pthread_mutex_t *m, pthread_cond_t *c, uint32_t *count)
{
	pthread_mutex_lock(m);
	++*count;
	pthread_cond_signal(c);
	pthread_mutex_unlock(m);
}

void ibv_ack_async_event(struct ibv_async_event *e)
{
	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR:
		ack(&e->element.cq->mutex, &e->element.cq->cond, &e->element.cq->async_events_completed);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		ack(&e->element.srq->mutex, &e->element.srq->cond, &e->element.srq->events_completed);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		ack(&e->element.qp->mutex, &e->element.qp->cond, &e->element.qp->events_completed);
		break;
	default: /* of the port or the device */
		break;
	}
}

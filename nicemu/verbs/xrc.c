/* xrc.c: XRC domains and the queue pairs in them (ibv_open_xrcd(3), ibv_open_qp(3)). */
#include <fcntl.h>
#include <stdlib.h>

#include "weft.h"

struct weft_xrcd {
	struct ibv_xrcd xrcd;
	uint32_t handle;
};

uint32_t weft_xrcd_handle(struct ibv_xrcd *xrcd) { return xrcd ? ((struct weft_xrcd *)xrcd)->handle : 0; }

struct ibv_xrcd *weft_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	struct weft_context *c = to_context(context);
	struct weft_open_xrcd q = { .context = c->device.handle };
	struct weft_handle h;
	struct weft_xrcd *x;
	int error;

	if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED)
		return weft_fail(EOPNOTSUPP);
	if (attr->comp_mask != (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS) || attr->fd < -1)
		return weft_fail(attr->fd < -1 ? EBADF : EINVAL);
	q.fd = attr->fd;
	q.flags = WEFT_XRCD_CREATE * !!(attr->oflags & O_CREAT) | WEFT_XRCD_EXCLUSIVE * !!(attr->oflags & O_EXCL);
	x = calloc(1, sizeof(*x));
	if (!x)
		return weft_fail(ENOMEM);
	error = weft_call(c->session, WEFT_OPEN_XRCD, &q, sizeof(q), &h, sizeof(h), NULL, 0);
	if (error) {
		free(x);
		return weft_fail(error);
	}
	x->xrcd.context = context;
	x->handle = h.handle;
	return &x->xrcd;
}

int weft_close_xrcd(struct ibv_xrcd *xrcd)
{
	struct weft_session *s = to_context(xrcd->context)->session;
	int error = weft_call_handle(s, WEFT_CLOSE_XRCD, weft_xrcd_handle(xrcd));

	if (!error || s->dead)
		free(xrcd);
	return error;
}

/* take_target makes the library's object of a queue pair of type XRC_RECV, which has no queues. */
static struct ibv_qp *take_target(struct ibv_context *context, struct weft_qp_object *qp, const struct weft_qp_answer *a, void *user, enum ibv_qp_state state)
{
	struct weft_context *c = to_context(context);

	if (weft_table_put(&c->qps, a->handle, qp)) {
		weft_call_handle(c->session, WEFT_DESTROY_QP, a->handle);
		free(qp);
		return weft_fail(ENOMEM);
	}
	qp->session = c->session;
	pthread_spin_init(&qp->send.lock, PTHREAD_PROCESS_PRIVATE);
	pthread_spin_init(&qp->recv.lock, PTHREAD_PROCESS_PRIVATE);
	qp->qp = (struct ibv_qp){
		.context = context, .qp_context = user, .handle = a->handle, .qp_num = a->qp_num, .state = state, .qp_type = IBV_QPT_XRC_RECV,
	};
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	return &qp->qp;
}

/* ask_target sends a request for a queue pair of type XRC_RECV, and makes its object. */
static struct ibv_qp *ask_target(struct ibv_context *context, enum weft_op op, const void *body, size_t size, void *user, enum ibv_qp_state state)
{
	struct weft_qp_object *qp = calloc(1, sizeof(*qp));
	struct weft_qp_answer a;
	int error;

	if (!qp)
		return weft_fail(ENOMEM);
	error = weft_call(to_context(context)->session, op, body, size, &a, sizeof(a), NULL, 0);
	if (error) {
		free(qp);
		return weft_fail(error);
	}
	return take_target(context, qp, &a, user, state);
}

struct ibv_qp *weft_create_target(struct ibv_context *context, struct ibv_qp_init_attr_ex *ex)
{
	struct weft_create_qp q = { .type = IBV_QPT_XRC_RECV, .xrcd = weft_xrcd_handle(ex->xrcd) };
	struct ibv_qp *qp;

	if (!(ex->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !ex->xrcd)
		return weft_fail(EINVAL);
	qp = ask_target(context, WEFT_CREATE_QP, &q, sizeof(q), ex->qp_context, IBV_QPS_RESET);
	if (qp)
		ex->cap = (struct ibv_qp_cap){ 0 };
	return qp;
}

#define OPEN_ATTRS (IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE)

struct ibv_qp *weft_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	struct weft_open_qp q = { .qp_num = attr->qp_num, .type = attr->qp_type };

	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED)
		return weft_fail(EOPNOTSUPP);
	if ((attr->comp_mask & OPEN_ATTRS) != OPEN_ATTRS || !attr->xrcd)
		return weft_fail(EINVAL);
	q.xrcd = weft_xrcd_handle(attr->xrcd);
	return ask_target(context, WEFT_OPEN_QP, &q, sizeof(q), attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL, IBV_QPS_UNKNOWN);
}

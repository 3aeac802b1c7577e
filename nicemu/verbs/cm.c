/*
 * cm.c: communication identifiers and events. The connection manager is in the lab;
 * this file moves an ID's queue pair through its states, as rdma-core's library
 * does.
 */
#include <endian.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cm.h"

static struct weft_table ids = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* The NICs that IDs use. */
static struct {
	pthread_mutex_t mutex;
	struct weft_session *session;
	struct ibv_context *contexts[WEFT_MAX_DEVICES + 1];
	struct ibv_pd *pds[WEFT_MAX_DEVICES];
	int count;
} devices = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* open_devices opens all devices, once per session. The caller holds the lock. */
static int open_devices(struct weft_session *s)
{
	struct ibv_device **list;
	int n;

	if (devices.session == s)
		return 0;
	list = ibv_get_device_list(&n);
	if (!list)
		return errno;
	devices.session = s;
	devices.count = 0;
	memset(devices.contexts, 0, sizeof(devices.contexts));
	memset(devices.pds, 0, sizeof(devices.pds));
	for (int i = 0; i < n && i < WEFT_MAX_DEVICES; i++) {
		devices.contexts[i] = ibv_open_device(list[i]);
		if (!devices.contexts[i])
			break;
		devices.count++;
	}
	ibv_free_device_list(list);
	return devices.count == n ? 0 : errno;
}

/* use_device sets the device of an ID by number. */
static int use_device(struct cm_id *id, uint32_t number)
{
	int error = 0;

	if (!number || id->id.verbs)
		return 0;
	pthread_mutex_lock(&devices.mutex);
	error = open_devices(id->session);
	if (!error && number > (uint32_t)devices.count)
		error = ENODEV;
	if (!error) {
		struct ibv_pd **pd = &devices.pds[number - 1];

		id->id.verbs = devices.contexts[number - 1];
		id->id.port_num = 1;
		if (!*pd)
			*pd = ibv_alloc_pd(id->id.verbs);
		if (!*pd)
			error = errno;
		if (!id->id.pd)
			id->id.pd = *pd;
	}
	pthread_mutex_unlock(&devices.mutex);
	return error;
}

struct ibv_context **rdma_get_devices(int *num)
{
	struct weft_session *s = weft_session();
	struct ibv_context **list = NULL;
	int error;

	if (num)
		*num = 0;
	if (!s)
		return NULL;
	pthread_mutex_lock(&devices.mutex);
	error = open_devices(s);
	if (!error) {
		list = calloc(devices.count + 1, sizeof(*list));
		if (list)
			memcpy(list, devices.contexts, devices.count * sizeof(*list));
		if (list && num)
			*num = devices.count;
		error = list ? 0 : ENOMEM;
	}
	pthread_mutex_unlock(&devices.mutex);
	return error ? weft_fail(error) : list;
}

void rdma_free_devices(struct ibv_context **list) { free(list); }

socklen_t cm_address_length(const struct sockaddr *a)
{
	return a->sa_family == AF_INET ? sizeof(struct sockaddr_in) : a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr);
}

static void put_endpoint(struct weft_endpoint *to, const struct sockaddr *a)
{
	memset(to, 0, sizeof(*to));
	if (!a)
		return;
	to->family = a->sa_family;
	if (a->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)a;

		to->ip[10] = to->ip[11] = 0xff;
		memcpy(to->ip + 12, &in->sin_addr, 4);
		to->port = ntohs(in->sin_port);
	} else if (a->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)a;

		memcpy(to->ip, &in->sin6_addr, 16);
		to->port = ntohs(in->sin6_port);
	}
}

static void get_endpoint(struct sockaddr_storage *to, const struct weft_endpoint *e)
{
	struct sockaddr_in *in = (struct sockaddr_in *)to;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;

	if (e->family == AF_INET) {
		*in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(e->port) };
		memcpy(&in->sin_addr, e->ip + 12, 4);
	} else if (e->family == AF_INET6) {
		*in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(e->port) };
		memcpy(&in6->sin6_addr, e->ip, 16);
	}
}

/* learn copies the lab's addresses and device into an ID. */
static int learn(struct cm_id *id, const struct weft_cm_address *a)
{
	get_endpoint(&id->id.route.addr.src_storage, &a->local);
	get_endpoint(&id->id.route.addr.dst_storage, &a->remote);
	if (!a->device)
		return 0;
	memcpy(id->id.route.addr.addr.ibaddr.sgid.raw, a->local.ip, 16);
	memcpy(id->id.route.addr.addr.ibaddr.dgid.raw, a->remote.ip, 16);
	id->id.route.addr.addr.ibaddr.pkey = htobe16(0xffff);
	return use_device(id, a->device);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct weft_session *s = weft_session();
	struct weft_handle h;
	struct cm_channel *c;
	int error;

	if (!s)
		return errno == ENOSYS ? weft_fail(ENODEV) : NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return weft_fail(ENOMEM);
	error = weft_call(s, WEFT_CM_CREATE_CHANNEL, NULL, 0, &h, sizeof(h), &c->waiters.fd, 1);
	if (error) {
		free(c);
		return weft_fail(error);
	}
	pthread_mutex_init(&c->waiters.mutex, NULL);
	c->channel.fd = c->waiters.fd;
	c->session = s;
	c->handle = h.handle;
	return &c->channel;
}

/* end_channel destroys a channel, and reports whether its memory may be freed: no thread waits there. */
static bool end_channel(struct rdma_event_channel *channel)
{
	struct cm_channel *c = (struct cm_channel *)channel;

	weft_end(&c->waiters);
	weft_call_handle(c->session, WEFT_CM_DESTROY_CHANNEL, c->handle);
	return weft_release(&c->waiters);
}

/* The channels that programs have destroyed. */
static struct {
	pthread_mutex_t mutex;
	struct cm_channel *first;
} destroyed = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/*
 * The channel's memory remains: the thread that takes the events may be between two
 * calls of rdma_get_cm_event. rping ends like that.
 */
void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct cm_channel *c = (struct cm_channel *)channel;

	end_channel(channel);
	pthread_mutex_lock(&destroyed.mutex);
	c->next = destroyed.first;
	destroyed.first = c;
	pthread_mutex_unlock(&destroyed.mutex);
}

/* end_own destroys the channel of a synchronous ID, which only calls for that ID use. */
static void end_own(struct rdma_event_channel *channel)
{
	if (channel && end_channel(channel))
		free(channel);
}

static struct cm_id *alloc_id(struct weft_session *s, uint32_t handle, struct rdma_event_channel *channel, void *context, enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->session = s;
	id->handle = handle;
	id->id.channel = channel;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = type;
	id->responder_resources = RDMA_MAX_RESP_RES;
	id->initiator_depth = RDMA_MAX_INIT_DEPTH;
	pthread_mutex_init(&id->mutex, NULL);
	pthread_cond_init(&id->cond, NULL);
	if (weft_table_put(&ids, handle, id)) {
		free(id);
		return NULL;
	}
	return id;
}

int cm_new_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context, enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct rdma_event_channel *own = NULL;
	struct weft_cm_create_id q = { .port_space = ps, .type = type };
	struct weft_session *s;
	struct weft_handle h;
	struct cm_id *id;
	int error;

	if (!channel) {
		channel = own = rdma_create_event_channel();
		if (!channel)
			return -1;
	}
	s = ((struct cm_channel *)channel)->session;
	q.channel = ((struct cm_channel *)channel)->handle;
	error = weft_call(s, WEFT_CM_CREATE_ID, &q, sizeof(q), &h, sizeof(h), NULL, 0);
	if (!error) {
		id = alloc_id(s, h.handle, channel, context, ps, type);
		if (id) {
			id->sync = own;
			*out = &id->id;
			return 0;
		}
		weft_call_handle(s, WEFT_CM_DESTROY_ID, h.handle);
		error = ENOMEM;
	}
	end_own(own);
	return cm_error(error);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
{
	return cm_new_id(channel, id, context, ps, ps == RDMA_PS_TCP ? IBV_QPT_RC : IBV_QPT_UD);
}

static int call(struct cm_id *id, enum weft_op op) { return weft_call_handle(id->session, op, id->handle); }

int rdma_destroy_id(struct rdma_cm_id *rdma)
{
	struct cm_id *id = to_id(rdma);
	struct cm_group *g;
	int error = call(id, WEFT_CM_DESTROY_ID);

	if (error && !id->session->dead)
		return cm_error(error);
	weft_table_remove(&ids, id->handle);
	if (rdma->event)
		rdma_ack_cm_event(rdma->event);
	pthread_mutex_lock(&id->mutex);
	while (!id->session->dead && id->events != id->acked)
		pthread_cond_wait(&id->cond, &id->mutex);
	pthread_mutex_unlock(&id->mutex);
	if (id->sync)
		end_own(rdma->channel);
	while ((g = id->groups)) {
		id->groups = g->next;
		free(g);
	}
	free(id->qp_attr);
	free(id->connect);
	free(id);
	return 0;
}

/* complete waits for the event of an operation on a synchronous ID. */
static int complete(struct cm_id *id, int error)
{
	struct rdma_cm_event *e;

	if (error || !id->sync)
		return cm_error(error);
	if (id->id.event) {
		rdma_ack_cm_event(id->id.event);
		id->id.event = NULL;
	}
	if (rdma_get_cm_event(id->id.channel, &id->id.event))
		return -1;
	e = id->id.event;
	if (!e->status)
		return 0;
	return cm_error(e->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : e->status < 0 ? -e->status : e->status);
}

int rdma_bind_addr(struct rdma_cm_id *rdma, struct sockaddr *addr)
{
	struct cm_id *id = to_id(rdma);
	struct weft_cm_address q = { .id = id->handle }, a;
	int error;

	put_endpoint(&q.local, addr);
	error = weft_call(id->session, WEFT_CM_BIND, &q, sizeof(q), &a, sizeof(a), NULL, 0);
	return cm_error(error ? error : learn(id, &a));
}

/* is_open reports whether an address stands for any of the host's: then routes choose. */
static int is_open(const struct weft_endpoint *a)
{
	static const uint8_t any[16], any4[16] = { [10] = 0xff, [11] = 0xff };

	return !a->family || !memcmp(a->ip, any, 16) || !memcmp(a->ip, any4, 16);
}

static int is_multicast(const struct weft_endpoint *a)
{
	return a->family == AF_INET ? a->ip[12] >> 4 == 0xe : a->ip[0] == 0xff;
}

/*
 * choose_source asks the kernel by which of the host's addresses its routes lead to dst.
 * It returns an errno, such as ENETUNREACH. System calls are made directly: a program may
 * have replaced the functions (librspreload).
 */
static int choose_source(struct weft_endpoint *source, const struct sockaddr *dst)
{
	struct sockaddr_storage a;
	socklen_t length = sizeof(a);
	int error = 0, fd = syscall(SYS_socket, dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno;
	memcpy(&a, dst, cm_address_length(dst));
	if (a.ss_family == AF_INET && !((struct sockaddr_in *)&a)->sin_port)
		((struct sockaddr_in *)&a)->sin_port = htons(1);
	if (a.ss_family == AF_INET6 && !((struct sockaddr_in6 *)&a)->sin6_port)
		((struct sockaddr_in6 *)&a)->sin6_port = htons(1);
	if (syscall(SYS_connect, fd, &a, cm_address_length(dst)) || syscall(SYS_getsockname, fd, &a, &length))
		error = errno;
	syscall(SYS_close, fd);
	if (!error) {
		put_endpoint(source, (struct sockaddr *)&a);
		source->port = 0;
	}
	return error;
}

int rdma_resolve_addr(struct rdma_cm_id *rdma, struct sockaddr *src, struct sockaddr *dst, int timeout)
{
	struct cm_id *id = to_id(rdma);
	struct weft_cm_resolve q = { .id = id->handle, .timeout = timeout };
	struct weft_cm_address a;
	uint16_t port;
	int error;

	if (!dst)
		return cm_error(EINVAL);
	put_endpoint(&q.local, src);
	put_endpoint(&q.remote, dst);
	if (is_open(&q.local) && q.remote.family && !is_open(&q.remote) && !is_multicast(&q.remote)) {
		port = q.local.port;
		error = choose_source(&q.local, dst);
		if (error)
			return cm_error(error);
		q.local.port = port;
	}
	memcpy(&rdma->route.addr.dst_storage, dst, cm_address_length(dst));
	return complete(id, weft_call(id->session, WEFT_CM_RESOLVE_ADDR, &q, sizeof(q), &a, sizeof(a), NULL, 0));
}

int rdma_resolve_route(struct rdma_cm_id *rdma, int timeout)
{
	(void)timeout; /* no other party is asked */
	return complete(to_id(rdma), call(to_id(rdma), WEFT_CM_RESOLVE_ROUTE));
}

int rdma_listen(struct rdma_cm_id *rdma, int backlog)
{
	struct cm_id *id = to_id(rdma);
	struct weft_cm_listen q = { id->handle, backlog > 0 ? backlog : 0 };
	struct weft_cm_address a;
	int error = weft_call(id->session, WEFT_CM_LISTEN, &q, sizeof(q), &a, sizeof(a), NULL, 0);

	return cm_error(error ? error : learn(id, &a));
}

int rdma_init_qp_attr(struct rdma_cm_id *rdma, struct ibv_qp_attr *attr, int *mask)
{
	struct cm_id *id = to_id(rdma);
	struct weft_cm_qp_attr q = { id->handle, attr->qp_state };
	struct weft_qp_attr a;
	int error = weft_call(id->session, WEFT_CM_QP_ATTR, &q, sizeof(q), &a, sizeof(a), NULL, 0);

	if (error)
		return cm_error(error);
	weft_get_qp_attr(attr, &a);
	*mask = a.mask;
	return 0;
}

/*
 * move moves an ID's queue pair to a state; depth, if not 255, is the number of
 * READs and atomics in that state.
 */
static int move(struct rdma_cm_id *id, enum ibv_qp_state state, uint8_t depth)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask, error;

	if (rdma_init_qp_attr(id, &attr, &mask))
		return errno;
	if (depth != RDMA_MAX_RESP_RES && state == IBV_QPS_RTR)
		attr.max_dest_rd_atomic = depth;
	if (depth != RDMA_MAX_INIT_DEPTH && state == IBV_QPS_RTS)
		attr.max_rd_atomic = depth;
	error = ibv_modify_qp(id->qp, &attr, mask);
	return error;
}

/* ready brings a queue pair from INIT to a state in which it can send. */
static int ready(struct rdma_cm_id *id, uint8_t resources, uint8_t depth)
{
	int error;

	if (!id->qp)
		return 0;
	/* The peer's access rights depend on the negotiated parameters. */
	error = move(id, IBV_QPS_INIT, RDMA_MAX_RESP_RES);
	if (!error)
		error = move(id, IBV_QPS_RTR, resources);
	if (!error)
		error = move(id, IBV_QPS_RTS, depth);
	return error;
}

static void spoil(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (id->qp)
		ibv_modify_qp(id->qp, &attr, IBV_QP_STATE);
}

static void destroy_cqs(struct rdma_cm_id *id)
{
	if (!to_id(id)->own_cqs)
		return;
	if (id->qp_type != IBV_QPT_XRC_RECV && id->send_cq)
		ibv_destroy_cq(id->send_cq);
	if (id->send_cq_channel)
		ibv_destroy_comp_channel(id->send_cq_channel);
	if (id->recv_cq)
		ibv_destroy_cq(id->recv_cq);
	if (id->recv_cq_channel)
		ibv_destroy_comp_channel(id->recv_cq_channel);
	id->send_cq = id->recv_cq = NULL;
	id->send_cq_channel = id->recv_cq_channel = NULL;
	to_id(id)->own_cqs = false;
}

static bool make_cq(struct rdma_cm_id *id, struct ibv_comp_channel **channel, struct ibv_cq **cq, uint32_t depth)
{
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return false;
	*cq = ibv_create_cq(id->verbs, depth ? depth : 1, id, *channel, 0);
	return *cq;
}

/* create_cqs makes the completion queues that the program does not supply. */
static int create_cqs(struct rdma_cm_id *id, uint32_t sends, uint32_t recvs, struct ibv_cq **send, struct ibv_cq **recv)
{
	to_id(id)->own_cqs = true;
	if (!*recv) {
		if (!make_cq(id, &id->recv_cq_channel, &id->recv_cq, recvs))
			goto failed;
		*recv = id->recv_cq;
	}
	if (!*send) {
		if (!make_cq(id, &id->send_cq_channel, &id->send_cq, sends))
			goto failed;
		*send = id->send_cq;
	}
	return 0;
failed:
	recvs = errno;
	destroy_cqs(id);
	return recvs;
}

/* begin moves a new queue pair to the state in which the program gets it. */
static int begin(struct rdma_cm_id *id)
{
	int error = move(id, IBV_QPS_INIT, RDMA_MAX_RESP_RES);

	if (id->qp_type != IBV_QPT_UD)
		return error;
	if (!error)
		error = move(id, IBV_QPS_RTR, RDMA_MAX_RESP_RES);
	if (!error)
		error = move(id, IBV_QPS_RTS, RDMA_MAX_INIT_DEPTH);
	return error;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	int error;

	if (id->qp || !id->verbs)
		return cm_error(EINVAL);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD)) {
		if (!id->pd)
			return cm_error(EINVAL);
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	}
	if (attr->pd->context != id->verbs)
		return cm_error(EINVAL);
	if (id->srq && !attr->srq)
		attr->srq = id->srq;
	error = create_cqs(id, attr->cap.max_send_wr, attr->cap.max_recv_wr, &attr->send_cq, &attr->recv_cq);
	if (error)
		return cm_error(error);
	id->qp = ibv_create_qp_ex(id->verbs, attr);
	error = id->qp ? begin(id) : errno;
	if (error) {
		if (id->qp)
			ibv_destroy_qp(id->qp);
		id->qp = NULL;
		destroy_cqs(id);
		return cm_error(error);
	}
	id->pd = attr->pd;
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq, .srq = attr->srq,
		.cap = attr->cap, .qp_type = attr->qp_type, .sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd ? pd : id->pd,
	};
	int result;

	if (!ex.pd)
		return cm_error(EINVAL);
	result = rdma_create_qp_ex(id, &ex);
	if (!result) {
		attr->cap = ex.cap;
		attr->send_cq = ex.send_cq;
		attr->recv_cq = ex.recv_cq;
		attr->srq = ex.srq;
	}
	return result;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	for (struct cm_group *g = to_id(id)->groups; g; g = g->next) {
		if (g->attached)
			ibv_detach_mcast(id->qp, &g->gid, 0);
		g->attached = false;
	}
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	destroy_cqs(id);
}

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (id->srq || !id->verbs)
		return cm_error(EINVAL);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		attr->pd = id->pd;
	}
	id->srq = ibv_create_srq_ex(id->verbs, attr);
	if (!id->srq)
		return -1;
	id->pd = attr->pd;
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = { .srq_context = attr->srq_context, .attr = attr->attr, .comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = pd };
	int result = rdma_create_srq_ex(id, &ex);

	if (!result)
		attr->attr = ex.attr;
	return result;
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
}

static int put_private(struct weft_cm_param *to, const void *data, uint8_t n)
{
	if (n && !data)
		return EINVAL;
	if (n)
		memcpy(to->private_data, data, n);
	to->private_data_len = n;
	return 0;
}

/* settle determines how many READs and atomics a side requests: by default the device's maximum. */
static int settle(const struct cm_id *id, uint8_t *resources, uint8_t *depth)
{
	struct ibv_device_attr a;

	ibv_query_device(id->id.verbs, &a);
	if (*resources == RDMA_MAX_RESP_RES)
		*resources = a.max_qp_rd_atom;
	if (*depth == RDMA_MAX_INIT_DEPTH)
		*depth = a.max_qp_init_rd_atom;
	return *resources > a.max_qp_rd_atom || *depth > a.max_qp_init_rd_atom ? EINVAL : 0;
}

/* put_param fills in the parameters that one side sends to the other. */
static int put_param(struct cm_id *id, struct weft_cm_param *to, const struct rdma_conn_param *p)
{
	int error;

	to->qp_num = id->id.qp ? id->id.qp->qp_num : p ? p->qp_num : 0;
	to->srq = id->id.qp ? !!id->id.qp->srq : p ? p->srq : 0;
	/* Datagrams have no other parameters, and programs leave them unset (rdma_connect(3)). */
	if (id->id.qp_type == IBV_QPT_UD)
		return p ? put_private(to, p->private_data, p->private_data_len) : 0;
	to->responder_resources = p ? p->responder_resources : id->responder_resources;
	to->initiator_depth = p ? p->initiator_depth : id->initiator_depth;
	to->flow_control = p ? p->flow_control : 1;
	to->retry_count = p ? p->retry_count : 7;
	to->rnr_retry_count = p ? p->rnr_retry_count : 7;
	error = settle(id, &to->responder_resources, &to->initiator_depth);
	if (error)
		return error;
	return p ? put_private(to, p->private_data, p->private_data_len) : 0;
}

int rdma_connect(struct rdma_cm_id *rdma, struct rdma_conn_param *param)
{
	struct cm_id *id = to_id(rdma);
	struct weft_cm_connect q = { .id = id->handle };
	struct rdma_conn_param with;
	int error;

	if (!rdma->verbs)
		return cm_error(EINVAL);
	if (id->connect && (!param || !param->private_data_len)) {
		with = param ? *param : (struct rdma_conn_param){ .responder_resources = RDMA_MAX_RESP_RES, .initiator_depth = RDMA_MAX_INIT_DEPTH, .flow_control = 1, .retry_count = 7, .rnr_retry_count = 7 };
		with.private_data = id->connect;
		with.private_data_len = id->connect_len;
		param = &with;
	}
	error = put_param(id, &q.param, param);
	if (error)
		return cm_error(error);
	id->responder_resources = q.param.responder_resources;
	id->initiator_depth = q.param.initiator_depth;
	return complete(id, weft_call(id->session, WEFT_CM_CONNECT, &q, sizeof(q), NULL, 0, NULL, 0));
}

int rdma_accept(struct rdma_cm_id *rdma, struct rdma_conn_param *param)
{
	struct cm_id *id = to_id(rdma);
	struct weft_cm_connect q = { .id = id->handle };
	int error;

	if (!rdma->verbs)
		return cm_error(EINVAL);
	error = put_param(id, &q.param, param);
	if (error)
		return cm_error(error);
	if (rdma->qp_type != IBV_QPT_UD) {
		error = ready(rdma, q.param.responder_resources, q.param.initiator_depth);
		if (error)
			return cm_error(error);
	}
	error = weft_call(id->session, WEFT_CM_ACCEPT, &q, sizeof(q), NULL, 0, NULL, 0);
	if (error && rdma->qp_type != IBV_QPT_UD)
		spoil(rdma);
	/* A side that answers for datagrams gets no further event. */
	return rdma->qp_type == IBV_QPT_UD ? cm_error(error) : complete(id, error);
}

int rdma_reject(struct rdma_cm_id *rdma, const void *data, uint8_t n)
{
	struct cm_id *id = to_id(rdma);
	struct weft_cm_connect q = { .id = id->handle };
	int error = put_private(&q.param, data, n);

	return cm_error(error ? error : weft_call(id->session, WEFT_CM_REJECT, &q, sizeof(q), NULL, 0, NULL, 0));
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t n) { return rdma_reject(id, data, n); }

int rdma_establish(struct rdma_cm_id *rdma)
{
	if (rdma->qp) /* done when the answer comes */
		return cm_error(EINVAL);
	return cm_error(call(to_id(rdma), WEFT_CM_ESTABLISH));
}

int rdma_disconnect(struct rdma_cm_id *rdma)
{
	spoil(rdma);
	return complete(to_id(rdma), call(to_id(rdma), WEFT_CM_DISCONNECT));
}

int rdma_notify(struct rdma_cm_id *rdma, enum ibv_event_type event)
{
	if (event != IBV_EVENT_COMM_EST)
		return cm_error(EINVAL);
	return cm_error(call(to_id(rdma), WEFT_CM_NOTIFY));
}

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id;
	return ece && ece->vendor_id ? cm_error(EOPNOTSUPP) : 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id;
	memset(ece, 0, sizeof(*ece));
	return 0;
}

static int join(struct cm_id *id, struct sockaddr *addr, bool send_only, void *context)
{
	struct cm_group *g = calloc(1, sizeof(*g));
	struct weft_cm_join q = { .id = id->handle };
	struct weft_handle h;
	int error;

	if (!g)
		return cm_error(ENOMEM);
	memcpy(&g->address, addr, cm_address_length(addr));
	g->context = context;
	g->send_only = send_only;
	put_endpoint(&q.address, addr);
	memcpy(g->gid.raw, q.address.ip, sizeof(g->gid.raw));
	pthread_mutex_lock(&id->mutex);
	error = weft_call(id->session, WEFT_CM_JOIN, &q, sizeof(q), &h, sizeof(h), NULL, 0);
	if (!error) {
		g->handle = h.handle;
		g->next = id->groups;
		id->groups = g;
	}
	pthread_mutex_unlock(&id->mutex);
	if (error)
		free(g);
	return complete(id, error);
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context) { return join(to_id(id), addr, false, context); }

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) || !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) ||
	    attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return cm_error(ENOTSUP);
	return join(to_id(id), attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
}

/* group_of removes the group with an address from an ID's list. */
static struct cm_group *group_of(struct cm_id *id, const struct sockaddr *addr)
{
	struct cm_group **p, *g = NULL;

	pthread_mutex_lock(&id->mutex);
	for (p = &id->groups; *p; p = &(*p)->next) {
		if (!memcmp(&(*p)->address, addr, cm_address_length(addr))) {
			g = *p;
			*p = g->next;
			break;
		}
	}
	pthread_mutex_unlock(&id->mutex);
	return g;
}

int rdma_leave_multicast(struct rdma_cm_id *rdma, struct sockaddr *addr)
{
	struct cm_id *id = to_id(rdma);
	struct cm_group *g = group_of(id, addr);
	struct weft_cm_join q = { .id = id->handle };
	int error;

	if (!g)
		return cm_error(EADDRNOTAVAIL);
	if (rdma->qp && g->attached)
		ibv_detach_mcast(rdma->qp, &g->gid, 0);
	q.group = g->handle;
	error = weft_call(id->session, WEFT_CM_LEAVE, &q, sizeof(q), NULL, 0, NULL, 0);
	free(g);
	return cm_error(error);
}

/* An event as the program gets it, with the data that it refers to. */
struct cm_event {
	struct rdma_cm_event event;
	struct cm_id *counted; /* the ID that waits for its acknowledgement */
	uint8_t private_data[WEFT_PRIVATE_DATA];
};

/* acknowledge lets the ID of an event be destroyed. */
static void acknowledge(struct cm_id *id)
{
	pthread_mutex_lock(&id->mutex);
	id->acked++;
	pthread_cond_signal(&id->cond);
	pthread_mutex_unlock(&id->mutex);
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct cm_event *e = (struct cm_event *)event;

	if (!event)
		return cm_error(EINVAL);
	acknowledge(e->counted);
	free(e);
	return 0;
}

/* arrive makes the ID of a request to connect. */
static int arrive(struct cm_event *e, const struct weft_cm_event *m, struct cm_id *listen)
{
	struct cm_id *id = alloc_id(listen->session, m->id, listen->id.channel, listen->id.context, listen->id.ps, m->type);
	int error;

	if (!id)
		return ENOMEM;
	error = learn(id, &m->address);
	if (!error && listen->sync) {
		/* The new ID waits for its own events. */
		if (rdma_migrate_id(&id->id, NULL))
			error = errno;
	}
	if (error) {
		rdma_destroy_id(&id->id);
		return error;
	}
	id->responder_resources = m->param.responder_resources;
	id->initiator_depth = m->param.initiator_depth;
	e->event.id = &id->id;
	e->event.listen_id = &listen->id;
	return 0;
}

/* answered brings the requester's queue pair to a state in which it can send. */
static void answered(struct cm_event *e, struct cm_id *id)
{
	struct rdma_conn_param *p = &e->event.param.conn;
	uint8_t resources = p->responder_resources < id->responder_resources ? p->responder_resources : id->responder_resources;
	int error;

	if (!id->id.qp)
		return; /* the program does it, and calls rdma_establish */
	error = ready(&id->id, resources, p->initiator_depth);
	if (!error)
		error = call(id, WEFT_CM_ESTABLISH);
	if (error) {
		spoil(&id->id);
		call(id, WEFT_CM_REJECT);
		e->event.event = RDMA_CM_EVENT_CONNECT_ERROR;
		e->event.status = -error;
		return;
	}
	e->event.event = RDMA_CM_EVENT_ESTABLISHED;
}

/* joined attaches a queue pair to a group. */
static void joined(struct cm_event *e, struct cm_id *id)
{
	struct rdma_ud_param *p = &e->event.param.ud;
	struct cm_group *g;

	pthread_mutex_lock(&id->mutex);
	for (g = id->groups; g && memcmp(g->gid.raw, p->ah_attr.grh.dgid.raw, sizeof(g->gid.raw)); g = g->next)
		;
	pthread_mutex_unlock(&id->mutex);
	p->private_data = g ? g->context : NULL;
	if (!g || !id->id.qp || g->send_only || e->event.status)
		return;
	e->event.status = -ibv_attach_mcast(id->id.qp, &g->gid, 0);
	if (e->event.status)
		e->event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
	else
		g->attached = true;
}

static void get_param(struct cm_event *e, const struct weft_cm_event *m)
{
	const struct weft_cm_param *p = &m->param;
	const void *data = p->private_data_len ? e->private_data : NULL;

	memcpy(e->private_data, p->private_data, sizeof(e->private_data));
	if (m->type == IBV_QPT_UD) {
		struct rdma_ud_param *ud = &e->event.param.ud;

		ud->private_data = data;
		ud->private_data_len = p->private_data_len;
		ud->qp_num = p->qp_num;
		ud->qkey = p->qkey;
		weft_get_ah(&ud->ah_attr, &m->ah);
		return;
	}
	e->event.param.conn = (struct rdma_conn_param){
		.private_data = data, .private_data_len = p->private_data_len, .responder_resources = p->responder_resources,
		.initiator_depth = p->initiator_depth, .flow_control = p->flow_control, .retry_count = p->retry_count,
		.rnr_retry_count = p->rnr_retry_count, .srq = p->srq, .qp_num = p->qp_num,
	};
}

/*
 * happen handles an event; it returns false if the program should not see it. The ID of
 * the event remains until it is acknowledged, even if another thread destroys it.
 */
static bool happen(struct cm_event *e, const struct weft_cm_event *m)
{
	struct cm_id *id = weft_table_count(&ids, m->listen ? m->listen : m->id, offsetof(struct cm_id, events));
	int error;

	if (!id)
		return false; /* it is destroyed */
	e->counted = id;
	e->event.event = m->event;
	e->event.status = m->status;
	get_param(e, m);
	if (m->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		error = arrive(e, m, id);
		if (error)
			acknowledge(id);
		return !error;
	}
	e->event.id = &id->id;
	switch (m->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		error = learn(id, &m->address);
		if (error) {
			e->event.event = RDMA_CM_EVENT_ADDR_ERROR;
			e->event.status = -error;
		}
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		answered(e, id);
		break;
	case RDMA_CM_EVENT_REJECTED:
		spoil(&id->id);
		break;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		joined(e, id);
		break;
	default:
		break;
	}
	return true;
}

/*
 * Another thread may destroy the channel meanwhile, or has destroyed it just now. Then
 * this one waits on, as in the kernel's ucma_get_event.
 */
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct cm_channel *c = (struct cm_channel *)channel;
	struct weft_session *s = c->session;
	struct weft_handle h = { .handle = c->handle };
	struct weft_cm_event m;
	struct cm_event *e;
	ssize_t n;
	char token;
	int error;

	if (!event)
		return cm_error(EINVAL);
	e = calloc(1, sizeof(*e));
	if (!e)
		return cm_error(ENOMEM);
	if (!weft_enter(&c->waiters)) {
		free(e);
		return cm_error(weft_closed(s));
	}
	do {
		n = weft_read(&c->waiters, &token, 1);
		error = n == 0 ? EIO : n < 0 ? errno : weft_call(s, WEFT_CM_GET_EVENT, &h, sizeof(h), &m, sizeof(m), NULL, 0);
	} while (n == 1 && (error == EAGAIN /* its ID no longer exists */ || (!error && !happen(e, &m))));
	if (!weft_leave(&c->waiters) && error)
		error = weft_closed(s);
	if (error) {
		free(e);
		return cm_error(error);
	}
	*event = &e->event;
	return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *const text[] = {
		"RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR", "RDMA_CM_EVENT_ROUTE_RESOLVED", "RDMA_CM_EVENT_ROUTE_ERROR",
		"RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE", "RDMA_CM_EVENT_CONNECT_ERROR", "RDMA_CM_EVENT_UNREACHABLE",
		"RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_DISCONNECTED", "RDMA_CM_EVENT_DEVICE_REMOVAL",
		"RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR", "RDMA_CM_EVENT_ADDR_CHANGE", "RDMA_CM_EVENT_TIMEWAIT_EXIT",
	};

	return (unsigned)event < sizeof(text) / sizeof(*text) ? text[event] : "UNKNOWN EVENT";
}

int rdma_set_option(struct rdma_cm_id *rdma, int level, int name, void *value, size_t n)
{
	struct cm_id *id = to_id(rdma);
	struct weft_cm_option q = { .id = id->handle };

	if (level != RDMA_OPTION_ID)
		return cm_error(ENOSYS);
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		q.option = WEFT_CM_TOS;
		break;
	case RDMA_OPTION_ID_REUSEADDR:
		q.option = WEFT_CM_REUSE;
		break;
	case RDMA_OPTION_ID_AFONLY:
		q.option = WEFT_CM_V6ONLY;
		break;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		q.option = WEFT_CM_ACK_TIMEOUT;
		break;
	default:
		return cm_error(ENOSYS);
	}
	if (n == sizeof(uint8_t))
		q.value = *(uint8_t *)value;
	else if (n == sizeof(uint32_t))
		memcpy(&q.value, value, sizeof(q.value));
	else
		return cm_error(EINVAL);
	return cm_error(weft_call(id->session, WEFT_CM_SET_OPTION, &q, sizeof(q), NULL, 0, NULL, 0));
}

int rdma_migrate_id(struct rdma_cm_id *rdma, struct rdma_event_channel *channel)
{
	struct cm_id *id = to_id(rdma);
	struct weft_cm_create_id q = { .id = id->handle };
	struct rdma_event_channel *own = NULL, *old = rdma->channel;
	bool was = id->sync;
	int error;

	if (!channel) {
		channel = own = rdma_create_event_channel();
		if (!channel)
			return -1;
	}
	q.channel = ((struct cm_channel *)channel)->handle;
	error = weft_call(id->session, WEFT_CM_MIGRATE, &q, sizeof(q), NULL, 0, NULL, 0);
	if (error) {
		end_own(own);
		return cm_error(error);
	}
	if (rdma->event && was) {
		rdma_ack_cm_event(rdma->event);
		rdma->event = NULL;
	}
	rdma->channel = channel;
	id->sync = own;
	if (was)
		end_own(old);
	return 0;
}

static __be16 port_of(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? ((const struct sockaddr_in *)a)->sin_port : a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port : 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id) { return port_of(&id->route.addr.src_storage); }
__be16 rdma_get_dst_port(struct rdma_cm_id *id) { return port_of(&id->route.addr.dst_storage); }

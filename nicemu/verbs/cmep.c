/* cmep.c: endpoints, which are synchronous, and names of hosts. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"

static int copy(void **to, const void *from, size_t n)
{
	*to = malloc(n);
	if (!*to)
		return ENOMEM;
	memcpy(*to, from, n);
	return 0;
}

int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *id;
	int error;

	if (cm_new_id(NULL, &id, NULL, res->ai_port_space, res->ai_qp_type))
		return -1;
	if (res->ai_flags & RAI_PASSIVE) {
		if (rdma_bind_addr(id, res->ai_src_addr))
			goto failed;
		if (attr && copy((void **)&to_id(id)->qp_attr, attr, sizeof(*attr))) {
			errno = ENOMEM;
			goto failed;
		}
		if (attr)
			to_id(id)->qp_attr->qp_type = res->ai_qp_type;
		if (pd)
			id->pd = pd;
		*out = id;
		return 0;
	}
	if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, 2000) || rdma_resolve_route(id, 2000))
		goto failed;
	if (attr) {
		attr->qp_type = res->ai_qp_type;
		if (rdma_create_qp(id, pd, attr))
			goto failed;
	}
	if (res->ai_connect_len) {
		if (copy(&to_id(id)->connect, res->ai_connect, res->ai_connect_len)) {
			errno = ENOMEM;
			goto failed;
		}
		to_id(id)->connect_len = res->ai_connect_len;
	}
	*out = id;
	return 0;
failed:
	error = errno;
	rdma_destroy_ep(id);
	return cm_error(error);
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct cm_id *l = to_id(listen);
	struct rdma_cm_event *event;
	int error = 0;

	if (!l->sync)
		return cm_error(EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST || event->status) {
		error = event->status ? abs(event->status) : EINVAL;
		listen->event = event;
		return cm_error(error);
	}
	if (l->qp_attr) {
		struct ibv_qp_init_attr attr = *l->qp_attr;

		if (rdma_create_qp(event->id, listen->pd, &attr))
			error = errno;
	}
	if (error) {
		struct rdma_cm_id *refused = event->id;

		rdma_reject(refused, NULL, 0);
		rdma_ack_cm_event(event);
		rdma_destroy_ep(refused);
		return cm_error(error);
	}
	*id = event->id;
	(*id)->event = event;
	return 0;
}

static int to_hints(struct addrinfo *to, const struct rdma_addrinfo *from)
{
	memset(to, 0, sizeof(*to));
	if (from->ai_flags & RAI_PASSIVE)
		to->ai_flags |= AI_PASSIVE;
	if (from->ai_flags & RAI_NUMERICHOST)
		to->ai_flags |= AI_NUMERICHOST;
	to->ai_family = from->ai_flags & RAI_FAMILY ? from->ai_family : 0;
	switch (from->ai_qp_type ? from->ai_qp_type : from->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC) {
	case IBV_QPT_UD:
		to->ai_socktype = SOCK_DGRAM;
		break;
	default:
		to->ai_socktype = SOCK_STREAM;
	}
	return 0;
}

static int put_address(struct sockaddr **to, socklen_t *len, const struct sockaddr *from, socklen_t n)
{
	*len = n;
	return copy((void **)to, from, n);
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **out)
{
	static const struct rdma_addrinfo none;
	struct addrinfo h, *found = NULL;
	struct rdma_addrinfo *r;
	int error;

	if (!service && !node && !hints)
		return cm_error(EINVAL);
	hints = hints ? hints : &none;
	to_hints(&h, hints);
	r = calloc(1, sizeof(*r));
	if (!r)
		return cm_error(ENOMEM);
	r->ai_flags = hints->ai_flags;
	r->ai_qp_type = hints->ai_qp_type ? hints->ai_qp_type : h.ai_socktype == SOCK_DGRAM ? IBV_QPT_UD : IBV_QPT_RC;
	r->ai_port_space = hints->ai_port_space ? hints->ai_port_space : h.ai_socktype == SOCK_DGRAM ? RDMA_PS_UDP : RDMA_PS_TCP;
	if (node || service) {
		error = getaddrinfo(node, service, &h, &found);
		if (error) {
			free(r);
			return error; /* one of getaddrinfo's, as in rdma-core */
		}
		r->ai_family = found->ai_family;
		error = hints->ai_flags & RAI_PASSIVE ? put_address(&r->ai_src_addr, &r->ai_src_len, found->ai_addr, found->ai_addrlen) :
							put_address(&r->ai_dst_addr, &r->ai_dst_len, found->ai_addr, found->ai_addrlen);
		freeaddrinfo(found);
	} else {
		r->ai_family = hints->ai_family;
		error = hints->ai_dst_len ? put_address(&r->ai_dst_addr, &r->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len) : 0;
	}
	if (!error && !r->ai_src_len && hints->ai_src_len)
		error = put_address(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
	if (error) {
		rdma_freeaddrinfo(r);
		return cm_error(error);
	}
	*out = r;
	return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *r)
{
	while (r) {
		struct rdma_addrinfo *next = r->ai_next;

		free(r->ai_src_addr);
		free(r->ai_dst_addr);
		free(r->ai_src_canonname);
		free(r->ai_dst_canonname);
		free(r->ai_route);
		free(r->ai_connect);
		free(r);
		r = next;
	}
}

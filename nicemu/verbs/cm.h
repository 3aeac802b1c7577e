/* cm.h: declarations shared by the parts of librdmacm. */
#ifndef WEFT_CM_H
#define WEFT_CM_H

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "weft.h"

struct cm_channel {
	struct rdma_event_channel channel;
	struct weft_session *session;
	struct weft_waiters waiters;
	uint32_t handle;
	struct cm_channel *next; /* of those that are destroyed */
};

struct cm_id {
	struct rdma_cm_id id;
	struct weft_session *session;
	uint32_t handle;
	bool sync; /* operations wait; the channel is the ID's own */
	bool own_cqs;
	pthread_mutex_t mutex; /* of the counts of events */
	pthread_cond_t cond;
	uint32_t events, acked;
	uint8_t responder_resources, initiator_depth; /* of a received request, or as requested */
	struct ibv_qp_init_attr *qp_attr; /* for IDs returned by rdma_get_request */
	void *connect;                    /* private data of rdma_addrinfo */
	uint8_t connect_len;
	struct cm_group *groups;
};

struct cm_group {
	struct cm_group *next;
	struct sockaddr_storage address;
	union ibv_gid gid;
	void *context;
	uint32_t handle;
	bool attached, send_only;
};

static inline struct cm_id *to_id(struct rdma_cm_id *id) { return (struct cm_id *)id; }

/* cm_error sets errno from an error number and returns the library's return value. */
static inline int cm_error(int error)
{
	if (!error)
		return 0;
	errno = error;
	return -1;
}

/* cm_new_id makes an ID on a channel, or with its own channel. */
int cm_new_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps, enum ibv_qp_type type);

socklen_t cm_address_length(const struct sockaddr *a);

#endif

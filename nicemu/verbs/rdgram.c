/*
 * rdgram.c: datagrams of rsockets (rsocket(7)), by the protocol of rdma-core's
 * librdmacm/docs/rsocket. A socket is a UDP socket of the host and an unreliable queue pair
 * for each of its addresses that it sends from. Datagrams to an address whose queue pair is not
 * known yet go by UDP, with a header that has the sender's queue pair; the receiver answers with
 * its own. Later ones go from queue pair to queue pair, with the address and port of the sender
 * in front.
 *
 * What waits on the UDP socket is handled when the program calls; there is no thread for it.
 * The host's calls for sockets are made directly, since librspreload.so replaces those of libc.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "cm.h"
#include "rdgram.h"

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* In front of datagrams by UDP. Numbers are in network byte order. */
struct udp_header {
	uint32_t tag;
	uint8_t version, op, length, reserved;
	uint32_t qpn; /* of the sender's queue pair */
	uint8_t address[16];
};

/* In front of datagrams between queue pairs. */
struct ud_header {
	uint8_t version, length;
	uint16_t port;
	uint8_t rest[20]; /* the address; in IPv6 the flow information, then the address */
};

enum { TAG = 0x55555555, OP_DATA = 0, OP_CONTROL = 7 };
enum { UDP_IPV4 = 16, UDP_IPV6 = 28, UD_IPV4 = 8, UD_IPV6 = 24 };

#define SLOT 2048 /* bytes of a buffer for one datagram with its header */
#define GRH 40
#define RECEIVE (1ull << 63) /* in wr_id */
#define PATIENCE 64 /* how often nothing has completed before the UDP socket is looked at */
#define AGAIN 100   /* ms: how long to wait at most before looking again; another thread may take the event */

/* An address of the host that the socket sends from, and its queue pair. */
struct endpoint {
	struct endpoint *next;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char *memory; /* slots to receive, each after a GRH, then slots to send */
	uint32_t free, *next_free; /* of the slots to send; sends means none */
	uint32_t limit; /* bytes of a datagram with its header */
	union address address;
	struct ud_header header;
};

/* An address that datagrams go to or come from. */
struct peer {
	struct peer *next;
	union address address;
	struct endpoint *from;
	struct ibv_ah *ah; /* NULL until its queue pair is known */
	uint32_t qpn;
};

/* A datagram that has arrived. */
struct arrived {
	struct arrived *next;
	union address from;
	struct endpoint *at; /* NULL: data was allocated */
	uint32_t slot;
	size_t n;
	char *data;
};

struct dgram {
	pthread_mutex_t mutex;
	int fd, epoll;
	uint32_t idle;
	bool nonblocking, deaf, mute; /* deaf and mute: shut down */
	int domain;
	uint32_t sends, receives, inlined, sbuf_size, rbuf_size;
	struct endpoint *endpoints;
	struct peer *peers, *to; /* to: of rconnect() */
	struct arrived *first, **last;
	uint32_t count;
};

static struct weft_table sockets = { .mutex = PTHREAD_MUTEX_INITIALIZER };

struct dgram *dgram_find(int fd) { return fd < 0 ? NULL : weft_table_get(&sockets, fd + 1); }

static ssize_t leave(struct dgram *s, ssize_t result)
{
	pthread_mutex_unlock(&s->mutex);
	return result;
}

static int fail(struct dgram *s, int error)
{
	pthread_mutex_unlock(&s->mutex);
	return cm_error(error);
}

int dgram_socket(int domain)
{
	struct dgram *s = calloc(1, sizeof(*s));
	struct epoll_event event = { .events = EPOLLIN };

	if (!s)
		return cm_error(ENOMEM);
	pthread_mutex_init(&s->mutex, NULL);
	s->domain = domain;
	s->sends = s->receives = 384;
	s->inlined = 64;
	s->sbuf_size = s->rbuf_size = 1 << 17;
	s->last = &s->first;
	s->fd = syscall(SYS_socket, domain, SOCK_DGRAM, 0);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->fd >= 0 && s->epoll >= 0 && !epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->fd, &event) && !weft_table_put(&sockets, s->fd + 1, s))
		return s->fd;
	if (s->fd >= 0)
		syscall(SYS_close, s->fd);
	if (s->epoll >= 0)
		syscall(SYS_close, s->epoll);
	free(s);
	return cm_error(errno ? errno : ENOMEM);
}

static uint8_t *ip_of(const union address *a) { return a->sa.sa_family == AF_INET ? (uint8_t *)&a->in.sin_addr : (uint8_t *)&a->in6.sin6_addr; }
static size_t ip_length(const union address *a) { return a->sa.sa_family == AF_INET ? 4 : 16; }
static uint16_t port_of(const union address *a) { return a->sa.sa_family == AF_INET ? a->in.sin_port : a->in6.sin6_port; }

static bool same_ip(const union address *a, const union address *b)
{
	return a->sa.sa_family == b->sa.sa_family && !memcmp(ip_of(a), ip_of(b), ip_length(a));
}

static bool same(const union address *a, const union address *b) { return same_ip(a, b) && port_of(a) == port_of(b); }

static bool is_any(const union address *a)
{
	static const uint8_t none[16];

	return !memcmp(ip_of(a), none, ip_length(a));
}

static int to_address(const struct dgram *s, union address *to, const struct sockaddr *a, socklen_t n)
{
	memset(to, 0, sizeof(*to));
	if (!a || n < cm_address_length(a) || n < sizeof(sa_family_t))
		return EINVAL;
	if (a->sa_family != s->domain)
		return EAFNOSUPPORT;
	memcpy(to, a, cm_address_length(a));
	return 0;
}

static void copy_address(struct sockaddr *to, socklen_t *n, const union address *from)
{
	socklen_t have = cm_address_length(&from->sa);

	if (!to || !n)
		return;
	memcpy(to, from, have < *n ? have : *n);
	*n = have;
}

static struct ud_header header_of(const union address *a)
{
	struct ud_header h = { .version = 4, .length = UD_IPV4, .port = port_of(a) };

	if (a->sa.sa_family == AF_INET) {
		memcpy(h.rest, &a->in.sin_addr, 4);
		return h;
	}
	h.version = 6;
	h.length = UD_IPV6;
	memcpy(h.rest, &a->in6.sin6_flowinfo, 4);
	memcpy(h.rest + 4, &a->in6.sin6_addr, 16);
	return h;
}

/* address_of reads a header of n bytes at most; false if it is none. */
static bool address_of(const struct dgram *s, union address *a, const struct ud_header *h, size_t n)
{
	memset(a, 0, sizeof(*a));
	if (n < UD_IPV4 || n < h->length)
		return false;
	if (h->version == 4 && h->length == UD_IPV4 && s->domain == AF_INET) {
		a->in.sin_family = AF_INET;
		a->in.sin_port = h->port;
		memcpy(&a->in.sin_addr, h->rest, 4);
		return true;
	}
	a->in6.sin6_family = AF_INET6;
	a->in6.sin6_port = h->port;
	memcpy(&a->in6.sin6_flowinfo, h->rest, 4);
	memcpy(&a->in6.sin6_addr, h->rest + 4, 16);
	return h->version == 6 && h->length == UD_IPV6 && s->domain == AF_INET6;
}

static char *receive_slot(const struct endpoint *e, uint32_t slot) { return e->memory + (size_t)slot * (GRH + SLOT); }
static char *send_slot(const struct dgram *s, const struct endpoint *e, uint32_t slot) { return e->memory + (size_t)s->receives * (GRH + SLOT) + (size_t)slot * SLOT; }

static int post_receive(struct endpoint *e, uint32_t slot)
{
	struct ibv_sge sge = { (uintptr_t)receive_slot(e, slot), GRH + SLOT, e->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = RECEIVE | slot, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(e->id->qp, &wr, &bad);
}

static void free_endpoint(struct endpoint *e)
{
	if (e->id && e->id->qp)
		rdma_destroy_qp(e->id);
	if (e->mr)
		ibv_dereg_mr(e->mr);
	if (e->cq)
		ibv_destroy_cq(e->cq);
	if (e->channel)
		ibv_destroy_comp_channel(e->channel);
	if (e->id)
		rdma_destroy_id(e->id);
	free(e->memory);
	free(e->next_free);
	free(e);
}

/* sized_by returns how many buffers of a queue fit a buffer size. */
static uint32_t sized_by(uint32_t entries, uint32_t size) { return entries < size / SLOT ? entries : size / SLOT; }

/* open_endpoint makes the queue pair of an address of the host. */
static int open_endpoint(struct dgram *s, struct endpoint *e)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_UD, .sq_sig_all = 1 };
	union address at = e->address;
	struct ibv_port_attr port;
	size_t size;

	if (!s->endpoints) { /* the sizes are those of all */
		s->sends = sized_by(s->sends, s->sbuf_size);
		s->receives = sized_by(s->receives, s->rbuf_size);
	}
	if (at.sa.sa_family == AF_INET) /* any port: peers learn the queue pair by UDP */
		at.in.sin_port = 0;
	else
		at.in6.sin6_port = 0;
	if (rdma_create_id(NULL, &e->id, NULL, RDMA_PS_UDP) || rdma_bind_addr(e->id, &at.sa))
		return errno;
	if (!e->id->verbs)
		return EADDRNOTAVAIL; /* no NIC has a loopback address */
	if (ibv_query_port(e->id->verbs, e->id->port_num, &port))
		return errno;
	e->limit = 128u << port.active_mtu;
	if (e->limit > SLOT)
		e->limit = SLOT;
	size = (size_t)s->receives * (GRH + SLOT) + (size_t)s->sends * SLOT;
	e->memory = calloc(1, size);
	e->next_free = calloc(s->sends, sizeof(*e->next_free));
	if (!e->memory || !e->next_free)
		return ENOMEM;
	for (uint32_t i = 0; i < s->sends; i++)
		e->next_free[i] = i + 1;
	e->channel = ibv_create_comp_channel(e->id->verbs);
	if (!e->channel || fcntl(e->channel->fd, F_SETFL, O_NONBLOCK))
		return errno;
	e->cq = ibv_create_cq(e->id->verbs, s->sends + s->receives, e, e->channel, 0);
	if (!e->cq)
		return errno;
	attr.send_cq = attr.recv_cq = e->cq;
	attr.cap = (struct ibv_qp_cap){ s->sends, s->receives, 1, 1, s->inlined };
	if (rdma_create_qp(e->id, NULL, &attr))
		return errno;
	e->mr = ibv_reg_mr(e->id->pd, e->memory, size, IBV_ACCESS_LOCAL_WRITE);
	if (!e->mr)
		return errno;
	for (uint32_t i = 0; i < s->receives; i++)
		if (post_receive(e, i))
			return errno;
	e->header = header_of(&e->address);
	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, e->channel->fd, &event) ? errno : 0;
}

/* endpoint_for finds or makes the endpoint of an address of the host. */
static int endpoint_for(struct dgram *s, const union address *at, struct endpoint **found)
{
	struct endpoint *e;
	int error;

	for (e = s->endpoints; e; e = e->next)
		if (same_ip(&e->address, at)) {
			*found = e;
			return 0;
		}
	e = calloc(1, sizeof(*e));
	if (!e)
		return ENOMEM;
	e->address = *at;
	error = open_endpoint(s, e);
	if (error) {
		free_endpoint(e);
		return error;
	}
	e->next = s->endpoints;
	*found = s->endpoints = e;
	return 0;
}

static int own_address(int fd, union address *a)
{
	socklen_t n = sizeof(*a);

	memset(a, 0, sizeof(*a));
	return syscall(SYS_getsockname, fd, a, &n) ? errno : 0;
}

/* source_for finds the address from which datagrams to another leave: by the routes of the host. */
static int source_for(const struct dgram *s, const union address *to, union address *from)
{
	union address bound;
	int fd, error = own_address(s->fd, &bound);

	if (error || !is_any(&bound)) {
		*from = bound;
		return error;
	}
	fd = syscall(SYS_socket, s->domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (syscall(SYS_connect, fd, to, cm_address_length(&to->sa)))
		error = errno;
	else
		error = own_address(fd, from);
	syscall(SYS_close, fd);
	if (from->sa.sa_family == AF_INET)
		from->in.sin_port = bound.in.sin_port;
	else
		from->in6.sin6_port = bound.in6.sin6_port;
	return error;
}

/* bind_any gives the UDP socket a port, which is in every header. */
static int bind_any(struct dgram *s)
{
	union address a;
	int error = own_address(s->fd, &a);

	if (error || port_of(&a))
		return error;
	a.sa.sa_family = s->domain;
	return syscall(SYS_bind, s->fd, &a, cm_address_length(&a.sa)) ? errno : 0;
}

/* peer_for finds or makes the peer with an address. */
static int peer_for(struct dgram *s, const union address *to, struct peer **found)
{
	union address from;
	struct peer *p;
	int error;

	for (p = s->peers; p; p = p->next)
		if (same(&p->address, to)) {
			*found = p;
			return 0;
		}
	error = bind_any(s);
	if (!error)
		error = source_for(s, to, &from);
	if (error)
		return error;
	p = calloc(1, sizeof(*p));
	if (!p)
		return ENOMEM;
	error = endpoint_for(s, &from, &p->from);
	if (error) {
		free(p);
		return error;
	}
	/* Its port is known since bind_any. */
	p->from->address = from;
	p->from->header = header_of(&from);
	p->address = *to;
	p->next = s->peers;
	*found = s->peers = p;
	return 0;
}

static void put_gid(uint8_t gid[16], const union address *a)
{
	if (a->sa.sa_family == AF_INET6) {
		memcpy(gid, &a->in6.sin6_addr, 16);
		return;
	}
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, &a->in.sin_addr, 4);
}

/* meet learns the queue pair of a peer. Without a path to it datagrams continue to go by UDP. */
static void meet(struct peer *p, uint32_t qpn)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = p->from->id->port_num, .grh.hop_limit = 64 };
	struct ibv_gid_entry table[256]; /* gid_tbl_len is no more */
	union ibv_gid own;
	ssize_t n;

	if (p->ah && p->qpn == qpn)
		return;
	if (p->ah)
		ibv_destroy_ah(p->ah);
	p->ah = NULL;
	p->qpn = qpn;
	put_gid(own.raw, &p->from->address);
	put_gid(attr.grh.dgid.raw, &p->address);
	n = ibv_query_gid_table(p->from->id->verbs, table, 256, 0);
	for (ssize_t i = 0; i < n; i++) {
		if (memcmp(&table[i].gid, &own, sizeof(own)))
			continue;
		attr.grh.sgid_index = table[i].gid_index;
		p->ah = ibv_create_ah(p->from->id->pd, &attr);
		return;
	}
}

/* send_udp sends a message by UDP. flags are for the host. */
static ssize_t send_udp(struct dgram *s, const struct peer *p, uint8_t op, const struct iovec *v, int n, int flags)
{
	struct udp_header h = { .tag = htobe32(TAG), .version = 4, .op = op, .length = UDP_IPV4, .qpn = htobe32(p->from->id->qp->qp_num & 0xffffff) };
	struct iovec all[9] = { { &h, 0 } };
	struct msghdr m = { .msg_name = (void *)&p->address, .msg_namelen = cm_address_length(&p->address.sa), .msg_iov = all, .msg_iovlen = n + 1 };
	ssize_t sent;

	if (n > 8) {
		errno = EMSGSIZE;
		return -1;
	}
	if (p->address.sa.sa_family == AF_INET6) {
		h.version = 6;
		h.length = UDP_IPV6;
	}
	memcpy(h.address, ip_of(&p->from->address), ip_length(&p->from->address));
	all[0].iov_len = h.length;
	for (int i = 0; i < n; i++)
		all[i + 1] = v[i];
	sent = syscall(SYS_sendmsg, s->fd, &m, flags | MSG_NOSIGNAL);
	return sent < 0 ? -1 : sent - h.length;
}

static void append(struct dgram *s, struct arrived *a)
{
	a->next = NULL;
	*s->last = a;
	s->last = &a->next;
	s->count++;
}

/* accepts reports whether a datagram from an address is for the program. */
static bool accepts(const struct dgram *s, const union address *from)
{
	return !s->deaf && s->count < s->receives && (!s->to || same(&s->to->address, from));
}

/* take_udp handles what waits on the UDP socket. */
static void take_udp(struct dgram *s)
{
	union {
		struct udp_header header;
		char bytes[SLOT + UDP_IPV6];
	} b;
	union address from;
	struct arrived *a;
	struct peer *p;
	ssize_t n;

	for (;;) {
		socklen_t len = sizeof(from);
		size_t length = s->domain == AF_INET ? UDP_IPV4 : UDP_IPV6;

		memset(&from, 0, sizeof(from));
		n = syscall(SYS_recvfrom, s->fd, &b, sizeof(b), MSG_DONTWAIT, &from, &len);
		if (n < 0)
			return;
		if ((size_t)n < length || b.header.tag != htobe32(TAG) || b.header.length != length || b.header.version != (s->domain == AF_INET ? 4 : 6))
			continue;
		if (peer_for(s, &from, &p))
			continue;
		if (b.header.op == OP_DATA)
			send_udp(s, p, OP_CONTROL, NULL, 0, MSG_DONTWAIT);
		meet(p, be32toh(b.header.qpn) & 0xffffff);
		if (b.header.op != OP_DATA || !accepts(s, &from))
			continue;
		a = calloc(1, sizeof(*a) + n - length);
		if (!a)
			continue;
		a->from = from;
		a->n = n - length;
		a->data = memcpy(a + 1, b.bytes + length, a->n);
		append(s, a);
	}
}

/* received handles a datagram in a slot of an endpoint. */
static void received(struct dgram *s, struct endpoint *e, uint32_t slot, const struct ibv_wc *wc)
{
	char *at = receive_slot(e, slot) + GRH;
	struct ud_header h = { 0 };
	size_t n = wc->status == IBV_WC_SUCCESS && wc->byte_len > GRH ? wc->byte_len - GRH : 0;
	struct arrived *a;
	union address from;

	memcpy(&h, at, n < sizeof(h) ? n : sizeof(h));
	if (address_of(s, &from, &h, n) && accepts(s, &from)) {
		a = calloc(1, sizeof(*a));
		if (a) {
			*a = (struct arrived){ .from = from, .at = e, .slot = slot, .n = n - h.length, .data = at + h.length };
			append(s, a);
			return;
		}
	}
	if (wc->status != IBV_WC_WR_FLUSH_ERR)
		post_receive(e, slot);
}

/* progress handles all that has happened; look at the UDP socket too, or only now and then. */
static void progress(struct dgram *s, bool look)
{
	struct ibv_wc wc[16];
	bool idle = true;
	int n;

	for (struct endpoint *e = s->endpoints; e; e = e->next)
		while ((n = ibv_poll_cq(e->cq, 16, wc)) > 0) {
			idle = false;
			for (int i = 0; i < n; i++) {
				uint32_t slot = wc[i].wr_id;

				if (wc[i].wr_id & RECEIVE) {
					received(s, e, slot, &wc[i]);
				} else {
					e->next_free[slot] = e->free;
					e->free = slot;
				}
			}
		}
	if (look || (idle && s->idle++ % PATIENCE == 0))
		take_udp(s);
}

struct pollfd dgram_watch(struct dgram *s)
{
	struct pollfd fd = { .events = POLLIN };
	struct ibv_cq *cq;
	void *user;

	pthread_mutex_lock(&s->mutex);
	fd.fd = s->epoll;
	for (struct endpoint *e = s->endpoints; e; e = e->next) {
		while (!ibv_get_cq_event(e->channel, &cq, &user))
			ibv_ack_cq_events(cq, 1);
		ibv_req_notify_cq(e->cq, 0);
	}
	pthread_mutex_unlock(&s->mutex);
	return fd;
}

/* has_room reports whether a datagram to a peer can leave; NULL stands for any. */
static bool has_room(const struct dgram *s, const struct peer *p)
{
	if (p)
		return !p->ah || p->from->free != s->sends;
	for (p = s->peers; p; p = p->next)
		if (!has_room(s, p))
			return false;
	return true;
}

static bool may_read(const struct dgram *s) { return s->first || s->deaf; }

/* wait_until waits until a datagram can be read, or sent to a peer: 0, or an errno. */
static int wait_until(struct dgram *s, bool read, const struct peer *p, bool nonblocking)
{
	bool look = false;

	for (;;) {
		struct pollfd fd;

		progress(s, look);
		if (read ? may_read(s) : has_room(s, p))
			return 0;
		if (nonblocking)
			return EAGAIN;
		pthread_mutex_unlock(&s->mutex);
		fd = dgram_watch(s);
		pthread_mutex_lock(&s->mutex);
		progress(s, true); /* what came before the request has no event */
		if (read ? may_read(s) : has_room(s, p))
			return 0;
		pthread_mutex_unlock(&s->mutex);
		if (poll(&fd, 1, AGAIN) < 0) {
			int error = errno;

			pthread_mutex_lock(&s->mutex);
			return error;
		}
		pthread_mutex_lock(&s->mutex);
		look = true;
	}
}

int dgram_ready(struct dgram *s, int asked)
{
	int events;

	pthread_mutex_lock(&s->mutex);
	progress(s, true);
	events = (may_read(s) ? asked & POLLIN : 0) | (s->mute || has_room(s, s->to) ? asked & POLLOUT : 0);
	return leave(s, events);
}

int dgram_bind(struct dgram *s, const struct sockaddr *a, socklen_t n)
{
	return syscall(SYS_bind, s->fd, a, n) ? -1 : 0;
}

int dgram_connect(struct dgram *s, const struct sockaddr *a, socklen_t n)
{
	union address to;
	int error;

	pthread_mutex_lock(&s->mutex);
	error = to_address(s, &to, a, n);
	if (!error)
		error = peer_for(s, &to, &s->to);
	return error ? fail(s, error) : leave(s, 0);
}

int dgram_shutdown(struct dgram *s, int how)
{
	pthread_mutex_lock(&s->mutex);
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return fail(s, EINVAL);
	if (!s->to)
		return fail(s, ENOTCONN);
	s->deaf = s->deaf || how != SHUT_WR;
	s->mute = s->mute || how != SHUT_RD;
	return leave(s, 0);
}

static bool is_drained(const struct dgram *s)
{
	for (const struct endpoint *e = s->endpoints; e; e = e->next) {
		uint32_t n = 0;

		for (uint32_t i = e->free; i != s->sends; i = e->next_free[i])
			n++;
		if (n != s->sends)
			return false;
	}
	return true;
}

int dgram_close(struct dgram *s)
{
	pthread_mutex_lock(&s->mutex);
	/* Datagrams leave by themselves, within a time that the lab sets. */
	for (int i = 0; i < 100; i++) {
		struct timespec ms = { .tv_nsec = 1000000 };

		progress(s, false);
		if (is_drained(s))
			break;
		nanosleep(&ms, NULL);
	}
	weft_table_remove(&sockets, s->fd + 1);
	for (struct peer *p = s->peers, *next; p; p = next) {
		next = p->next;
		if (p->ah)
			ibv_destroy_ah(p->ah);
		free(p);
	}
	for (struct arrived *a = s->first, *next; a; a = next) {
		next = a->next;
		free(a);
	}
	for (struct endpoint *e = s->endpoints, *next; e; e = next) {
		next = e->next;
		free_endpoint(e);
	}
	syscall(SYS_close, s->fd);
	syscall(SYS_close, s->epoll);
	pthread_mutex_unlock(&s->mutex);
	pthread_mutex_destroy(&s->mutex);
	free(s);
	return 0;
}

#define RECEIVE_FLAGS (MSG_PEEK | MSG_DONTWAIT | MSG_WAITALL | MSG_NOSIGNAL | MSG_TRUNC)
#define SEND_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)

ssize_t dgram_receive(struct dgram *s, const struct iovec *v, int n, int flags, struct sockaddr *from, socklen_t *len, int *got_flags)
{
	struct arrived *a;
	size_t got = 0, whole;
	int error;

	pthread_mutex_lock(&s->mutex);
	if (flags & ~RECEIVE_FLAGS)
		return fail(s, EOPNOTSUPP);
	error = wait_until(s, true, NULL, s->nonblocking || flags & MSG_DONTWAIT);
	if (error)
		return fail(s, error);
	a = s->first;
	if (!a)
		return leave(s, 0); /* shut down */
	whole = a->n;
	for (int i = 0; i < n && got < whole; i++) {
		size_t part = v[i].iov_len < whole - got ? v[i].iov_len : whole - got;

		memcpy(v[i].iov_base, a->data + got, part);
		got += part;
	}
	copy_address(from, len, &a->from);
	if (got_flags)
		*got_flags = got < whole ? MSG_TRUNC : 0;
	if (!(flags & MSG_PEEK)) {
		s->first = a->next;
		if (!s->first)
			s->last = &s->first;
		s->count--;
		if (a->at)
			post_receive(a->at, a->slot);
		free(a);
	}
	return leave(s, flags & MSG_TRUNC ? whole : got);
}

/* send_ud sends a datagram from queue pair to queue pair. */
static int send_ud(struct dgram *s, const struct peer *p, const struct iovec *v, int n, size_t all)
{
	struct endpoint *e = p->from;
	uint32_t slot = e->free;
	char *at = send_slot(s, e, slot), *next = at + e->header.length;
	struct ibv_sge sge = { (uintptr_t)at, e->header.length + all, e->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = slot, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = sge.length <= s->inlined ? IBV_SEND_INLINE : 0,
		.wr.ud = { p->ah, p->qpn, RDMA_UDP_QKEY },
	};
	int error;

	memcpy(at, &e->header, e->header.length);
	for (int i = 0; i < n; i++)
		next = mempcpy(next, v[i].iov_base, v[i].iov_len);
	error = ibv_post_send(e->id->qp, &wr, &bad);
	if (!error)
		e->free = e->next_free[slot];
	return error;
}

ssize_t dgram_send(struct dgram *s, const struct iovec *v, int n, int flags, const struct sockaddr *to, socklen_t len)
{
	union address address;
	struct peer *p;
	size_t all = 0;
	int error = 0;

	pthread_mutex_lock(&s->mutex);
	for (int i = 0; i < n; i++)
		all += v[i].iov_len;
	p = s->to;
	if (flags & ~SEND_FLAGS)
		error = EOPNOTSUPP;
	else if (s->mute)
		error = EPIPE;
	else if (!to && !p)
		error = EDESTADDRREQ;
	else if (to)
		error = to_address(s, &address, to, len);
	if (!error && to)
		error = peer_for(s, &address, &p);
	if (!error && all + p->from->header.length > p->from->limit)
		error = EMSGSIZE;
	if (!error)
		error = wait_until(s, false, p, s->nonblocking || flags & MSG_DONTWAIT);
	if (error)
		return fail(s, error);
	if (!p->ah) {
		int with = s->nonblocking || flags & MSG_DONTWAIT ? MSG_DONTWAIT : 0;

		return send_udp(s, p, OP_DATA, v, n, with) < 0 ? fail(s, errno) : leave(s, all);
	}
	error = send_ud(s, p, v, n, all);
	return error ? fail(s, error) : leave(s, all);
}

int dgram_getpeername(struct dgram *s, struct sockaddr *a, socklen_t *n)
{
	pthread_mutex_lock(&s->mutex);
	if (!s->to)
		return fail(s, ENOTCONN);
	copy_address(a, n, &s->to->address);
	return leave(s, 0);
}

int dgram_getsockname(struct dgram *s, struct sockaddr *a, socklen_t *n)
{
	return syscall(SYS_getsockname, s->fd, a, n) ? -1 : 0;
}

/* size_of returns the size that an option sets before the first queue pair is made; NULL if it sets none. */
static uint32_t *size_of(struct dgram *s, int level, int name, uint32_t *lo, uint32_t *hi)
{
	*lo = 16;
	*hi = 1 << 14;
	if (level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF)) {
		*lo = 16 * SLOT;
		*hi = 1 << 28;
		return name == SO_SNDBUF ? &s->sbuf_size : &s->rbuf_size;
	}
	if (level != SOL_RDMA)
		return NULL;
	if (name == RDMA_INLINE) {
		*lo = 0;
		*hi = 512;
		return &s->inlined;
	}
	return name == RDMA_SQSIZE ? &s->sends : name == RDMA_RQSIZE ? &s->receives : NULL;
}

int dgram_setsockopt(struct dgram *s, int level, int name, const void *v, socklen_t n)
{
	uint32_t lo, hi, *size;
	int value = 0;

	pthread_mutex_lock(&s->mutex);
	if (n < sizeof(value))
		return fail(s, EINVAL);
	memcpy(&value, v, sizeof(value));
	size = size_of(s, level, name, &lo, &hi);
	if (size) {
		if (s->endpoints)
			return fail(s, level == SOL_SOCKET ? ENOTSUP : EINVAL); /* it has them already */
		*size = value < 0 || (uint32_t)value < lo ? lo : (uint32_t)value > hi ? hi : (uint32_t)value;
		return leave(s, 0);
	}
	if ((level == SOL_SOCKET && name == SO_REUSEADDR) || (level == IPPROTO_IPV6 && name == IPV6_V6ONLY))
		return leave(s, syscall(SYS_setsockopt, s->fd, level, name, v, n));
	return fail(s, ENOTSUP);
}

int dgram_getsockopt(struct dgram *s, int level, int name, void *v, socklen_t *n)
{
	uint32_t lo, hi, *size;
	int value = SOCK_DGRAM;

	pthread_mutex_lock(&s->mutex);
	size = size_of(s, level, name, &lo, &hi);
	if (size)
		value = *size;
	else if (level != SOL_SOCKET || name != SO_TYPE)
		return leave(s, syscall(SYS_getsockopt, s->fd, level, name, v, n));
	if (*n < sizeof(value))
		return fail(s, EINVAL);
	memcpy(v, &value, sizeof(value));
	*n = sizeof(value);
	return leave(s, 0);
}

int dgram_fcntl(struct dgram *s, int cmd, int flags)
{
	pthread_mutex_lock(&s->mutex);
	if (cmd == F_GETFL)
		return leave(s, O_RDWR | (s->nonblocking ? O_NONBLOCK : 0));
	if (cmd != F_SETFL)
		return fail(s, ENOTSUP);
	s->nonblocking = flags & O_NONBLOCK;
	return leave(s, 0);
}

/*
 * rsocket.c: streams over RDMA (rsocket(7)), by the protocol of rdma-core's
 * librdmacm/docs/rsocket, version 1: data goes by RDMA WRITE with immediate data into
 * buffers that the peer has announced. Each side announces halves of its receive buffer
 * in turn, and grants credits for messages.
 *
 * One thread at a time waits for the completions of a stream; others wait for that thread.
 *
 * Datagrams (SOCK_DGRAM) are in rdgram.c. Not implemented: out-of-band data.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <byteswap.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "cm.h"
#include "rdgram.h"

/* A buffer of one side, as the other writes to it. */
struct target {
	uint64_t addr;
	uint32_t key, length;
};

/* A buffer that the program has mapped for the peer. */
struct mapped {
	uint64_t offset;
	struct target target;
};

/* What the sides tell each other as they connect, in network byte order. */
struct hello {
	uint8_t version, flags;
	uint16_t credits; /* messages that may be sent */
	uint8_t reserved[3], maps;
	struct target targets, data;
};

enum { VERSION = 1, FLAG_NET = 1, FLAG_MAPS = 2 };

/* Messages are 32 bits of immediate data: three of the operation, then its value. */
enum { OP_DATA = 0, OP_WRITE = 2, OP_CREDITS = 4, OP_MAP = 6, OP_CONTROL = 7 };
enum { DISCONNECT = 0, KEEPALIVE = 1, SHUTDOWN = 2 };

#define MESSAGE(op, value) ((uint32_t)(op) << 29 | (uint32_t)(value))
#define OP_OF(message) ((uint32_t)(message) >> 29)
#define VALUE_OF(message) ((uint32_t)(message) & 0x1fffffff)

#define TARGETS 2    /* announced halves */
#define CONTROLS 4   /* messages of the protocol itself that may be under way */
#define RECEIVE (1ull << 63) /* in wr_id */
#define LEAST 24     /* inline bytes: a struct mapped */

enum state { FRESH, LISTENING, CONNECTING, CONNECTED, CLOSED };

struct stream {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool waiting; /* a thread waits for completions or events */
	uint32_t idle; /* times in a row that nothing had completed */
	bool nonblocking;
	enum state state;
	bool readable, writable; /* neither side has ended that direction */
	int error;               /* for SO_ERROR */
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	int reuse, only6, linger_on, linger;
	bool keepalive;
	int keep_idle; /* s between keep-alives */
	uint64_t keep_due; /* ms */
	struct stream *keep_next; /* of those with keep-alives */

	/* Sizes, until it connects. */
	uint32_t sends, receives, inlined, sbuf_size, rbuf_size, maps;
	struct ibv_mr *smr, *rmr, *tmr;
	char *sbuf, *rbuf;
	bool swap; /* the peer has the other byte order */

	/* Sending: where the peer has room, and the own room. */
	struct target *targets; /* TARGETS, then maps of struct mapped; the peer writes them */
	uint32_t target;        /* the current one */
	uint16_t sent, allowed; /* messages with data */
	uint32_t slots;         /* free ones of the send queue, for data */
	uint32_t controls;      /* under way */
	uint32_t sbuf_free, sbuf_next;

	/* Receiving: the lengths of messages in rbuf, oldest first, and what was announced. */
	uint32_t *lengths, first, count;
	uint32_t rbuf_next;        /* the next byte to read */
	uint32_t rbuf_free;        /* bytes read and not announced again */
	uint32_t rbuf_announce;    /* where the next half begins */
	uint16_t taken, grant;     /* messages read; grant credits when so many are */
	struct target peer;        /* its targets */
	uint32_t peer_next;
	uint64_t peer_maps; /* where its maps begin */
	uint32_t peer_map_count;
	struct map {
		struct ibv_mr *mr;
		uint64_t offset;
	} *mine; /* peer_map_count: what this side has mapped, by its index at the peer */
};

static struct weft_table streams = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static struct stream *find(int fd) { return fd < 0 ? NULL : weft_table_get(&streams, fd + 1); }

/* enter finds and locks a stream; NULL with EBADF. */
static struct stream *enter(int fd)
{
	struct stream *s = find(fd);

	if (!s)
		return weft_fail(EBADF);
	pthread_mutex_lock(&s->mutex);
	return s;
}

static ssize_t leave(struct stream *s, ssize_t result)
{
	pthread_mutex_unlock(&s->mutex);
	return result;
}

static int fail(struct stream *s, int error)
{
	pthread_mutex_unlock(&s->mutex);
	return cm_error(error);
}

static uint64_t milliseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* default_idle returns the host's time between keep-alives. */
static int default_idle(void)
{
	FILE *f = fopen("/proc/sys/net/ipv4/tcp_keepalive_time", "re");
	int seconds = 0;

	if (f && fscanf(f, "%d", &seconds) != 1)
		seconds = 0;
	if (f)
		fclose(f);
	return seconds > 0 ? seconds : 7200;
}

static struct stream *alloc_stream(struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->changed, NULL);
	s->channel = channel;
	s->id = id;
	s->sends = s->receives = 384;
	s->inlined = 64;
	s->sbuf_size = s->rbuf_size = 1 << 17;
	s->keep_idle = default_idle();
	if (fcntl(channel->fd, F_SETFL, O_NONBLOCK) || weft_table_put(&streams, channel->fd + 1, s)) {
		free(s);
		return NULL;
	}
	return s;
}

static void free_resources(struct stream *s)
{
	if (s->id && s->id->qp)
		rdma_destroy_qp(s->id);
	for (uint32_t i = 0; s->mine && i < s->peer_map_count; i++)
		if (s->mine[i].mr)
			ibv_dereg_mr(s->mine[i].mr);
	if (s->smr)
		ibv_dereg_mr(s->smr);
	if (s->rmr)
		ibv_dereg_mr(s->rmr);
	if (s->tmr)
		ibv_dereg_mr(s->tmr);
	if (s->cq)
		ibv_destroy_cq(s->cq);
	if (s->completions)
		ibv_destroy_comp_channel(s->completions);
	free(s->sbuf);
	free(s->rbuf);
	free(s->targets);
	free(s->lengths);
	free(s->mine);
}

static void free_stream(struct stream *s)
{
	weft_table_remove(&streams, s->channel->fd + 1);
	free_resources(s);
	if (s->id)
		rdma_destroy_id(s->id);
	rdma_destroy_event_channel(s->channel);
	pthread_mutex_destroy(&s->mutex);
	pthread_cond_destroy(&s->changed);
	free(s);
}

/* Sizes of tables of maps travel in 8 bits: larger ones as multiples of 256. */
static uint32_t map_count(uint8_t scaled) { return scaled <= 128 ? scaled : (scaled & 0x7fu) << 8; }
static uint8_t scaled_maps(uint32_t n) { return n <= 128 ? n : 0x80 | n >> 8; }

static int post_receive(struct stream *s)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = RECEIVE };

	return ibv_post_recv(s->id->qp, &wr, &bad);
}

static void *aligned(size_t n)
{
	void *p = NULL;

	if (posix_memalign(&p, WEFT_PAGE, n))
		return NULL;
	return memset(p, 0, n);
}

/* allocate makes the buffers and the queue pair of a stream that is about to connect. */
static int allocate(struct stream *s)
{
	size_t targets = TARGETS * sizeof(struct target) + s->maps * sizeof(struct mapped);
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = s->sends, .max_recv_wr = s->receives, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = s->inlined },
	};
	int writes = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	s->sbuf = aligned(s->sbuf_size);
	s->rbuf = aligned(s->rbuf_size);
	s->targets = aligned(targets);
	s->lengths = calloc(s->receives, sizeof(*s->lengths));
	if (!s->sbuf || !s->rbuf || !s->targets || !s->lengths)
		return ENOMEM;
	s->completions = ibv_create_comp_channel(s->id->verbs);
	if (!s->completions || fcntl(s->completions->fd, F_SETFL, O_NONBLOCK))
		return errno;
	s->cq = ibv_create_cq(s->id->verbs, s->sends + s->receives, s, s->completions, 0);
	if (!s->cq)
		return errno;
	attr.send_cq = attr.recv_cq = s->cq;
	if (rdma_create_qp(s->id, NULL, &attr))
		return errno;
	s->inlined = attr.cap.max_inline_data;
	s->smr = ibv_reg_mr(s->id->pd, s->sbuf, s->sbuf_size, 0);
	s->rmr = ibv_reg_mr(s->id->pd, s->rbuf, s->rbuf_size, writes);
	s->tmr = ibv_reg_mr(s->id->pd, s->targets, targets, writes);
	if (!s->smr || !s->rmr || !s->tmr)
		return errno;
	s->slots = s->sends - CONTROLS;
	s->sbuf_free = s->sbuf_size;
	s->rbuf_free = s->rbuf_size / 2; /* the first half is announced in the hello */
	s->rbuf_announce = s->rbuf_size / 2;
	s->grant = s->receives / 2;
	for (uint32_t i = 0; i < s->receives; i++)
		if (post_receive(s))
			return errno;
	return 0;
}

static struct target network(uint64_t addr, uint32_t key, uint32_t length)
{
	return (struct target){ htobe64(addr), htobe32(key), htobe32(length) };
}

static struct hello greeting(const struct stream *s)
{
	return (struct hello){
		.version = VERSION, .flags = (__BYTE_ORDER == __BIG_ENDIAN ? FLAG_NET : 0) | (s->maps ? FLAG_MAPS : 0),
		.credits = htobe16(s->receives), .maps = scaled_maps(s->maps),
		.targets = network((uintptr_t)s->targets, s->tmr->rkey, TARGETS), .data = network((uintptr_t)s->rbuf, s->rmr->rkey, s->rbuf_size / 2),
	};
}

/* greeted takes what the peer has told; EPROTO if it does not speak this protocol. */
static int greeted(struct stream *s, const void *data, size_t n)
{
	struct hello h;

	if (!data || n < sizeof(h))
		return EPROTO;
	memcpy(&h, data, sizeof(h));
	if (h.version != VERSION)
		return EPROTO;
	s->peer = (struct target){ be64toh(h.targets.addr), be32toh(h.targets.key), be32toh(h.targets.length) };
	if (!s->peer.length)
		return EPROTO;
	s->swap = (__BYTE_ORDER == __BIG_ENDIAN) != !!(h.flags & FLAG_NET);
	s->peer_next = s->peer.length > 1; /* the first one is that of the hello */
	s->peer_maps = s->peer.addr + s->peer.length * sizeof(struct target);
	s->peer_map_count = h.flags & FLAG_MAPS ? map_count(h.maps) : 0;
	s->mine = calloc(s->peer_map_count + 1, sizeof(*s->mine));
	if (!s->mine)
		return ENOMEM;
	s->targets[0] = (struct target){ be64toh(h.data.addr), be32toh(h.data.key), be32toh(h.data.length) };
	s->allowed = be16toh(h.credits);
	s->readable = s->writable = true;
	s->state = CONNECTED;
	return 0;
}

/* broken ends a connection because of an error. */
static void broken(struct stream *s, int error)
{
	if (s->state == CONNECTED || s->state == CONNECTING) {
		s->state = CLOSED;
		s->error = error;
	}
	s->readable = s->writable = false;
}

/* ended ends it because the peer has closed it, or both sides have shut down. */
static void ended(struct stream *s)
{
	s->readable = s->writable = false;
	s->state = CLOSED;
}

static int post(struct stream *s, uint32_t message, const struct ibv_sge *list, int n, int flags, uint64_t to, uint32_t key)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = message, .sg_list = (struct ibv_sge *)list, .num_sge = n, .send_flags = flags,
		.opcode = OP_OF(message) == OP_WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htobe32(message), .wr.rdma = { to, key },
	};

	return ibv_post_send(s->id->qp, &wr, &bad);
}

static struct target order(const struct stream *s, struct target t)
{
	return s->swap ? (struct target){ bswap_64(t.addr), bswap_32(t.key), bswap_32(t.length) } : t;
}

/* grant tells the peer of messages that it may send, and of a half of the buffer that is free again. */
static void grant(struct stream *s)
{
	uint32_t half = s->rbuf_size / 2;
	bool room = s->rbuf_free >= half;
	struct target t;
	struct ibv_sge sge = { (uintptr_t)&t, sizeof(t), 0 };
	int error;

	if (s->state != CONNECTED || s->controls == CONTROLS || (!room && (int16_t)(s->taken - s->grant) < 0))
		return;
	s->grant = s->taken + s->receives / 2;
	s->controls++;
	if (!room) {
		error = post(s, MESSAGE(OP_CREDITS, (uint16_t)(s->taken + s->receives)), NULL, 0, 0, 0, 0);
	} else {
		t = order(s, (struct target){ (uintptr_t)s->rbuf + s->rbuf_announce, s->rmr->rkey, half });
		error = post(s, MESSAGE(OP_CREDITS, (uint16_t)(s->taken + s->receives)), &sge, 1, IBV_SEND_INLINE, s->peer.addr + s->peer_next * sizeof(t), s->peer.key);
		s->rbuf_free -= half;
		s->rbuf_announce = s->rbuf_announce ? 0 : half;
		s->peer_next = (s->peer_next + 1) % s->peer.length;
	}
	if (error)
		broken(s, error);
}

/* received handles a message of the peer. */
static void received(struct stream *s, uint32_t message)
{
	switch (OP_OF(message)) {
	case OP_DATA:
		if (s->count == s->receives || VALUE_OF(message) > s->rbuf_size) {
			broken(s, EPROTO);
			return;
		}
		s->lengths[(s->first + s->count++) % s->receives] = VALUE_OF(message);
		break;
	case OP_CREDITS:
		s->allowed = VALUE_OF(message);
		break;
	case OP_CONTROL:
		if (VALUE_OF(message) == DISCONNECT || (VALUE_OF(message) == SHUTDOWN && !s->writable))
			ended(s);
		else if (VALUE_OF(message) == SHUTDOWN)
			s->readable = false;
		break;
	default: /* a map has changed, in memory */
		break;
	}
	if (s->id->qp && post_receive(s))
		broken(s, errno);
}

static void completed(struct stream *s, const struct ibv_wc *wc)
{
	uint32_t message = wc->wr_id;

	if (wc->wr_id & RECEIVE) {
		if (wc->status == IBV_WC_SUCCESS)
			received(s, be32toh(wc->imm_data));
		return;
	}
	switch (OP_OF(message)) {
	case OP_CREDITS:
	case OP_CONTROL:
		s->controls--;
		break;
	case OP_MAP:
		s->slots++;
		break;
	default:
		s->slots++;
		s->sbuf_free += VALUE_OF(message);
	}
	if (wc->status != IBV_WC_SUCCESS && s->state == CONNECTED)
		broken(s, wc->status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : wc->status == IBV_WC_WR_FLUSH_ERR ? ECONNRESET : EIO);
}

/* take_events takes the events of the connection that wait. */
static void take_events(struct stream *s)
{
	struct rdma_cm_event *e;
	int error;

	while ((s->state == CONNECTING || s->state == CONNECTED) && !rdma_get_cm_event(s->channel, &e)) {
		switch (e->event) {
		case RDMA_CM_EVENT_ESTABLISHED:
			if (s->state == CONNECTING) {
				error = greeted(s, e->param.conn.private_data, e->param.conn.private_data_len);
				if (error)
					broken(s, error);
			}
			break;
		case RDMA_CM_EVENT_REJECTED:
		case RDMA_CM_EVENT_CONNECT_ERROR:
			broken(s, ECONNREFUSED);
			break;
		case RDMA_CM_EVENT_UNREACHABLE:
			broken(s, ETIMEDOUT);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			ended(s);
			break;
		default:
			break;
		}
		rdma_ack_cm_event(e);
	}
}

/*
 * PATIENCE is how often nothing has completed before the events of the connection are
 * looked for, with a system call: programs call in a loop.
 */
#define PATIENCE 64

/* progress handles all that has happened. Completions come before the end of the connection. */
static void progress(struct stream *s)
{
	struct ibv_wc wc[16];
	bool idle = true;
	int n;

	if (s->cq) {
		while ((n = ibv_poll_cq(s->cq, 16, wc)) > 0) {
			idle = false;
			for (int i = 0; i < n; i++)
				completed(s, &wc[i]);
		}
		if (n < 0)
			broken(s, EIO);
	}
	if (s->state == CONNECTING || (idle && s->idle++ % PATIENCE == 0))
		take_events(s);
	if (!idle)
		s->idle = 1;
	grant(s);
	pthread_cond_broadcast(&s->changed);
}

static void take_completion_events(struct stream *s)
{
	struct ibv_cq *cq;
	void *user;

	while (!ibv_get_cq_event(s->completions, &cq, &user))
		ibv_ack_cq_events(cq, 1);
}

/* watch requests events, and returns the descriptors that become readable when something happens. */
static int watch(struct stream *s, struct pollfd fds[2])
{
	int n = 0;

	fds[n++] = (struct pollfd){ .fd = s->channel->fd, .events = POLLIN };
	if (s->cq) {
		take_completion_events(s);
		ibv_req_notify_cq(s->cq, 0);
		fds[n++] = (struct pollfd){ .fd = s->completions->fd, .events = POLLIN };
	}
	return n;
}

/*
 * wait_until waits until a stream is as wanted: 0, or an errno. EAGAIN: it is not, and
 * nothing may wait.
 */
static int wait_until(struct stream *s, bool (*is)(const struct stream *), bool nonblocking)
{
	for (;;) {
		struct pollfd fds[2];
		int n;

		progress(s);
		if (is(s))
			return 0;
		if (nonblocking)
			return EAGAIN;
		if (s->waiting) {
			pthread_cond_wait(&s->changed, &s->mutex);
			continue;
		}
		n = watch(s, fds);
		progress(s); /* what came before the request has no event */
		if (is(s))
			return 0;
		s->waiting = true;
		pthread_mutex_unlock(&s->mutex);
		n = poll(fds, n, -1);
		pthread_mutex_lock(&s->mutex);
		s->waiting = false;
		s->idle = 0;
		pthread_cond_broadcast(&s->changed);
		if (n < 0)
			return errno;
	}
}

static bool is_connected(const struct stream *s) { return s->state != CONNECTING; }
static bool may_read(const struct stream *s) { return s->count || !s->readable; }
static bool may_control(const struct stream *s) { return s->controls < CONTROLS || s->state == CLOSED; }
static bool is_drained(const struct stream *s) { return (s->slots == s->sends - CONTROLS && !s->controls) || (s->state == CLOSED && s->error); }
static bool has_slot(const struct stream *s) { return (s->slots && s->sbuf_free) || !s->writable; }

static bool has_room(const struct stream *s)
{
	return !s->writable || (s->slots && s->sbuf_free && s->sent != s->allowed && s->targets[s->target].length);
}

int rsocket(int domain, int type, int protocol)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct stream *s;

	if (domain != AF_INET && domain != AF_INET6)
		return cm_error(EAFNOSUPPORT);
	if (type == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP))
		return dgram_socket(domain);
	if (type != SOCK_STREAM || (protocol && protocol != IPPROTO_TCP))
		return cm_error(EPROTONOSUPPORT);
	channel = rdma_create_event_channel();
	if (!channel)
		return -1;
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		goto failed;
	s = alloc_stream(channel, id);
	if (s)
		return channel->fd;
	rdma_destroy_id(id);
	errno = ENOMEM;
failed:
	rdma_destroy_event_channel(channel);
	return -1;
}

int rbind(int fd, const struct sockaddr *a, socklen_t n)
{
	struct dgram *d = dgram_find(fd);
	struct stream *s;

	if (d)
		return dgram_bind(d, a, n);
	s = enter(fd);
	return s ? leave(s, rdma_bind_addr(s->id, (struct sockaddr *)a)) : -1;
}

int rlisten(int fd, int backlog)
{
	struct stream *s;
	int result;

	if (dgram_find(fd))
		return cm_error(EOPNOTSUPP);
	s = enter(fd);
	if (!s)
		return -1;
	result = rdma_listen(s->id, backlog);
	if (!result)
		s->state = LISTENING;
	return leave(s, result);
}

static void copy_address(struct sockaddr *to, socklen_t *n, const struct sockaddr *from)
{
	socklen_t have = cm_address_length(from);

	if (!to || !n)
		return;
	memcpy(to, from, have < *n ? have : *n);
	*n = have;
}

/* next_event waits for an event of an ID that listens or resolves an address. */
static int next_event(struct stream *s, bool nonblocking, struct rdma_cm_event **e)
{
	struct pollfd fd = { .fd = s->channel->fd, .events = POLLIN };

	while (rdma_get_cm_event(s->channel, e)) {
		if (errno != EAGAIN)
			return errno;
		if (nonblocking)
			return EAGAIN;
		pthread_mutex_unlock(&s->mutex);
		poll(&fd, 1, -1);
		pthread_mutex_lock(&s->mutex);
	}
	return 0;
}

/* answer accepts a request to connect on a new stream. */
static int answer(struct stream *s, const void *hello, size_t n)
{
	struct rdma_conn_param param = { .flow_control = 1, .retry_count = 7, .rnr_retry_count = 7 };
	struct hello h;
	int error = allocate(s);

	if (!error)
		error = greeted(s, hello, n);
	if (error)
		return error;
	h = greeting(s);
	param.private_data = &h;
	param.private_data_len = sizeof(h);
	return rdma_accept(s->id, &param) ? errno : 0;
}

int raccept(int fd, struct sockaddr *a, socklen_t *len)
{
	struct stream *s = dgram_find(fd) ? weft_fail(EOPNOTSUPP) : enter(fd), *made;
	struct rdma_event_channel *channel;
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;
	uint8_t hello[256];
	size_t n = 0;
	int error;

	if (!s)
		return -1;
	if (s->state != LISTENING)
		return fail(s, EINVAL);
	do {
		error = next_event(s, s->nonblocking, &e);
		if (!error && e->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
			rdma_ack_cm_event(e);
			e = NULL;
		}
	} while (!error && !e);
	if (error)
		return fail(s, error);
	id = e->id;
	if (e->param.conn.private_data) {
		n = e->param.conn.private_data_len;
		memcpy(hello, e->param.conn.private_data, n);
	}
	rdma_ack_cm_event(e);
	channel = rdma_create_event_channel();
	if (!channel || rdma_migrate_id(id, channel)) {
		error = errno;
		if (channel)
			rdma_destroy_event_channel(channel);
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return fail(s, error);
	}
	made = alloc_stream(channel, id);
	if (!made) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		rdma_destroy_event_channel(channel);
		return fail(s, ENOMEM);
	}
	made->sends = s->sends;
	made->receives = s->receives;
	made->inlined = s->inlined;
	made->sbuf_size = s->sbuf_size;
	made->rbuf_size = s->rbuf_size;
	made->maps = s->maps;
	made->nonblocking = s->nonblocking;
	made->keep_idle = s->keep_idle;
	pthread_mutex_unlock(&s->mutex);
	error = answer(made, n ? hello : NULL, n);
	if (error) {
		rdma_reject(id, NULL, 0);
		free_stream(made);
		return cm_error(error);
	}
	copy_address(a, len, rdma_get_peer_addr(id));
	return channel->fd;
}

/* resolve takes a step towards the peer, and waits for it. */
static int resolve(struct stream *s, int failed, enum rdma_cm_event_type want)
{
	struct rdma_cm_event *e;
	int error = failed ? errno : next_event(s, false, &e);

	if (error)
		return error;
	if (e->event != want)
		error = e->status ? abs(e->status) : ENETUNREACH;
	rdma_ack_cm_event(e);
	return error;
}

/* Addresses and routes are resolved at once, also for a stream that must not wait: that takes milliseconds. */
int rconnect(int fd, const struct sockaddr *a, socklen_t n)
{
	struct rdma_conn_param param = { .flow_control = 1, .retry_count = 7, .rnr_retry_count = 7 };
	struct dgram *d = dgram_find(fd);
	struct stream *s;
	struct hello h;
	int error;

	if (d)
		return dgram_connect(d, a, n);
	s = enter(fd);
	if (!s)
		return -1;
	if (s->state == CONNECTING) {
		progress(s);
		if (s->state == CONNECTING)
			return fail(s, EALREADY);
		if (s->state == CONNECTED)
			return leave(s, 0);
		error = s->error;
		s->error = 0;
		return fail(s, error ? error : ECONNREFUSED);
	}
	if (s->state != FRESH || s->cq)
		return fail(s, s->state == CONNECTED ? EISCONN : EINVAL);
	error = resolve(s, rdma_resolve_addr(s->id, NULL, (struct sockaddr *)a, 2000), RDMA_CM_EVENT_ADDR_RESOLVED);
	if (!error)
		error = resolve(s, rdma_resolve_route(s->id, 2000), RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (!error)
		error = allocate(s);
	if (error)
		return fail(s, error);
	h = greeting(s);
	param.private_data = &h;
	param.private_data_len = sizeof(h);
	if (rdma_connect(s->id, &param))
		return fail(s, errno);
	s->state = CONNECTING;
	if (s->nonblocking)
		return fail(s, EINPROGRESS);
	error = wait_until(s, is_connected, false);
	if (!error && s->state != CONNECTED) {
		error = s->error ? s->error : ECONNREFUSED;
		s->error = 0;
	}
	return error ? fail(s, error) : leave(s, 0);
}

/*
 * Streams with keep-alives, and the thread that sends these: programs may wait, or do something
 * else. Its mutex is locked before that of a stream.
 */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool runs;
	struct stream *first;
} keepers = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* keep_alive sends a message without data if one is due, and returns when the next is, in ms. */
static uint64_t keep_alive(struct stream *s, uint64_t now)
{
	uint64_t due;

	pthread_mutex_lock(&s->mutex);
	if (s->keep_due <= now) {
		progress(s); /* the program may not look at what was completed */
		if (s->state == CONNECTED && s->controls < CONTROLS) {
			int error = post(s, MESSAGE(OP_CONTROL, KEEPALIVE), NULL, 0, 0, 0, 0);

			s->controls++;
			if (error)
				broken(s, error);
		}
		s->keep_due = now + (uint64_t)s->keep_idle * 1000;
	}
	due = s->keep_due;
	pthread_mutex_unlock(&s->mutex);
	return due;
}

static void *keep_all(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&keepers.mutex);
	for (;;) {
		uint64_t next = UINT64_MAX, now = milliseconds();
		struct timespec t;

		for (struct stream *s = keepers.first; s; s = s->keep_next) {
			uint64_t due = keep_alive(s, now);

			if (due < next)
				next = due;
		}
		if (next == UINT64_MAX) {
			pthread_cond_wait(&keepers.changed, &keepers.mutex);
			continue;
		}
		t = (struct timespec){ next / 1000, next % 1000 * 1000000 };
		pthread_cond_timedwait(&keepers.changed, &keepers.mutex, &t);
	}
	return NULL;
}

/* start_keeping starts the thread if it does not run yet. */
static int start_keeping(void)
{
	pthread_condattr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int error;

	if (keepers.runs)
		return 0;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&keepers.changed, &attr);
	sigfillset(&all); /* signals are for the program's threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, keep_all, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error) {
		pthread_detach(thread);
		keepers.runs = true;
	}
	return error;
}

/* set_keeping turns keep-alives of a stream, which is not locked, on or off, or changes their time. */
static int set_keeping(struct stream *s, bool on, int idle)
{
	struct stream **at = &keepers.first;
	int error = 0;

	pthread_mutex_lock(&keepers.mutex);
	while (*at && *at != s)
		at = &(*at)->keep_next;
	if (on && !*at)
		error = start_keeping();
	if (on && !*at && !error)
		*at = s;
	else if (!on && *at)
		*at = s->keep_next;
	if (!on)
		s->keep_next = NULL;
	pthread_mutex_lock(&s->mutex);
	s->keepalive = on && !error;
	s->keep_idle = idle;
	s->keep_due = milliseconds() + (uint64_t)idle * 1000;
	pthread_mutex_unlock(&s->mutex);
	if (keepers.runs)
		pthread_cond_signal(&keepers.changed);
	pthread_mutex_unlock(&keepers.mutex);
	return error;
}

/* control sends a message about the connection. */
static int control(struct stream *s, uint32_t value)
{
	int error = wait_until(s, may_control, false);

	if (error || s->state != CONNECTED)
		return error;
	s->controls++;
	return post(s, MESSAGE(OP_CONTROL, value), NULL, 0, 0, 0, 0);
}

/* shut ends directions of a connection; what was sent before arrives. */
static int shut(struct stream *s, int how)
{
	int error = 0;

	if (s->state != CONNECTED)
		return 0;
	if (how == SHUT_RD) {
		s->readable = false;
		return 0;
	}
	if (how == SHUT_RDWR || !s->readable) {
		error = control(s, DISCONNECT);
		if (!error)
			error = wait_until(s, is_drained, false);
		if (s->state == CONNECTED)
			ended(s);
	} else if (s->writable) {
		error = control(s, SHUTDOWN);
		s->writable = false;
	}
	return error;
}

int rshutdown(int fd, int how)
{
	struct dgram *d = dgram_find(fd);
	struct stream *s;
	int error;

	if (d)
		return dgram_shutdown(d, how);
	s = enter(fd);
	if (!s)
		return -1;
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return fail(s, EINVAL);
	if (s->state != CONNECTED && s->state != CLOSED)
		return fail(s, ENOTCONN);
	error = shut(s, how);
	return error ? fail(s, error) : leave(s, 0);
}

int rclose(int fd)
{
	struct dgram *d = dgram_find(fd);
	struct stream *s;

	if (d)
		return dgram_close(d);
	s = enter(fd);
	if (!s)
		return -1;
	if (s->keepalive) {
		pthread_mutex_unlock(&s->mutex);
		set_keeping(s, false, s->keep_idle);
		pthread_mutex_lock(&s->mutex);
	}
	shut(s, SHUT_RDWR);
	if (s->id->qp)
		rdma_disconnect(s->id);
	pthread_mutex_unlock(&s->mutex);
	free_stream(s);
	return 0;
}

/* take copies received bytes, without removing them if peek is set, and returns their number. */
static size_t take(struct stream *s, char *to, size_t n, bool peek)
{
	uint32_t at = s->rbuf_next;
	size_t got = 0;

	for (uint32_t i = 0; got < n && i < s->count;) {
		uint32_t *left = &s->lengths[(s->first + i) % s->receives];
		size_t part = *left < n - got ? *left : n - got, end = s->rbuf_size - at;

		for (size_t done = 0; done < part;) {
			size_t piece = part - done < end ? part - done : end;

			memcpy(to + got + done, s->rbuf + at, piece);
			done += piece;
			at = (at + piece) % s->rbuf_size;
			end = s->rbuf_size - at;
		}
		got += part;
		if (peek) {
			i++;
			continue;
		}
		*left -= part;
		if (!*left) {
			s->first = (s->first + 1) % s->receives;
			s->count--;
			s->taken++;
		}
	}
	if (!peek) {
		s->rbuf_next = at;
		s->rbuf_free += got;
	}
	return got;
}

#define RECEIVE_FLAGS (MSG_PEEK | MSG_DONTWAIT | MSG_WAITALL | MSG_NOSIGNAL)
#define SEND_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_WAITALL)

static ssize_t receive(struct stream *s, char *to, size_t n, int flags)
{
	size_t got = 0;
	int error;

	if (flags & ~RECEIVE_FLAGS)
		return fail(s, EOPNOTSUPP);
	if (s->state == FRESH || s->state == LISTENING || s->state == CONNECTING)
		return fail(s, ENOTCONN);
	do {
		error = wait_until(s, may_read, s->nonblocking || flags & MSG_DONTWAIT);
		if (error)
			break;
		got += take(s, to + got, n - got, flags & MSG_PEEK);
		grant(s);
	} while (got < n && flags & MSG_WAITALL && !(flags & MSG_PEEK) && s->readable);
	if (!got && !error && n && s->error) {
		error = s->error;
		s->error = 0;
	}
	return got || !error ? leave(s, got) : fail(s, error);
}

ssize_t rrecv(int fd, void *b, size_t n, int flags)
{
	struct dgram *d = dgram_find(fd);
	struct stream *s;

	if (d)
		return dgram_receive(d, &(struct iovec){ b, n }, 1, flags, NULL, NULL, NULL);
	s = enter(fd);
	return s ? receive(s, b, n, flags) : -1;
}

ssize_t rread(int fd, void *b, size_t n) { return rrecv(fd, b, n, 0); }

ssize_t rrecvfrom(int fd, void *b, size_t n, int flags, struct sockaddr *a, socklen_t *len)
{
	struct dgram *d = dgram_find(fd);
	ssize_t got;

	if (d)
		return dgram_receive(d, &(struct iovec){ b, n }, 1, flags, a, len, NULL);
	got = rrecv(fd, b, n, flags);
	if (got >= 0 && a)
		rgetpeername(fd, a, len);
	return got;
}

ssize_t rreadv(int fd, const struct iovec *v, int n)
{
	struct dgram *d = dgram_find(fd);
	ssize_t got = 0;

	if (d)
		return dgram_receive(d, v, n, 0, NULL, NULL, NULL);
	for (int i = 0; i < n; i++) {
		/* What follows the first bytes is taken only if it is there. */
		ssize_t part = rrecv(fd, v[i].iov_base, v[i].iov_len, got ? MSG_DONTWAIT : 0);

		if (part < 0)
			return got ? got : -1;
		got += part;
		if ((size_t)part < v[i].iov_len)
			break;
	}
	return got;
}

ssize_t rrecvmsg(int fd, struct msghdr *m, int flags)
{
	struct dgram *d = dgram_find(fd);

	if (d) {
		m->msg_controllen = 0;
		return dgram_receive(d, m->msg_iov, m->msg_iovlen, flags, m->msg_name, &m->msg_namelen, &m->msg_flags);
	}
	if (flags)
		return cm_error(EOPNOTSUPP);
	m->msg_flags = 0;
	m->msg_controllen = 0;
	return rreadv(fd, m->msg_iov, m->msg_iovlen);
}

/* put copies bytes to the send buffer and sends them from there, or inline. */
static int put(struct stream *s, uint32_t message, const char *from, uint32_t n, uint64_t to, uint32_t key)
{
	struct ibv_sge list[2];
	uint32_t end = s->sbuf_size - s->sbuf_next, first = n < end ? n : end;
	bool inlined = n <= s->inlined;

	s->slots--;
	s->sbuf_free -= n;
	if (inlined) {
		/* The room in the buffer is counted all the same, in the order of completions. */
		list[0] = (struct ibv_sge){ (uintptr_t)from, n, 0 };
	} else {
		memcpy(s->sbuf + s->sbuf_next, from, first);
		memcpy(s->sbuf, from + first, n - first);
		list[0] = (struct ibv_sge){ (uintptr_t)s->sbuf + s->sbuf_next, first, s->smr->lkey };
		list[1] = (struct ibv_sge){ (uintptr_t)s->sbuf, n - first, s->smr->lkey };
	}
	s->sbuf_next = (s->sbuf_next + n) % s->sbuf_size;
	return post(s, message, list, inlined || first == n ? 1 : 2, inlined ? IBV_SEND_INLINE : 0, to, key);
}

static uint32_t least(uint32_t a, size_t b) { return a < b ? a : b; }

static ssize_t transmit(struct stream *s, const char *from, size_t n, int flags)
{
	size_t done = 0;
	int error = 0;

	if (flags & ~SEND_FLAGS)
		return fail(s, EOPNOTSUPP);
	if (s->state == FRESH || s->state == LISTENING || s->state == CONNECTING)
		return fail(s, ENOTCONN);
	while (done < n) {
		struct target *t, at;
		uint32_t part;

		error = wait_until(s, has_room, s->nonblocking || flags & MSG_DONTWAIT);
		if (!error && !s->writable)
			error = s->error ? s->error : s->state == CLOSED ? ECONNRESET : EPIPE;
		if (error)
			break;
		t = &s->targets[s->target];
		part = least(t->length, least(s->sbuf_free, n - done));
		/* As soon as the last bytes are sent, the peer may announce a buffer in the same place. */
		at = *t;
		t->addr += part;
		t->length -= part;
		if (!t->length)
			s->target = (s->target + 1) % TARGETS;
		s->sent++;
		error = put(s, MESSAGE(OP_DATA, part), from + done, part, at.addr, at.key);
		if (error) {
			broken(s, error);
			break;
		}
		done += part;
	}
	return done || !error ? leave(s, done) : fail(s, error);
}

ssize_t rsend(int fd, const void *b, size_t n, int flags)
{
	struct dgram *d = dgram_find(fd);
	struct stream *s;

	if (d)
		return dgram_send(d, &(struct iovec){ (void *)b, n }, 1, flags, NULL, 0);
	s = enter(fd);
	return s ? transmit(s, b, n, flags) : -1;
}

ssize_t rwrite(int fd, const void *b, size_t n) { return rsend(fd, b, n, 0); }

ssize_t rsendto(int fd, const void *b, size_t n, int flags, const struct sockaddr *a, socklen_t len)
{
	struct dgram *d = dgram_find(fd);

	if (d)
		return dgram_send(d, &(struct iovec){ (void *)b, n }, 1, flags, a, len);
	return a ? cm_error(EISCONN) : rsend(fd, b, n, flags);
}

static ssize_t sendv(int fd, const struct iovec *v, int n, int flags)
{
	struct dgram *d = dgram_find(fd);
	ssize_t sent = 0;

	if (d)
		return dgram_send(d, v, n, flags, NULL, 0);
	for (int i = 0; i < n; i++) {
		ssize_t part = v[i].iov_len ? rsend(fd, v[i].iov_base, v[i].iov_len, flags) : 0;

		if (part < 0)
			return sent ? sent : -1;
		sent += part;
		if ((size_t)part < v[i].iov_len)
			break;
	}
	return sent;
}

ssize_t rwritev(int fd, const struct iovec *v, int n) { return sendv(fd, v, n, 0); }

ssize_t rsendmsg(int fd, const struct msghdr *m, int flags)
{
	struct dgram *d = dgram_find(fd);

	if (m->msg_controllen)
		return cm_error(EOPNOTSUPP);
	if (d)
		return dgram_send(d, m->msg_iov, m->msg_iovlen, flags, m->msg_name, m->msg_namelen);
	return sendv(fd, m->msg_iov, m->msg_iovlen, flags);
}

int rgetpeername(int fd, struct sockaddr *a, socklen_t *n)
{
	struct dgram *d = dgram_find(fd);
	struct stream *s;

	if (d)
		return dgram_getpeername(d, a, n);
	s = enter(fd);
	if (!s)
		return -1;
	if (s->state != CONNECTED && s->state != CLOSED)
		return fail(s, ENOTCONN);
	copy_address(a, n, rdma_get_peer_addr(s->id));
	return leave(s, 0);
}

int rgetsockname(int fd, struct sockaddr *a, socklen_t *n)
{
	struct dgram *d = dgram_find(fd);
	struct stream *s;

	if (d)
		return dgram_getsockname(d, a, n);
	s = enter(fd);
	if (!s)
		return -1;
	copy_address(a, n, rdma_get_local_addr(s->id));
	return leave(s, 0);
}

/* size_of returns the size that an option sets before a stream connects; NULL if it sets none. */
static uint32_t *size_of(struct stream *s, int level, int name, uint32_t *lo, uint32_t *hi)
{
	*lo = 0;
	*hi = 1 << 28;
	if (level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF)) {
		*lo = 4096;
		return name == SO_SNDBUF ? &s->sbuf_size : &s->rbuf_size;
	}
	if (level != SOL_RDMA)
		return NULL;
	*hi = 1 << 14;
	switch (name) {
	case RDMA_SQSIZE:
		*lo = 2 * CONTROLS;
		return &s->sends;
	case RDMA_RQSIZE:
		*lo = 2 * CONTROLS;
		return &s->receives;
	case RDMA_INLINE:
		*lo = LEAST;
		*hi = 512;
		return &s->inlined;
	case RDMA_IOMAPSIZE:
		return &s->maps;
	}
	return NULL;
}

int rsetsockopt(int fd, int level, int name, const void *v, socklen_t n)
{
	struct dgram *d = dgram_find(fd);
	uint32_t lo, hi, *size;
	struct stream *s;
	int value = 0;

	if (d)
		return dgram_setsockopt(d, level, name, v, n);
	s = enter(fd);
	if (!s)
		return -1;
	if (n >= sizeof(value))
		memcpy(&value, v, sizeof(value));
	else
		return fail(s, EINVAL);
	size = size_of(s, level, name, &lo, &hi);
	if (size) {
		uint32_t to = value < 0 || (uint32_t)value < lo ? lo : (uint32_t)value > hi ? hi : (uint32_t)value;

		if (s->cq)
			return fail(s, level == SOL_SOCKET ? ENOTSUP : EINVAL); /* it has them already */
		*size = name == RDMA_IOMAPSIZE && level == SOL_RDMA ? map_count(scaled_maps(to)) : level == SOL_SOCKET ? to & ~1u : to;
		return leave(s, 0);
	}
	if (level == SOL_SOCKET && name == SO_REUSEADDR) {
		s->reuse = !!value;
		return leave(s, rdma_set_option(s->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &s->reuse, sizeof(s->reuse)));
	}
	if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY) {
		s->only6 = !!value;
		return leave(s, rdma_set_option(s->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &s->only6, sizeof(s->only6)));
	}
	if (level == SOL_SOCKET && name == SO_KEEPALIVE) {
		pthread_mutex_unlock(&s->mutex);
		return cm_error(set_keeping(s, value, s->keep_idle));
	}
	if (level == IPPROTO_TCP && name == TCP_KEEPIDLE) {
		if (value < 1)
			return fail(s, EINVAL);
		pthread_mutex_unlock(&s->mutex);
		return cm_error(set_keeping(s, s->keepalive, value));
	}
	/* The NIC repeats what gets lost, by its own times. */
	if (level == IPPROTO_TCP && (name == TCP_KEEPINTVL || name == TCP_KEEPCNT))
		return leave(s, 0);
	/* Nothing is ever delayed. */
	if (level == IPPROTO_TCP && name == TCP_NODELAY)
		return leave(s, 0);
	/* Closing waits for what was sent, always. */
	if (level == SOL_SOCKET && name == SO_LINGER && n >= sizeof(struct linger) && value) {
		const struct linger *l = v;

		if (!l->l_linger)
			return fail(s, ENOTSUP);
		s->linger_on = 1;
		s->linger = l->l_linger;
		return leave(s, 0);
	}
	return fail(s, ENOTSUP);
}

int rgetsockopt(int fd, int level, int name, void *v, socklen_t *n)
{
	struct dgram *d = dgram_find(fd);
	uint32_t lo, hi, *size;
	struct stream *s;
	int value;

	if (d)
		return dgram_getsockopt(d, level, name, v, n);
	s = enter(fd);
	if (!s)
		return -1;
	if (level == SOL_SOCKET && name == SO_LINGER) {
		struct linger l = { s->linger_on, s->linger };

		if (*n < sizeof(l))
			return fail(s, EINVAL);
		memcpy(v, &l, sizeof(l));
		*n = sizeof(l);
		return leave(s, 0);
	}
	size = size_of(s, level, name, &lo, &hi);
	if (size) {
		value = *size;
	} else if (level == SOL_SOCKET && name == SO_ERROR) {
		progress(s);
		value = s->error;
		s->error = 0;
	} else if (level == SOL_SOCKET && name == SO_TYPE) {
		value = SOCK_STREAM;
	} else if (level == SOL_SOCKET && name == SO_REUSEADDR) {
		value = s->reuse;
	} else if (level == SOL_SOCKET && name == SO_KEEPALIVE) {
		value = s->keepalive;
	} else if (level == IPPROTO_TCP && name == TCP_KEEPIDLE) {
		value = s->keep_idle;
	} else if (level == IPPROTO_TCP && (name == TCP_NODELAY || name == TCP_KEEPINTVL || name == TCP_KEEPCNT)) {
		value = 1;
	} else if (level == IPPROTO_TCP && name == TCP_MAXSEG) {
		value = s->rbuf_size / 2;
	} else if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY) {
		value = s->only6;
	} else {
		return fail(s, ENOTSUP);
	}
	if (*n < sizeof(value))
		return fail(s, EINVAL);
	memcpy(v, &value, sizeof(value));
	*n = sizeof(value);
	return leave(s, 0);
}

int rfcntl(int fd, int cmd, ...)
{
	struct dgram *d = dgram_find(fd);
	struct stream *s;
	va_list args;
	int flags = 0;

	if (cmd == F_SETFL) {
		va_start(args, cmd);
		flags = va_arg(args, int);
		va_end(args);
	}
	if (d)
		return dgram_fcntl(d, cmd, flags);
	s = enter(fd);
	if (!s)
		return -1;
	switch (cmd) {
	case F_GETFL:
		return leave(s, O_RDWR | (s->nonblocking ? O_NONBLOCK : 0));
	case F_SETFL:
		s->nonblocking = flags & O_NONBLOCK;
		return leave(s, 0);
	}
	return fail(s, ENOTSUP);
}

/* ready returns the events of a stream, of those asked for, and of errors. */
static int ready(struct stream *s, int asked)
{
	struct pollfd fd = { .fd = s->channel->fd, .events = POLLIN };
	int events = 0;

	if (s->state == LISTENING)
		return poll(&fd, 1, 0) > 0 ? asked & POLLIN : 0;
	progress(s);
	if (s->state == CONNECTING || s->state == FRESH)
		return s->state == FRESH ? asked & POLLOUT ? POLLHUP | POLLOUT : POLLHUP : 0;
	if (may_read(s))
		events |= asked & POLLIN;
	if (has_room(s))
		events |= asked & POLLOUT;
	/* The end comes after the last data: rstream takes POLLHUP beside POLLIN for a failure. */
	if (s->state == CLOSED && !s->count)
		events |= s->error ? POLLERR : POLLHUP;
	return events;
}

/* look fills in what is ready; it returns the number of descriptors. */
static int look(struct pollfd *fds, nfds_t n)
{
	int count = 0;

	for (nfds_t i = 0; i < n; i++) {
		struct dgram *d = dgram_find(fds[i].fd);
		struct stream *s = find(fds[i].fd);

		if (d) {
			fds[i].revents = dgram_ready(d, fds[i].events);
		} else if (s) {
			pthread_mutex_lock(&s->mutex);
			fds[i].revents = ready(s, fds[i].events);
			pthread_mutex_unlock(&s->mutex);
		} else {
			fds[i].revents = 0;
			if (fds[i].fd >= 0)
				poll(&fds[i], 1, 0);
		}
		count += !!fds[i].revents;
	}
	return count;
}

/*
 * LOOK_AGAIN is how long rpoll waits at most before it looks again, in ms: another thread
 * may take the event that it waits for.
 */
#define LOOK_AGAIN 100

int rpoll(struct pollfd *fds, nfds_t n, int timeout)
{
	uint64_t end = milliseconds() + (timeout > 0 ? timeout : 0);
	struct pollfd *all = calloc(2 * n + 1, sizeof(*all));
	int count;

	if (!all)
		return cm_error(ENOMEM);
	for (;;) {
		uint64_t now;
		int left = LOOK_AGAIN;
		nfds_t m = 0;

		count = look(fds, n);
		if (count || !timeout)
			break;
		for (nfds_t i = 0; i < n; i++) {
			struct dgram *d = dgram_find(fds[i].fd);
			struct stream *s = find(fds[i].fd);

			if (d) {
				all[m++] = dgram_watch(d);
				continue;
			}
			if (!s) {
				all[m++] = fds[i];
				continue;
			}
			pthread_mutex_lock(&s->mutex);
			m += watch(s, &all[m]);
			pthread_mutex_unlock(&s->mutex);
		}
		count = look(fds, n); /* what came before the request has no event */
		now = milliseconds();
		if (count || (timeout > 0 && now >= end))
			break;
		if (timeout > 0 && end - now < LOOK_AGAIN)
			left = end - now;
		if (poll(all, m, left) < 0) {
			count = -1;
			break;
		}
	}
	free(all);
	return count;
}

int rselect(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
{
	int ms = timeout ? (int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000) : -1, count = 0;
	struct pollfd *fds = calloc(n + 1, sizeof(*fds));
	nfds_t m = 0;

	if (!fds)
		return cm_error(ENOMEM);
	for (int fd = 0; fd < n; fd++) {
		int events = (r && FD_ISSET(fd, r) ? POLLIN : 0) | (w && FD_ISSET(fd, w) ? POLLOUT : 0) | (e && FD_ISSET(fd, e) ? POLLPRI : 0);

		if (events)
			fds[m++] = (struct pollfd){ .fd = fd, .events = events };
	}
	if (rpoll(fds, m, ms) < 0) {
		free(fds);
		return -1;
	}
	for (nfds_t i = 0; i < m; i++) {
		const struct {
			fd_set *set;
			int asked, is;
		} sets[] = { { r, POLLIN, POLLIN | POLLHUP | POLLERR }, { w, POLLOUT, POLLOUT | POLLERR }, { e, POLLPRI, POLLPRI } };

		for (size_t k = 0; k < sizeof(sets) / sizeof(*sets); k++) {
			if (!(fds[i].events & sets[k].asked))
				continue;
			if (fds[i].revents & sets[k].is)
				count++;
			else
				FD_CLR(fds[i].fd, sets[k].set);
		}
	}
	free(fds);
	return count;
}

/* tell writes a map of this side to the peer's table. */
static int tell(struct stream *s, uint32_t index, struct mapped m)
{
	struct ibv_sge sge = { (uintptr_t)&m, sizeof(m), 0 };
	int error = wait_until(s, has_slot, false);

	if (!error && !s->writable)
		error = ECONNRESET;
	if (error)
		return error;
	m.target = order(s, m.target);
	if (s->swap)
		m.offset = bswap_64(m.offset);
	s->slots--;
	return post(s, MESSAGE(OP_MAP, index), &sge, 1, IBV_SEND_INLINE, s->peer_maps + index * sizeof(m), s->peer.key);
}

off_t riomap(int fd, void *b, size_t n, int prot, int flags, off_t offset)
{
	struct stream *s = dgram_find(fd) ? weft_fail(EINVAL) : enter(fd);
	struct mapped m;
	uint32_t i = 0;
	int error;

	(void)flags;
	if (!s)
		return -1;
	if (s->state != CONNECTED || prot & ~PROT_WRITE || n > UINT32_MAX)
		return fail(s, EINVAL);
	while (i < s->peer_map_count && s->mine[i].mr)
		i++;
	if (i == s->peer_map_count)
		return fail(s, ENOBUFS);
	m.offset = offset == -1 ? (uintptr_t)b : (uint64_t)offset;
	s->mine[i].mr = ibv_reg_mr(s->id->pd, b, n, prot & PROT_WRITE ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_LOCAL_WRITE);
	if (!s->mine[i].mr)
		return fail(s, errno);
	s->mine[i].offset = m.offset;
	m.target = (struct target){ (uintptr_t)b, s->mine[i].mr->rkey, n };
	error = tell(s, i, m);
	if (error) {
		ibv_dereg_mr(s->mine[i].mr);
		s->mine[i].mr = NULL;
		return fail(s, error);
	}
	return leave(s, m.offset);
}

int riounmap(int fd, void *b, size_t n)
{
	struct stream *s = dgram_find(fd) ? weft_fail(EINVAL) : enter(fd);

	if (!s)
		return -1;
	for (uint32_t i = 0; s->mine && i < s->peer_map_count; i++) {
		if (!s->mine[i].mr || s->mine[i].mr->addr != b || s->mine[i].mr->length != n)
			continue;
		if (s->state == CONNECTED)
			tell(s, i, (struct mapped){ 0 });
		ibv_dereg_mr(s->mine[i].mr);
		s->mine[i].mr = NULL;
		return leave(s, 0);
	}
	return fail(s, EINVAL);
}

/* target_of finds the buffer that the peer has mapped at an offset. */
static const struct mapped *target_of(const struct stream *s, uint64_t offset)
{
	const struct mapped *m = (const struct mapped *)(s->targets + TARGETS);

	for (uint32_t i = 0; i < s->maps; i++, m++)
		if (offset - m->offset < m->target.length)
			return m;
	return NULL;
}

size_t riowrite(int fd, const void *b, size_t n, off_t offset, int flags)
{
	struct stream *s = dgram_find(fd) ? weft_fail(EINVAL) : enter(fd);
	size_t done = 0;
	int error = 0;

	if (!s)
		return -1;
	if (s->state != CONNECTED || flags & ~SEND_FLAGS)
		return fail(s, s->state != CONNECTED ? ENOTCONN : EOPNOTSUPP);
	while (done < n) {
		const struct mapped *m;
		uint64_t at;
		uint32_t part;

		error = wait_until(s, has_slot, s->nonblocking || flags & MSG_DONTWAIT);
		if (!error && !s->writable)
			error = ECONNRESET;
		m = error ? NULL : target_of(s, offset + done);
		if (!error && !m)
			error = EINVAL;
		if (error)
			break;
		at = offset + done - m->offset;
		part = least(least(s->sbuf_free, m->target.length - at), n - done);
		error = put(s, MESSAGE(OP_WRITE, part), (const char *)b + done, part, m->target.addr + at, m->target.key);
		if (error) {
			broken(s, error);
			break;
		}
		done += part;
	}
	return done || !error ? (size_t)leave(s, done) : (size_t)fail(s, error);
}

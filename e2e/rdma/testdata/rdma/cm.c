/*
 * cm.c: checks of rdma_cm that Debian's programs do not cover: errors, unusual
 * orders, synchronous IDs.
 */
#include "kit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

static struct rdma_event_channel *events;

/* at returns the address of the NIC, or another, with a port. */
static struct sockaddr *at(const char *ip, uint16_t port)
{
	static struct sockaddr_in a[8];
	static int n;
	struct sockaddr_in *in = &a[n++ % 8];
	union ibv_gid gid;

	*in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	if (ip) {
		CHECK(inet_pton(AF_INET, ip, &in->sin_addr) == 1);
	} else {
		CHECK(!ibv_query_gid(ctx, 1, 0, &gid));
		memcpy(&in->sin_addr, gid.raw + 12, 4);
	}
	return (struct sockaddr *)in;
}

static struct rdma_cm_id *new_id(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(events, &id, NULL, ps));
	return id;
}

static void begin(void)
{
	start();
	events = rdma_create_event_channel();
	CHECK(events);
}

/* take waits for an event of a kind, acknowledges it, and returns a copy. */
static struct rdma_cm_event take(struct rdma_event_channel *from, enum rdma_cm_event_type kind)
{
	struct rdma_cm_event *e, was;

	CHECK(!rdma_get_cm_event(from, &e));
	EQUAL(rdma_event_str(e->event), e->event, kind);
	was = *e;
	CHECK(!rdma_ack_cm_event(e));
	return was;
}

static struct ibv_qp_init_attr small(void)
{
	return (struct ibv_qp_init_attr){ .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = { 4, 4, 1, 1, 64 } };
}

/* to_routed makes an ID that is ready to connect. */
static struct rdma_cm_id *to_routed(uint16_t port)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);

	CHECK(!rdma_resolve_addr(id, NULL, at(NULL, port), 1000));
	take(events, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 1000));
	take(events, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static struct rdma_cm_id *listener(uint16_t port)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);

	CHECK(!rdma_bind_addr(id, at(NULL, port)) && !rdma_listen(id, 10));
	return id;
}

static void cm_addresses(void)
{
	struct rdma_cm_id *a, *b, *c;
	struct rdma_addrinfo *info;
	struct rdma_cm_event e;

	begin();
	a = new_id(RDMA_PS_TCP);
	b = new_id(RDMA_PS_TCP);
	FAILS(rdma_create_id(events, &c, NULL, RDMA_PS_IB), EPROTONOSUPPORT);
	FAILS(rdma_bind_addr(a, at("10.9.9.9", 5000)), EADDRNOTAVAIL);
	FAILS(rdma_bind_addr(a, &(struct sockaddr){ .sa_family = AF_UNIX }), EAFNOSUPPORT);
	CHECK(!rdma_bind_addr(a, at(NULL, 5000)) && a->verbs && a->port_num == 1);
	EQUAL("port", ntohs(rdma_get_src_port(a)), 5000);
	FAILS(rdma_bind_addr(a, at(NULL, 5001)), EINVAL);
	FAILS(rdma_bind_addr(b, at(NULL, 5000)), EADDRINUSE);
	FAILS(rdma_bind_addr(b, at("0.0.0.0", 5000)), EADDRINUSE);
	FAILS(rdma_bind_addr(b, at("127.0.0.1", 5000)), EADDRINUSE);
	CHECK(!rdma_listen(a, 1));
	FAILS(rdma_listen(a, 1), EINVAL);
	FAILS(rdma_resolve_addr(a, NULL, at(NULL, 5002), 1000), EINVAL);
	/*
	 * A loopback address means all addresses, like 0.0.0.0; the device is known only
	 * with the peer.
	 */
	CHECK(!rdma_bind_addr(b, at("127.0.0.1", 0)) && !b->verbs && rdma_get_src_port(b));
	CHECK(!rdma_destroy_id(a) && !rdma_destroy_id(b));
	/* The port is free again; without an explicit port the ID gets one, too. */
	b = listener(5000);
	a = new_id(RDMA_PS_TCP);
	CHECK(!rdma_listen(a, 1) && rdma_get_src_port(a));
	CHECK(!rdma_destroy_id(a) && !rdma_destroy_id(b));
	/* Another port space has separate ports. */
	a = listener(5000);
	b = new_id(RDMA_PS_UDP);
	CHECK(!rdma_bind_addr(b, at(NULL, 5000)) && !rdma_destroy_id(b) && !rdma_destroy_id(a));

	a = new_id(RDMA_PS_TCP);
	FAILS(rdma_resolve_addr(a, NULL, NULL, 1000), EINVAL);
	FAILS(rdma_resolve_addr(a, NULL, at("0.0.0.0", 1), 1000), EINVAL);
	FAILS(rdma_resolve_addr(a, at("10.9.9.9", 0), at(NULL, 1), 1000), EADDRNOTAVAIL);
	CHECK(!rdma_resolve_addr(a, NULL, at("10.0.0.99", 1), 1000));
	e = take(events, RDMA_CM_EVENT_ADDR_ERROR);
	CHECK(e.status < 0 && e.id == a);
	/* It can be tried again. */
	CHECK(!rdma_resolve_addr(a, NULL, at(NULL, 1), 1000));
	take(events, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_destroy_id(a));
	FAILS(rdma_getaddrinfo(NULL, NULL, NULL, &info), EINVAL);
	CHECK(rdma_getaddrinfo("no.such.host.invalid", "1", &(struct rdma_addrinfo){ .ai_flags = RAI_NUMERICHOST }, &info));
	rdma_destroy_event_channel(events);
}

static void cm_orders(void)
{
	struct ibv_qp_init_attr init = small();
	struct rdma_conn_param param = { 0 };
	struct rdma_cm_id *id, *other;
	uint8_t tos = 32;
	char data[256] = { 0 };

	begin();
	id = new_id(RDMA_PS_TCP);
	param.private_data = data;
	FAILS(rdma_resolve_route(id, 1000), EINVAL);
	FAILS(rdma_connect(id, &param), EINVAL);
	FAILS(rdma_accept(id, &param), EINVAL);
	FAILS(rdma_reject(id, NULL, 0), EINVAL);
	FAILS(rdma_disconnect(id), EINVAL);
	FAILS(rdma_establish(id), EINVAL);
	FAILS(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	FAILS(rdma_create_qp(id, NULL, &init), EINVAL);
	FAILS(rdma_get_request(id, &other), EINVAL);
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, 99, &tos, 1), ENOSYS);
	FAILS(rdma_set_option(id, 99, RDMA_OPTION_ID_TOS, &tos, 1), ENOSYS);
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 3), EINVAL);
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1));
	CHECK(!rdma_resolve_addr(id, NULL, at(NULL, 1), 1000));
	FAILS(rdma_resolve_addr(id, NULL, at(NULL, 1), 1000), EINVAL); /* it is in progress */
	take(events, RDMA_CM_EVENT_ADDR_RESOLVED);
	FAILS(rdma_resolve_addr(id, NULL, at(NULL, 1), 1000), EINVAL);
	FAILS(rdma_connect(id, &param), EINVAL); /* without a route */
	FAILS(rdma_listen(id, 1), EINVAL);
	CHECK(!rdma_resolve_route(id, 1000));
	take(events, RDMA_CM_EVENT_ROUTE_RESOLVED);
	FAILS(rdma_resolve_route(id, 1000), EINVAL);
	CHECK(!rdma_create_qp(id, NULL, &init));
	FAILS(rdma_create_qp(id, NULL, &init), EINVAL); /* a second queue pair */
	FAILS(rdma_create_qp(to_routed(2), pd, &init), EINVAL); /* a domain from another context */
	for (int n = 57; n < 256; n += 99) {
		param.private_data_len = n;
		FAILS(rdma_connect(id, &param), EINVAL); /* a REQ has 92 bytes, of which the IP CM header takes 36 */
	}
	param.responder_resources = 200;
	param.private_data_len = 0;
	FAILS(rdma_connect(id, &param), EINVAL); /* more READs than the NIC supports */
	param.responder_resources = 1;
	FAILS(rdma_notify(id, IBV_EVENT_QP_FATAL), EINVAL);
	FAILS(rdma_leave_multicast(id, at("239.1.1.1", 0)), EADDRNOTAVAIL);
	FAILS(rdma_join_multicast(id, at("239.1.1.1", 0), NULL), EINVAL); /* RC has none */

	/* Nobody listens. */
	CHECK(!rdma_connect(id, &param));
	FAILS(rdma_connect(id, &param), EINVAL);
	EQUAL("nobody listens", take(events, RDMA_CM_EVENT_REJECTED).status, 8);
	EQUAL("posting behind it", rdma_post_send(id, NULL, mem, 1, mr, 0), 0);
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
	FAILS(rdma_ack_cm_event(NULL), EINVAL);
}

/* A request that is accepted twice, rejected with private data, and migrated to another channel. */
static void cm_answers(void)
{
	struct ibv_qp_init_attr init = small();
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .private_data = "question", .private_data_len = 9 };
	struct rdma_event_channel *second;
	struct rdma_cm_id *listen, *client, *server;
	static const char words[149];
	struct rdma_cm_event *got, e;

	begin();
	second = rdma_create_event_channel();
	CHECK(second);
	listen = listener(5000);
	client = to_routed(5000);
	CHECK(!rdma_create_qp(client, NULL, &init));
	CHECK(!rdma_connect(client, &param));
	CHECK(!rdma_get_cm_event(events, &got) && got->event == RDMA_CM_EVENT_CONNECT_REQUEST && got->listen_id == listen);
	server = got->id;
	/* The IP CM header comes first; private data fills the rest. */
	EQUAL("private data of a REQ", got->param.conn.private_data_len, 56);
	CHECK(!strcmp(got->param.conn.private_data, "question"));
	CHECK(!rdma_ack_cm_event(got));
	FAILS(rdma_reject(server, words, 149), EINVAL); /* a REJ has 148 bytes */
	CHECK(!rdma_reject(server, "words", 6));
	FAILS(rdma_reject(server, NULL, 0), EINVAL);
	CHECK(!rdma_get_cm_event(events, &got) && got->event == RDMA_CM_EVENT_REJECTED && got->id == client);
	EQUAL("reason", got->status, 28);
	CHECK(got->param.conn.private_data_len >= 6 && !strcmp(got->param.conn.private_data, "words"));
	CHECK(!rdma_ack_cm_event(got));
	CHECK(!rdma_destroy_id(server));
	FAILS(rdma_connect(client, &param), EINVAL); /* an ID can connect only once */
	rdma_destroy_qp(client);
	CHECK(!rdma_destroy_id(client));

	client = to_routed(5000);
	init = small();
	CHECK(!rdma_create_qp(client, NULL, &init));
	CHECK(!rdma_connect(client, &param));
	server = take(events, RDMA_CM_EVENT_CONNECT_REQUEST).id;
	init = small();
	CHECK(!rdma_create_qp(server, NULL, &init));
	CHECK(!rdma_migrate_id(server, second) && server->channel == second);
	FAILS(rdma_accept(server, &(struct rdma_conn_param){ .private_data = words, .private_data_len = 197 }), EINVAL); /* a REP has 196 bytes */
	rdma_destroy_qp(server);
	init = small();
	CHECK(!rdma_create_qp(server, NULL, &init));
	CHECK(!rdma_accept(server, NULL));
	FAILS(rdma_accept(server, NULL), EINVAL);
	take(events, RDMA_CM_EVENT_ESTABLISHED);
	e = take(second, RDMA_CM_EVENT_ESTABLISHED); /* where its events go now */
	CHECK(e.id == server);
	FAILS(rdma_reject(server, NULL, 0), EINVAL);
	FAILS(rdma_resolve_route(server, 1), EINVAL);
	CHECK(!rdma_disconnect(client));
	take(second, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!rdma_disconnect(server)); /* the answer */
	take(events, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!rdma_disconnect(server) && !rdma_disconnect(client)); /* it is over: not an error */
	rdma_destroy_qp(client);
	rdma_destroy_qp(server);
	CHECK(!rdma_destroy_id(client) && !rdma_destroy_id(server) && !rdma_destroy_id(listen));
	rdma_destroy_event_channel(second);
	rdma_destroy_event_channel(events);
}

static void *asks(void *arg)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_qp_init_attr init = small();
	struct rdma_cm_id *id;
	struct ibv_wc wc;
	char ip[INET_ADDRSTRLEN];
	struct sockaddr_in *in = (struct sockaddr_in *)at(NULL, 0);

	(void)arg;
	CHECK(inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip)));
	CHECK(!rdma_getaddrinfo(ip, "5001", &hints, &info));
	CHECK(!rdma_create_ep(&id, info, NULL, &init));
	rdma_freeaddrinfo(info);
	CHECK(!rdma_connect(id, NULL));
	CHECK(!rdma_post_send(id, NULL, "by an endpoint", 15, NULL, IBV_SEND_INLINE));
	EQUAL("send", rdma_get_send_comp(id, &wc), 1);
	EQUAL("send", wc.status, IBV_WC_SUCCESS);
	CHECK(!rdma_disconnect(id));
	rdma_destroy_ep(id);
	/* Nobody listens there. */
	CHECK(!rdma_getaddrinfo(ip, "5999", &hints, &info));
	init = small();
	CHECK(!rdma_create_ep(&id, info, NULL, &init));
	FAILS(rdma_connect(id, NULL), ECONNREFUSED);
	rdma_destroy_ep(id);
	return NULL;
}

/* A thread that takes the events of a channel. It ends with the process. */
struct taker {
	struct rdma_event_channel *from;
	pid_t thread;
	sem_t began, took;
};

static void *takes(void *arg)
{
	struct taker *t = arg;
	struct rdma_cm_event *e;

	t->thread = gettid();
	sem_post(&t->began);
	for (;;) {
		CHECK(!rdma_get_cm_event(t->from, &e));
		CHECK(!rdma_ack_cm_event(e));
		sem_post(&t->took);
	}
	return NULL;
}

/*
 * A channel is destroyed while another thread takes its events: that thread waits for
 * ever, as with the kernel's, also if an event is on its way, or if it has acknowledged
 * one and not asked for the next. rping ends like that.
 */
static void cm_closes(void)
{
	begin();
	for (int n = 0; n < 100; n++) {
		struct taker *t = calloc(1, sizeof(*t));
		struct rdma_cm_id *id;
		pthread_t thread;

		CHECK(t && !sem_init(&t->began, 0, 0) && !sem_init(&t->took, 0, 0));
		t->from = rdma_create_event_channel();
		CHECK(t->from && !pthread_create(&thread, NULL, takes, t) && !pthread_detach(thread));
		CHECK(!sem_wait(&t->began));
		CHECK(!rdma_create_id(t->from, &id, NULL, RDMA_PS_TCP));
		CHECK(!rdma_resolve_addr(id, NULL, at(NULL, 1), 1000));
		CHECK(!sem_wait(&t->took));
		await_call(t->thread, SYS_read);
		CHECK(!rdma_resolve_route(id, 1000));
		if (n % 2)
			CHECK(!sem_wait(&t->took));
		CHECK(!rdma_destroy_id(id));
		rdma_destroy_event_channel(t->from);
		await_call(t->thread, PAUSE);
	}
}

/* Endpoints are synchronous. */
static void cm_endpoints(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_qp_init_attr init = small();
	struct rdma_cm_id *listen, *id;
	struct ibv_mr *region;
	struct ibv_wc wc;
	pthread_t client;

	begin();
	CHECK(!rdma_getaddrinfo(NULL, "5001", &hints, &info));
	CHECK(!rdma_create_ep(&listen, info, NULL, &init));
	CHECK(!rdma_listen(listen, 1));
	errno = 0;
	CHECK(rdma_create_ep(&id, info, NULL, &init) == -1 && errno == EADDRINUSE);
	rdma_freeaddrinfo(info);
	CHECK(!pthread_create(&client, NULL, asks, NULL));
	CHECK(!rdma_get_request(listen, &id));
	region = rdma_reg_msgs(id, mem, 100);
	CHECK(region && !rdma_post_recv(id, NULL, mem, 100, region));
	CHECK(!rdma_accept(id, NULL));
	EQUAL("receive", rdma_get_recv_comp(id, &wc), 1);
	CHECK(wc.status == IBV_WC_SUCCESS && !strcmp(mem, "by an endpoint"));
	CHECK(!rdma_disconnect(id));
	CHECK(!pthread_join(client, NULL));
	CHECK(!rdma_dereg_mr(region));
	rdma_destroy_ep(id);
	rdma_destroy_ep(listen);
}

/* Calls of rsocket(7) on what is none, or in a wrong state. */
static void cm_sockets(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);
	struct pollfd p;
	char b[8];
	int s, v = 1;

	FAILS(rsocket(AF_INET, SOCK_RAW, 0), EPROTONOSUPPORT);
	FAILS(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	FAILS(rsend(0, b, 1, 0), EBADF);
	FAILS(rclose(0), EBADF);
	s = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(s >= 0);
	FAILS(raccept(s, (struct sockaddr *)&a, &n), EINVAL);
	FAILS(rsend(s, b, 1, 0), ENOTCONN);
	FAILS(rrecv(s, b, 1, 0), ENOTCONN);
	FAILS(rgetpeername(s, (struct sockaddr *)&a, &n), ENOTCONN);
	FAILS(rshutdown(s, SHUT_WR), ENOTCONN);
	FAILS((long)riomap(s, b, 1, PROT_WRITE, 0, 0), EINVAL);
	FAILS(rsetsockopt(s, SOL_SOCKET, SO_BROADCAST, &v, sizeof(v)), ENOTSUP);
	FAILS(rsetsockopt(s, SOL_SOCKET, SO_SNDBUF, &v, 1), EINVAL);
	FAILS(rfcntl(s, F_SETOWN, 0), ENOTSUP);
	CHECK(!rfcntl(s, F_SETFL, O_NONBLOCK) && rfcntl(s, F_GETFL) == (O_RDWR | O_NONBLOCK));
	a.sin_port = htons(7999);
	CHECK(!rbind(s, (struct sockaddr *)&a, sizeof(a)) && !rlisten(s, 1));
	FAILS(raccept(s, NULL, NULL), EAGAIN);
	p = (struct pollfd){ .fd = s, .events = POLLIN };
	CHECK(!rpoll(&p, 1, 0) && !rpoll(&p, 1, 10));
	CHECK(!rclose(s));
}

const struct check connections[] = {
	{ "cm_address_is_bound_once", cm_addresses },
	{ "cm_calls_have_an_order", cm_orders },
	{ "cm_requests_are_answered_once", cm_answers },
	{ "cm_endpoints_are_synchronous", cm_endpoints },
	{ "cm_channel_closes_under_a_waiting_thread", cm_closes },
	{ "cm_sockets_check_their_state", cm_sockets },
	{ NULL, NULL },
};

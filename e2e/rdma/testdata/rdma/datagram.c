/* datagram.c: checks of rsockets for datagrams, and of the keep-alives of streams. */
#include "kit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>

static struct sockaddr_in own(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	union ibv_gid gid;

	CHECK(!ibv_query_gid(ctx, 1, 0, &gid));
	memcpy(&a.sin_addr, gid.raw + 12, 4);
	return a;
}

static void await(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	EQUAL("rpoll", rpoll(&p, 1, -1), 1);
	EQUAL("rpoll", p.revents, POLLIN);
}

/* Datagrams keep their limits and their source, by UDP at first and by queue pairs then. */
static void check_datagrams(void)
{
	struct sockaddr_in server, from, client;
	socklen_t n = sizeof(from);
	char b[4096], got[4096];
	struct iovec parts[] = { { b, 3 }, { b + 3, 5 } }, into[] = { { got, 2 }, { got + 2, 1000 } };
	struct msghdr m = { .msg_iov = into, .msg_iovlen = 2, .msg_name = &from, .msg_namelen = sizeof(from) };
	struct ibv_port_attr port;
	int x, y, v = 1, limit;

	start();
	CHECK(!ibv_query_port(ctx, 1, &port));
	limit = (128 << port.active_mtu) - 8;
	server = own(7811);
	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = i * 7;
	x = rsocket(AF_INET, SOCK_DGRAM, 0);
	y = rsocket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
	CHECK(x >= 0 && y >= 0);
	CHECK(!rbind(x, (struct sockaddr *)&server, sizeof(server)));
	FAILS(rlisten(x, 1), EOPNOTSUPP);
	FAILS(raccept(x, NULL, NULL), EOPNOTSUPP);
	FAILS(rsend(y, b, 1, 0), EDESTADDRREQ);
	FAILS(rgetpeername(y, (struct sockaddr *)&from, &n), ENOTCONN);
	FAILS(rshutdown(y, SHUT_WR), ENOTCONN);
	FAILS(rrecv(y, b, 1, MSG_DONTWAIT), EAGAIN);
	FAILS((long)riomap(y, b, 1, PROT_WRITE, 0, 0), EINVAL);
	FAILS(rsetsockopt(y, SOL_SOCKET, SO_KEEPALIVE, &v, sizeof(v)), ENOTSUP);
	CHECK(!rfcntl(x, F_SETFL, O_NONBLOCK) && rfcntl(x, F_GETFL) == (O_RDWR | O_NONBLOCK));
	FAILS(rrecv(x, got, 1, 0), EAGAIN);

	/* The first goes by UDP; the others once the queue pairs are known. */
	for (int i = 0; i < 20; i++) {
		int length = 100 + i;

		EQUAL("rsendto", rsendto(y, b + i, length, 0, (struct sockaddr *)&server, sizeof(server)), length);
		await(x);
		n = sizeof(from);
		EQUAL("peek", rrecvfrom(x, got, 10, MSG_PEEK, (struct sockaddr *)&from, &n), 10);
		EQUAL("rrecvfrom", rrecvfrom(x, got, sizeof(got), 0, (struct sockaddr *)&from, &n), length);
		CHECK(!memcmp(got, b + i, length));
		EQUAL("rsendto", rsendto(x, got, 8, 0, (struct sockaddr *)&from, n), 8);
		EQUAL("rrecv", rrecv(y, got, sizeof(got), 0), 8);
		CHECK(!memcmp(got, b + i, 8));
	}
	n = sizeof(client);
	CHECK(!rgetsockname(y, (struct sockaddr *)&client, &n));
	CHECK(client.sin_port == from.sin_port && from.sin_addr.s_addr == server.sin_addr.s_addr);

	/* The longest, one that is too long, and one that is longer than its buffer. */
	EQUAL("longest", rsendto(y, b, limit, 0, (struct sockaddr *)&server, sizeof(server)), limit);
	await(x);
	EQUAL("longest", rrecv(x, got, sizeof(got), 0), limit);
	FAILS(rsendto(y, b, limit + 1, 0, (struct sockaddr *)&server, sizeof(server)), EMSGSIZE);
	CHECK(!rconnect(y, (struct sockaddr *)&server, sizeof(server)));
	n = sizeof(from);
	CHECK(!rgetpeername(y, (struct sockaddr *)&from, &n) && from.sin_port == server.sin_port);
	EQUAL("rwritev", rwritev(y, parts, 2), 8);
	await(x);
	EQUAL("cut", rrecv(x, got, 5, 0), 5);
	FAILS(rrecv(x, got, 5, 0), EAGAIN);
	EQUAL("rsend", rsend(y, b, 100, 0), 100);
	await(x);
	EQUAL("rrecvmsg", rrecvmsg(x, &m, 0), 100);
	CHECK(!memcmp(got, b, 100) && !m.msg_flags && from.sin_port == client.sin_port);
	EQUAL("rsend", rsend(y, b, 0, 0), 0);
	await(x);
	EQUAL("empty", rrecv(x, got, 5, 0), 0);
	n = sizeof(v);
	CHECK(!rgetsockopt(y, SOL_SOCKET, SO_TYPE, &v, &n) && v == SOCK_DGRAM);
	CHECK(!rshutdown(y, SHUT_RDWR));
	FAILS(rsend(y, b, 1, 0), EPIPE);
	EQUAL("shut", rrecv(y, got, 5, 0), 0);
	CHECK(!rclose(y) && !rclose(x));
	FAILS(rrecv(x, got, 5, 0), EBADF);
}

/* keep serves a stream, or connects one with keep-alives to an address, and waits for data. */
int keep(const char *to)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(7812) };
	int s = rsocket(AF_INET, SOCK_STREAM, 0), v = 1, idle = 1;
	socklen_t n = sizeof(v);
	char b;

	CHECK(s >= 0 && (!to || inet_pton(AF_INET, to, &a.sin_addr) == 1));
	if (to) {
		FAILS(rsetsockopt(s, IPPROTO_TCP, TCP_KEEPIDLE, &(int){ 0 }, sizeof(idle)), EINVAL);
		CHECK(!rsetsockopt(s, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)) && !rsetsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &v, sizeof(v)));
		v = 0;
		CHECK(!rgetsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &v, &n) && v && !rgetsockopt(s, IPPROTO_TCP, TCP_KEEPIDLE, &v, &n) && v == idle);
		CHECK(!rconnect(s, (struct sockaddr *)&a, sizeof(a)));
	} else {
		CHECK(!rbind(s, (struct sockaddr *)&a, sizeof(a)) && !rlisten(s, 1));
		puts("listens");
		fflush(stdout);
		s = raccept(s, NULL, NULL);
		CHECK(s >= 0);
	}
	puts("connected");
	fflush(stdout);
	return rrecv(s, &b, 1, 0) < 0;
}

const struct check sockets[] = {
	{ "datagrams_keep_limits_and_source", check_datagrams },
	{ NULL, NULL },
};

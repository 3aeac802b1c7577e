/* Times and rates of sockets. */
#include "slowclock.h"

#include <linux/errqueue.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

/* The kernel's time stamps of received packets. */

static void see_spec(void *at)
{
	struct timespec t;
	memcpy(&t, at, sizeof t);
	if (t.tv_sec == 0 && t.tv_nsec == 0)
		return; /* no time stamp */
	t = to_spec(seen_at(of_spec(&t)));
	memcpy(at, &t, sizeof t);
}

static void see_stamps(struct msghdr *m)
{
	dilation();
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_TIMESTAMP) {
			struct timeval t;
			memcpy(&t, CMSG_DATA(c), sizeof t);
			t = to_val(seen_at(of_val(&t)));
			memcpy(CMSG_DATA(c), &t, sizeof t);
		} else if (c->cmsg_type == SCM_TIMESTAMPNS) {
			see_spec(CMSG_DATA(c));
		} else if (c->cmsg_type == SCM_TIMESTAMPING) {
			see_spec(CMSG_DATA(c)); /* by software; a lab's devices have no other */
		}
	}
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	NEXT(recvmsg);
	ssize_t n = next(fd, m, flags);
	if (n >= 0)
		see_stamps(m);
	return n;
}

int recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t)
{
	NEXT(recvmmsg);
	struct timespec real;
	if (t)
		real = slow_spec(t);
	int got = next(fd, m, n, flags, t ? &real : NULL);
	for (int i = 0; i < got; i++)
		see_stamps(&m[i].msg_hdr);
	if (t && !odd_spec(t))
		*t = to_spec(up(of_spec(&real)));
	return got;
}

/* Options. */

static bool is_timeout(int level, int name) { return level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO); }

int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	NEXT(setsockopt);
	if (is_timeout(level, name) && size >= sizeof(struct timeval)) {
		struct timeval t;
		memcpy(&t, value, sizeof t);
		t = slow_val(&t);
		return next(fd, level, name, &t, sizeof t);
	}
	if (level == SOL_SOCKET && name == SO_MAX_PACING_RATE && size == sizeof(uint64_t)) {
		uint64_t rate;
		memcpy(&rate, value, sizeof rate);
		rate = rate == UINT64_MAX ? rate : rate / dilation();
		return next(fd, level, name, &rate, sizeof rate);
	}
	if (level == SOL_SOCKET && name == SO_MAX_PACING_RATE && size == sizeof(uint32_t)) {
		uint32_t rate;
		memcpy(&rate, value, sizeof rate);
		rate = rate == UINT32_MAX ? rate : rate / dilation();
		return next(fd, level, name, &rate, sizeof rate);
	}
	if (level == IPPROTO_TCP && name == TCP_USER_TIMEOUT && size == sizeof(int)) {
		int ms;
		memcpy(&ms, value, sizeof ms);
		int64_t real = slow(ms);
		ms = real > INT32_MAX ? INT32_MAX : real;
		return next(fd, level, name, &ms, sizeof ms);
	}
	return next(fd, level, name, value, size);
}

#define WITHIN(field) (size >= offsetof(struct tcp_info, field) + sizeof info.field)
#define SHORTER(field)      \
	if (WITHIN(field))  \
	info.field = fast(info.field)
#define FASTER(field)                                           \
	if (WITHIN(field) && info.field != UINT64_MAX)          \
	info.field = slow(info.field)

/* see_info converts times and rates in TCP's state to the lab's. */
static void see_info(void *at, socklen_t size)
{
	struct tcp_info info;
	size = size < sizeof info ? size : sizeof info;
	memcpy(&info, at, size);
	SHORTER(tcpi_rto);
	SHORTER(tcpi_ato);
	SHORTER(tcpi_last_data_sent);
	SHORTER(tcpi_last_data_recv);
	SHORTER(tcpi_last_ack_recv);
	SHORTER(tcpi_rtt);
	SHORTER(tcpi_rttvar);
	SHORTER(tcpi_rcv_rtt);
	SHORTER(tcpi_min_rtt);
	SHORTER(tcpi_busy_time);
	SHORTER(tcpi_rwnd_limited);
	SHORTER(tcpi_sndbuf_limited);
	FASTER(tcpi_pacing_rate);
	FASTER(tcpi_max_pacing_rate);
	FASTER(tcpi_delivery_rate);
	memcpy(at, &info, size);
}

int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict size)
{
	NEXT(getsockopt);
	int r = next(fd, level, name, value, size);
	if (r)
		return r;
	if (is_timeout(level, name) && *size >= sizeof(struct timeval)) {
		struct timeval t;
		memcpy(&t, value, sizeof t);
		t = to_val(up(of_val(&t)));
		memcpy(value, &t, sizeof t);
	} else if (level == IPPROTO_TCP && name == TCP_INFO) {
		see_info(value, *size);
	}
	return r;
}

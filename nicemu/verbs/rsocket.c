/*
 * rsocket.c: sockets over RDMA (rsocket(7)) are refused with EOPNOTSUPP: they are a stream
 * protocol on top of verbs, for which the kernel's TCP in the same host serves as well.
 * Programs that are merely linked to them still start.
 */
#include <poll.h>
#include <sys/select.h>

#include <rdma/rsocket.h>

#include "cm.h"

#define NONE(type, name, ...)              \
	type name(__VA_ARGS__)             \
	{                                  \
		errno = EOPNOTSUPP;        \
		return (type)-1;           \
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"

NONE(int, rsocket, int domain, int type, int protocol)
NONE(int, rbind, int s, const struct sockaddr *a, socklen_t n)
NONE(int, rlisten, int s, int backlog)
NONE(int, raccept, int s, struct sockaddr *a, socklen_t *n)
NONE(int, rconnect, int s, const struct sockaddr *a, socklen_t n)
NONE(int, rshutdown, int s, int how)
NONE(int, rclose, int s)
NONE(ssize_t, rrecv, int s, void *b, size_t n, int flags)
NONE(ssize_t, rrecvfrom, int s, void *b, size_t n, int flags, struct sockaddr *a, socklen_t *len)
NONE(ssize_t, rrecvmsg, int s, struct msghdr *m, int flags)
NONE(ssize_t, rsend, int s, const void *b, size_t n, int flags)
NONE(ssize_t, rsendto, int s, const void *b, size_t n, int flags, const struct sockaddr *a, socklen_t len)
NONE(ssize_t, rsendmsg, int s, const struct msghdr *m, int flags)
NONE(ssize_t, rread, int s, void *b, size_t n)
NONE(ssize_t, rreadv, int s, const struct iovec *v, int n)
NONE(ssize_t, rwrite, int s, const void *b, size_t n)
NONE(ssize_t, rwritev, int s, const struct iovec *v, int n)
NONE(int, rgetpeername, int s, struct sockaddr *a, socklen_t *n)
NONE(int, rgetsockname, int s, struct sockaddr *a, socklen_t *n)
NONE(int, rsetsockopt, int s, int level, int name, const void *v, socklen_t n)
NONE(int, rgetsockopt, int s, int level, int name, void *v, socklen_t *n)
NONE(int, rfcntl, int s, int cmd, ...)
NONE(off_t, riomap, int s, void *b, size_t n, int prot, int flags, off_t offset)
NONE(int, riounmap, int s, void *b, size_t n)
NONE(size_t, riowrite, int s, const void *b, size_t n, off_t offset, int flags)

/* No descriptor is an rsocket, so these call the system's. */
int rpoll(struct pollfd *fds, nfds_t n, int timeout) { return poll(fds, n, timeout); }
int rselect(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout) { return select(n, r, w, e, timeout); }

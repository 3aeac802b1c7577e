/* rdgram.h: datagrams of rsockets. Functions return -1 and set errno like those of rsocket(7). */
#ifndef WEFT_RDGRAM_H
#define WEFT_RDGRAM_H

#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct dgram;

/* dgram_find finds the socket of a descriptor; NULL if it is none for datagrams. */
struct dgram *dgram_find(int fd);
int dgram_socket(int domain);
int dgram_bind(struct dgram *s, const struct sockaddr *a, socklen_t n);
int dgram_connect(struct dgram *s, const struct sockaddr *a, socklen_t n);
int dgram_shutdown(struct dgram *s, int how);
int dgram_close(struct dgram *s);
ssize_t dgram_receive(struct dgram *s, const struct iovec *v, int n, int flags, struct sockaddr *from, socklen_t *len, int *got_flags);
ssize_t dgram_send(struct dgram *s, const struct iovec *v, int n, int flags, const struct sockaddr *to, socklen_t len);
int dgram_getpeername(struct dgram *s, struct sockaddr *a, socklen_t *n);
int dgram_getsockname(struct dgram *s, struct sockaddr *a, socklen_t *n);
int dgram_setsockopt(struct dgram *s, int level, int name, const void *v, socklen_t n);
int dgram_getsockopt(struct dgram *s, int level, int name, void *v, socklen_t *n);
int dgram_fcntl(struct dgram *s, int cmd, int flags);

/* dgram_ready returns the events of those asked for that a socket is ready for, and errors. */
int dgram_ready(struct dgram *s, int asked);

/* dgram_watch requests events, and returns the descriptor that becomes readable with them. */
struct pollfd dgram_watch(struct dgram *s);

#endif

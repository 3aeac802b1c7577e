/* session.c: the connection to the lab, calls, shared memory, tables of objects. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "weft.h"

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static struct weft_session *current;

static void before_fork(void) { pthread_mutex_lock(&making); }
static void after_fork(void) { pthread_mutex_unlock(&making); }

/*
 * A forked child does not share its parent's session: the lab reads and writes the
 * parent's memory. Without this, the child's copy of the socket would keep the
 * parent's objects alive.
 */
static void in_child(void)
{
	if (current) {
		current->dead = true;
		close(current->socket);
		close(current->bell);
		current = NULL;
	}
	pthread_mutex_unlock(&making);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, after_fork, in_child); }

/* name makes the address of a socket. A path that is too long is given through its descriptor. */
static int name(struct sockaddr_un *to, const char *path)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return -1;
	to->sun_family = AF_UNIX;
	snprintf(to->sun_path, sizeof(to->sun_path), "/proc/self/fd/%d", fd);
	return fd;
}

static int dial(const char *path)
{
	struct sockaddr_un to = { 0 };
	int at = name(&to, path), fd, error;

	if (at < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		error = errno;
		close(fd);
		fd = -1;
		errno = error;
	}
	error = errno;
	close(at);
	errno = error;
	return fd;
}

/*
 * complain_of_container says, once, what a container lacks that has a lab's NIC in /sys, from the
 * host that it runs in, but not the socket.
 */
static void complain_of_container(const char *path)
{
	static bool said;

	if (said || access("/sys/devices/weft", F_OK))
		return;
	said = true;
	fprintf(stderr, "libibverbs: /sys has the NIC of a lab's host, but %s is missing: pass /dev/weft into the container too, for instance with --volume /dev/weft:/dev/weft\n", path);
}

static struct weft_session *make(void)
{
	struct weft_hello hello = { .version = WEFT_ABI_VERSION };
	const char *path = getenv(WEFT_SOCKET_VARIABLE);
	struct weft_session *s;
	int fds[2], error;

	if (!path || !*path) {
		path = WEFT_SOCKET;
		if (access(path, F_OK)) {
			complain_of_container(path);
			return weft_fail(ENOSYS); /* this is not a host of a lab */
		}
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return weft_fail(ENOMEM);
	pthread_mutex_init(&s->mutex, NULL);
	s->socket = dial(path);
	if (s->socket < 0) {
		error = errno;
		fprintf(stderr, "libibverbs: the lab's NIC at %s: %s\n", path, strerror(error));
		free(s);
		return weft_fail(error);
	}
	error = weft_call(s, WEFT_HELLO, &hello, sizeof(hello), NULL, 0, fds, 2);
	if (!error) {
		s->bell = fds[1];
		s->doorbell = weft_map(fds[0], sizeof(*s->doorbell));
		if (s->doorbell)
			return s;
		error = errno;
		close(s->bell);
	}
	close(s->socket);
	free(s);
	return weft_fail(error);
}

struct weft_session *weft_session(void)
{
	struct weft_session *s;
	int error;

	pthread_mutex_lock(&making);
	if (current && !current->dead) {
		s = current;
	} else {
		/* A dead session is kept: its objects refer to it. */
		s = make();
		if (s)
			current = s;
	}
	error = errno;
	pthread_mutex_unlock(&making);
	errno = error;
	return s;
}

/* complain prints an error's text, which begins with the text of strerror(3). */
static void complain(enum weft_op op, const char *text, ssize_t n)
{
	if (getenv("WEFT_VERBS_DEBUG"))
		fprintf(stderr, "libibverbs: request %d: %.*s\n", op, (int)n, text);
}

int weft_refuse(int error, const char *format, ...)
{
	char text[256];
	va_list args;

	if (getenv("WEFT_VERBS_DEBUG")) {
		va_start(args, format);
		vsnprintf(text, sizeof(text), format, args);
		va_end(args);
		fprintf(stderr, "libibverbs: %s: %s\n", strerror(error), text);
	}
	return weft_error(error);
}

/* take reads the answer. */
static int take(struct weft_session *s, enum weft_op op, void *answer, size_t size, int *fds, int n)
{
	struct weft_answer head;
	char text[WEFT_MAX_MESSAGE];
	struct iovec parts[] = { { &head, sizeof(head) }, { text, sizeof(text) } };
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t got;
	int came = 0;

	do {
		got = recvmsg(s->socket, &m, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got < (ssize_t)sizeof(head)) {
		s->dead = true; /* the lab has ended */
		return EIO;
	}
	got -= sizeof(head);
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		came = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds ? fds : (int *)text, CMSG_DATA(c), (came < n ? came : n) * sizeof(int));
	}
	if (head.error) {
		complain(op, text, got);
		return head.error;
	}
	if ((size_t)got != size || came != n) {
		s->dead = true;
		return EPROTO;
	}
	if (size)
		memcpy(answer, text, size);
	return 0;
}

static int ask(struct weft_session *s, enum weft_op op, const void *body, size_t size)
{
	struct weft_request head = { .op = op };
	struct iovec parts[] = { { &head, sizeof(head) }, { (void *)body, size } };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = size ? 2 : 1 };
	ssize_t sent;

	do {
		sent = sendmsg(s->socket, &m, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0) {
		s->dead = true;
		return EIO;
	}
	return 0;
}

int weft_call(struct weft_session *s, enum weft_op op, const void *body, size_t size, void *answer, size_t answer_size, int *fds, int n)
{
	int error, cancel;

	if (s->dead)
		return weft_error(EIO);
	/* A thread cancelled half-way would leave its answer to the next one. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&s->mutex);
	error = s->dead ? EIO : ask(s, op, body, size);
	if (!error)
		error = take(s, op, answer, answer_size, fds, n);
	pthread_mutex_unlock(&s->mutex);
	pthread_setcancelstate(cancel, NULL);
	return weft_error(error);
}

int weft_call_handle(struct weft_session *s, enum weft_op op, uint32_t handle)
{
	struct weft_handle h = { .handle = handle };

	return weft_call(s, op, &h, sizeof(h), NULL, 0, NULL, 0);
}

bool weft_enter(struct weft_waiters *w)
{
	bool there;

	if (w->of && !weft_enter(w->of))
		return false;
	pthread_mutex_lock(&w->mutex);
	there = !w->gone;
	w->threads += there;
	pthread_mutex_unlock(&w->mutex);
	if (w->of && !there)
		weft_leave(w->of);
	return there;
}

/* drop removes a thread, and reports whether the channel remains and whether other threads are there. */
static void drop(struct weft_waiters *w, bool *there, bool *last)
{
	pthread_mutex_lock(&w->mutex);
	*there = !w->gone;
	*last = !--w->threads;
	if (*last && w->gone)
		close(w->fd);
	pthread_mutex_unlock(&w->mutex);
}

bool weft_leave(struct weft_waiters *w)
{
	struct weft_waiters *of = w->of;
	bool there, last;

	drop(w, &there, &last); /* and w may be freed */
	if (of)
		weft_leave(of);
	return there;
}

static void cancelled(void *w) { weft_leave(w); }

ssize_t weft_read(struct weft_waiters *w, void *to, size_t size)
{
	ssize_t n;

	pthread_cleanup_push(cancelled, w);
	n = read(w->fd, to, size);
	pthread_cleanup_pop(0);
	return n;
}

void weft_end(struct weft_waiters *w)
{
	pthread_mutex_lock(&w->mutex);
	w->gone = true;
	w->threads++;
	pthread_mutex_unlock(&w->mutex);
}

bool weft_release(struct weft_waiters *w)
{
	bool there, last;

	drop(w, &there, &last);
	return last;
}

int weft_closed(struct weft_session *s)
{
	char b;

	if (s->dead || recv(s->socket, &b, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		return EIO;
	for (;;)
		pause();
}

void *weft_map(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int error = errno;

	close(fd);
	if (p == MAP_FAILED)
		return weft_fail(error);
	madvise(p, size, MADV_DONTFORK); /* see in_child */
	return p;
}

void weft_ring(struct weft_session *s, uint32_t number)
{
	struct weft_doorbell *d = s->doorbell;
	uint32_t word = number / 64;
	uint64_t one = 1;

	__atomic_fetch_or(&d->dirty[word], one << number % 64, __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&d->any[word / 64], one << word % 64, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&d->armed, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&d->armed, 0, __ATOMIC_SEQ_CST)) {
		while (write(s->bell, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
}

/* Tables use Fibonacci hashing and linear probing; handles are not 0. */
static uint32_t place(uint32_t handle, uint32_t size) { return handle * 0x9e3779b1u & (size - 1); }

struct entry {
	uint32_t handle;
	void *object;
};

static int grow(struct weft_table *t)
{
	uint32_t size = t->size ? 2 * t->size : 16;
	struct entry *old = (struct entry *)t->slots, *new = calloc(size, sizeof(*new));

	if (!new)
		return ENOMEM;
	for (uint32_t i = 0; i < t->size; i++) {
		uint32_t p = place(old[i].handle, size);

		if (!old[i].handle)
			continue;
		while (new[p].handle)
			p = (p + 1) & (size - 1);
		new[p] = old[i];
	}
	free(old);
	t->slots = (void **)new;
	t->size = size;
	return 0;
}

int weft_table_put(struct weft_table *t, uint32_t handle, void *object)
{
	struct entry *e;
	uint32_t p;
	int error = 0;

	pthread_mutex_lock(&t->mutex);
	if (2 * (t->used + 1) > t->size)
		error = grow(t);
	if (!error) {
		e = (struct entry *)t->slots;
		for (p = place(handle, t->size); e[p].handle; p = (p + 1) & (t->size - 1))
			;
		e[p] = (struct entry){ handle, object };
		t->used++;
	}
	pthread_mutex_unlock(&t->mutex);
	return error;
}

/* find returns an object of a locked table; NULL if it is not there. */
static void *find(const struct weft_table *t, uint32_t handle)
{
	const struct entry *e = (const struct entry *)t->slots;

	for (uint32_t p = t->size ? place(handle, t->size) : 0; t->size && e[p].handle; p = (p + 1) & (t->size - 1))
		if (e[p].handle == handle)
			return e[p].object;
	return NULL;
}

void *weft_table_get(struct weft_table *t, uint32_t handle)
{
	void *object;

	pthread_mutex_lock(&t->mutex);
	object = find(t, handle);
	pthread_mutex_unlock(&t->mutex);
	return object;
}

void *weft_table_count(struct weft_table *t, uint32_t handle, size_t offset)
{
	void *object;

	pthread_mutex_lock(&t->mutex);
	object = find(t, handle);
	if (object)
		++*(uint32_t *)((char *)object + offset);
	pthread_mutex_unlock(&t->mutex);
	return object;
}

void weft_table_remove(struct weft_table *t, uint32_t handle)
{
	struct entry *e, moved;
	uint32_t p, mask = t->size - 1;

	pthread_mutex_lock(&t->mutex);
	e = (struct entry *)t->slots;
	for (p = t->size ? place(handle, t->size) : 0; t->size && e[p].handle && e[p].handle != handle; p = (p + 1) & mask)
		;
	if (t->size && e[p].handle) {
		e[p].handle = 0;
		t->used--;
		/* Entries after it may have been displaced from this slot. */
		for (p = (p + 1) & mask; e[p].handle; p = (p + 1) & mask) {
			uint32_t q;

			moved = e[p];
			e[p].handle = 0;
			for (q = place(moved.handle, t->size); e[q].handle; q = (q + 1) & mask)
				;
			e[q] = moved;
		}
	}
	pthread_mutex_unlock(&t->mutex);
}

/*
 * hostile.c NAME: a program that attacks the lab through everything they share: the
 * control socket, descriptors, rings in shared memory. Without a name it lists its
 * attacks. It implements abi.h itself. It does not check the effect on other programs; it
 * fails if the lab does something that it should not, to it or for it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"

#define CHECK(x)                                                                                  \
	do {                                                                                      \
		if (!(x)) {                                                                       \
			fprintf(stderr, "line %d: %s (errno %d: %s)\n", __LINE__, #x, errno, strerror(errno)); \
			exit(1);                                                                  \
		}                                                                                 \
	} while (0)

static int dial(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int at = open("/dev/weft/verbs", O_PATH | O_CLOEXEC), fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (at < 0 || fd < 0)
		return -1;
	snprintf(to.sun_path, sizeof(to.sun_path), "/proc/self/fd/%d", at);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		close(fd);
		fd = -1;
	}
	close(at);
	return fd;
}

/*
 * call returns the errno of the answer, or -1 without one; fds, which has room for
 * 4, receives descriptors.
 */
static int call(int socket, uint32_t op, const void *body, size_t size, void *answer, size_t room, int *fds)
{
	struct weft_request head = { .op = op };
	struct iovec out[] = { { &head, sizeof(head) }, { (void *)body, size } };
	struct msghdr m = { .msg_iov = out, .msg_iovlen = 2 };
	struct weft_answer got;
	char text[WEFT_MAX_MESSAGE];
	struct iovec in[] = { { &got, sizeof(got) }, { text, sizeof(text) } };
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct msghdr r = { .msg_iov = in, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t n;

	if (sendmsg(socket, &m, MSG_NOSIGNAL) < 0)
		return -1;
	n = recvmsg(socket, &r, MSG_CMSG_CLOEXEC);
	if (n < (ssize_t)sizeof(got))
		return -1;
	c = CMSG_FIRSTHDR(&r);
	if (c && fds)
		memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	else if (c)
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++)
			close(((int *)CMSG_DATA(c))[i]);
	if (!got.error && answer)
		memcpy(answer, text, room);
	return got.error;
}

static uint32_t made(int socket, uint32_t op, const void *body, size_t size)
{
	uint32_t handle = 0;

	return call(socket, op, body, size, &handle, sizeof(handle), NULL) ? 0 : handle;
}

#define MADE(socket, op, ...) made(socket, op, &(__VA_ARGS__), sizeof(__VA_ARGS__))

/* Made by start. */
static int control, bell;
static struct weft_doorbell *doorbell;
static uint32_t context, pd, cq;
static struct weft_qp_answer qp[4];
static char *shared[5];
static size_t lengths[5];

static int session(int *fds)
{
	struct weft_hello hello = { .version = WEFT_ABI_VERSION };
	int s = dial();

	if (s >= 0 && call(s, WEFT_HELLO, &hello, sizeof(hello), NULL, 0, fds)) {
		close(s);
		s = -1;
	}
	return s;
}

static void *map(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static void start(void)
{
	struct weft_cq_answer c;
	int fds[4];

	control = session(fds);
	CHECK(control >= 0);
	bell = fds[1];
	doorbell = map(fds[0], sizeof(*doorbell));
	CHECK((context = MADE(control, WEFT_OPEN, (struct weft_handle){ 0 })));
	CHECK((pd = MADE(control, WEFT_ALLOC_PD, (struct weft_handle){ .handle = context })));
	struct weft_create_cq ask = { .context = context, .cqe = 100 };
	CHECK(!call(control, WEFT_CREATE_CQ, &ask, sizeof(ask), &c, sizeof(c), fds));
	cq = c.handle;
	lengths[4] = WEFT_PAGE + c.slots * sizeof(struct weft_cqe);
	shared[4] = map(fds[0], lengths[4]);
	for (int i = 0; i < 4; i++) {
		struct weft_create_qp q = { .pd = pd, .send_cq = cq, .recv_cq = cq, .type = i < 2 ? 2 : i + 1,
			.max_send_wr = 1024, .max_recv_wr = 1024, .max_send_sge = 4, .max_recv_sge = 4, .max_inline = 128 };

		CHECK(!call(control, WEFT_CREATE_QP, &q, sizeof(q), &qp[i], sizeof(qp[i]), fds));
		lengths[i] = WEFT_PAGE + qp[i].send_slots * qp[i].send_stride + qp[i].recv_slots * qp[i].recv_stride;
		shared[i] = map(fds[0], lengths[i]);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static volatile int stop;

/* scribble writes to all shared memory, and rings, without pause. */
static void *scribble(void *seed)
{
	unsigned int s = (unsigned int)(uintptr_t)seed;
	uint64_t one = 1;

	while (!stop) {
		int i = rand_r(&s) % 5;
		size_t at = rand_r(&s) % 3 ? 64 * (rand_r(&s) % 4) : (size_t)rand_r(&s) % lengths[i] / 8 * 8;

		*(volatile uint64_t *)(shared[i] + at) = rand_r(&s) % 2 ? (uint64_t)rand_r(&s) % 64 : (uint64_t)rand_r(&s) * rand_r(&s);
		__atomic_store_n(&doorbell->dirty[0], 0xff, __ATOMIC_SEQ_CST);
		__atomic_store_n(&doorbell->any[0], 1, __ATOMIC_SEQ_CST);
		if (rand_r(&s) % 16 == 0)
			(void)!write(bell, &one, sizeof(one));
	}
	return NULL;
}

/* rings: two threads change all shared memory while a third modifies the queue pairs. */
static void rings(void)
{
	pthread_t t[2];
	double end;

	start();
	for (uintptr_t i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, scribble, (void *)(i + 1)));
	for (end = now() + 2; now() < end;) {
		struct weft_qp_attr a = { .qp = qp[rand() % 4].handle, .mask = 1, .state = rand() % 7 };

		CHECK(call(control, WEFT_MODIFY_QP, &a, sizeof(a), NULL, 0, NULL) >= 0);
	}
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

/* orphan: a program ends, and its orphaned child goes on using its socket and its rings. */
static void orphan(void)
{
	int result[2];
	pthread_t t;
	pid_t child;
	char said = 0;

	CHECK(!pipe(result));
	child = fork();
	CHECK(child >= 0);
	if (child) {
		CHECK(waitpid(child, NULL, 0) == child);
		close(result[1]);
		CHECK(read(result[0], &said, 1) == 1 && said == 'r');
		return;
	}
	start();
	if (fork())
		_exit(0);
	CHECK(!pthread_create(&t, NULL, scribble, (void *)3));
	for (double end = now() + 1; now() < end;) {
		struct weft_reg_mr r = { .pd = pd, .access = 1, .addr = (uintptr_t)shared, .length = 8, .iova = 0 };

		/*
		 * If it were granted, it would be the memory of the ended program, or of the
		 * one that has its PID now.
		 */
		said = call(control, WEFT_REG_MR, &r, sizeof(r), NULL, 0, NULL) ? 'r' : 'g'; /* refused, got */
		usleep(1000);
	}
	stop = 1;
	pthread_join(t, NULL);
	(void)!write(result[1], &said, 1);
	_exit(0);
}

/* garbage: bytes of all lengths, each over a new connection. */
static void garbage(void)
{
	char b[WEFT_MAX_MESSAGE + 1];

	for (int n = 0; n < 400; n++) {
		int s = n % 2 ? session((int[4]){ 0 }) : dial();

		CHECK(s >= 0);
		for (size_t i = 0; i < sizeof(b); i++)
			b[i] = rand();
		(void)!send(s, b, n % 4 ? (size_t)rand() % 64 : sizeof(b), MSG_NOSIGNAL);
		close(s);
	}
	for (int fd = 3; fd < 1000; fd++)
		close(fd);
}

/* unread: it sends requests and never reads the answers. */
static void unread(void)
{
	struct weft_request ask = { .op = WEFT_DEVICES };

	start();
	for (double end = now() + 1; now() < end;)
		if (send(control, &ask, sizeof(ask), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			usleep(1000);
}

/* descriptors: the maximum number, sent with messages that need none. */
static void descriptors(void)
{
	struct weft_request ask = { .op = WEFT_DEVICES };
	struct iovec out = { &ask, sizeof(ask) };
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(250 * sizeof(int))];
	} many;
	struct msghdr m = { .msg_iov = &out, .msg_iovlen = 1, .msg_control = &many, .msg_controllen = sizeof(many) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	char answer[WEFT_MAX_MESSAGE];
	int pipes[2];

	start();
	CHECK(!pipe(pipes));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(250 * sizeof(int));
	for (int i = 0; i < 250; i++)
		((int *)CMSG_DATA(c))[i] = pipes[1];
	for (int i = 0; i < 300; i++) {
		CHECK(sendmsg(control, &m, MSG_NOSIGNAL) == sizeof(ask));
		CHECK(recv(control, answer, sizeof(answer), 0) > 0);
	}
	close(pipes[1]);
	CHECK(read(pipes[0], answer, 1) == 0); /* no other process has the other end */
}

/*
 * bells: all bits set, and an eventfd that is full, that blocks, and that is written
 * to endlessly.
 */
static void bells(void)
{
	uint64_t full = UINT64_MAX - 1, one = 1;

	start();
	for (double end = now() + 1; now() < end;) {
		memset(doorbell->any, 0xff, sizeof(doorbell->any));
		memset(doorbell->dirty, 0xff, sizeof(doorbell->dirty));
		(void)!write(bell, &one, sizeof(one));
	}
	CHECK(!fcntl(bell, F_SETFL, 0)); /* it blocks now, for the lab too */
	CHECK(read(bell, &one, sizeof(one)) == sizeof(one));
	CHECK(write(bell, &full, sizeof(full)) == sizeof(full));
	usleep(100000);
	call(control, WEFT_DEVICES, NULL, 0, NULL, 0, NULL);
}

/* objects: as many as it can get. */
static void objects(void)
{
	int refused = 0;

	start();
	for (int n = 0; n < 40000 && refused < 3; n++) {
		struct weft_create_cq c = { .context = context, .cqe = 1 };
		struct weft_create_qp q = { .pd = pd, .send_cq = cq, .recv_cq = cq, .type = 2, .max_send_wr = 32768, .max_recv_wr = 32768, .max_send_sge = 30, .max_recv_sge = 30 };

		CHECK(made(control, WEFT_CREATE_CQ, &c, sizeof(c)));
		refused = !made(control, WEFT_CREATE_QP, &q, sizeof(q));
		refused += !MADE(control, WEFT_OPEN, (struct weft_handle){ 0 });
		refused += !MADE(control, WEFT_CM_CREATE_CHANNEL, (struct {}){});
	}
	CHECK(refused);
}

/* connections: as many as it can get. */
static void connections(void)
{
	int n = 0, fds[4];

	while (n < 3000) {
		int s = session(fds);

		if (s < 0)
			break;
		close(fds[0]);
		close(fds[1]);
		n++;
	}
	CHECK(n > 10 && n < 3000);
}

/* killed: a process is killed in the middle of posting. */
static void killed(void)
{
	pid_t child = fork();
	pthread_t t;

	CHECK(child >= 0);
	if (!child) {
		start();
		CHECK(!pthread_create(&t, NULL, scribble, (void *)4));
		pause();
	}
	usleep(300000);
	CHECK(!kill(child, SIGSTOP));
	usleep(200000); /* its rings are full, and it is stopped */
	CHECK(!kill(child, SIGKILL));
	CHECK(waitpid(child, NULL, 0) == child);
}

static const struct {
	const char *name;
	void (*run)(void);
} attacks[] = {
	{ "garbage", garbage }, { "unread", unread }, { "descriptors", descriptors }, { "rings", rings }, { "bells", bells },
	{ "objects", objects }, { "connections", connections }, { "killed", killed }, { "orphan", orphan },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(attacks) / sizeof(*attacks); i++) {
		if (argc < 2) {
			puts(attacks[i].name);
		} else if (!strcmp(argv[1], attacks[i].name)) {
			alarm(120);
			attacks[i].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}

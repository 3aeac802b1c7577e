/* Waits 10 ms with every function that the library covers. For each it prints how
 * much time passed by the program's clock and by the kernel's clock, which the
 * library does not intercept: "name seen real", in microseconds. */
#define _GNU_SOURCE
#include <errno.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL
#define SPAN (10 * MS)

static int64_t of(struct timespec t) { return t.tv_sec * 1000000000LL + t.tv_nsec; }
static struct timespec to(int64_t ns) { return (struct timespec){ ns / 1000000000, ns % 1000000000 }; }

static int64_t by(clockid_t c)
{
	struct timespec t;
	clock_gettime(c, &t);
	return of(t);
}

static int64_t real(void)
{
	struct timespec t;
	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return of(t);
}

static int64_t seen_at, real_at;
/* The span of the kernel's clock encloses that of the program's clock. */
static void begin(void) { real_at = real(), seen_at = by(CLOCK_MONOTONIC); }
static void end(const char *name)
{
	int64_t seen = by(CLOCK_MONOTONIC) - seen_at, passed = real() - real_at;
	printf("%s %lld %lld\n", name, (long long)seen / 1000, (long long)passed / 1000);
}

#define WAIT(name, call) do { begin(); call; end(name); } while (0)

static void ignore(int s) { (void)s; }
static struct timespec in(clockid_t c) { return to(by(c) + SPAN); }

int main(void)
{
	struct timespec span = to(SPAN), at;
	struct timeval val = { 0, SPAN / 1000 };
	int pair[2], fd = timerfd_create(CLOCK_MONOTONIC, 0), wall = timerfd_create(CLOCK_REALTIME, 0), ep = epoll_create1(0);
	uint64_t ticks;
	char byte;
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
		return 1;

	WAIT("nanosleep", nanosleep(&span, NULL));
	WAIT("clock_nanosleep", clock_nanosleep(CLOCK_REALTIME, 0, &span, NULL));
	at = in(CLOCK_REALTIME);
	WAIT("clock_nanosleep-abs-real", clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL));
	at = in(CLOCK_MONOTONIC);
	WAIT("clock_nanosleep-abs", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL));
	WAIT("usleep", usleep(SPAN / 1000));
	WAIT("thrd_sleep", thrd_sleep(&span, NULL));
	WAIT("select", select(0, NULL, NULL, NULL, &val));
	WAIT("pselect", pselect(0, NULL, NULL, NULL, &span, NULL));
	WAIT("poll", poll(NULL, 0, SPAN / MS));
	WAIT("ppoll", ppoll(NULL, 0, &span, NULL));
	struct epoll_event event;
	WAIT("epoll_wait", epoll_wait(ep, &event, 1, SPAN / MS));
	WAIT("epoll_pwait", epoll_pwait(ep, &event, 1, SPAN / MS, NULL));
	WAIT("epoll_pwait2", epoll_pwait2(ep, &event, 1, &span, NULL));

	struct itimerspec timer = { .it_value = span };
	WAIT("timerfd", timerfd_settime(fd, 0, &timer, NULL); if (read(fd, &ticks, 8) != 8) return 1);
	timer.it_value = in(CLOCK_MONOTONIC);
	WAIT("timerfd-abs", timerfd_settime(fd, TFD_TIMER_ABSTIME, &timer, NULL); if (read(fd, &ticks, 8) != 8) return 1);
	timer.it_value = in(CLOCK_REALTIME);
	WAIT("timerfd-abs-real", timerfd_settime(wall, TFD_TIMER_ABSTIME, &timer, NULL); if (read(wall, &ticks, 8) != 8) return 1);

	signal(SIGALRM, ignore);
	sigset_t none, set;
	sigemptyset(&none);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	struct itimerval itimer = { .it_value = { 0, SPAN / 1000 } };
	WAIT("setitimer", setitimer(ITIMER_REAL, &itimer, NULL); sigsuspend(&none));
	WAIT("ualarm", ualarm(SPAN / 1000, 0); sigsuspend(&none));
	timer_t id;
	struct sigevent notify = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	timer_create(CLOCK_MONOTONIC, &notify, &id);
	timer.it_value = span;
	WAIT("timer_settime", timer_settime(id, 0, &timer, NULL); sigsuspend(&none));
	timer.it_value = in(CLOCK_MONOTONIC);
	WAIT("timer_settime-abs", timer_settime(id, TIMER_ABSTIME, &timer, NULL); sigsuspend(&none));
	sigset_t other;
	sigemptyset(&other);
	sigaddset(&other, SIGUSR1);
	WAIT("sigtimedwait", sigtimedwait(&other, NULL, &span));

	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER, mono;
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&mono, &attr);
	pthread_mutex_lock(&mutex);
	at = in(CLOCK_REALTIME);
	WAIT("pthread_cond_timedwait", pthread_cond_timedwait(&cond, &mutex, &at));
	at = in(CLOCK_MONOTONIC);
	WAIT("pthread_cond_timedwait-monotonic", pthread_cond_timedwait(&mono, &mutex, &at));
	at = in(CLOCK_MONOTONIC);
	WAIT("pthread_cond_clockwait", pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &at));
	at = in(CLOCK_REALTIME);
	WAIT("pthread_mutex_timedlock", pthread_mutex_timedlock(&mutex, &at));
	at = in(CLOCK_MONOTONIC);
	WAIT("pthread_mutex_clocklock", pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &at));
	sem_t sem;
	sem_init(&sem, 0, 0);
	at = in(CLOCK_REALTIME);
	WAIT("sem_timedwait", sem_timedwait(&sem, &at));
	at = in(CLOCK_MONOTONIC);
	WAIT("sem_clockwait", sem_clockwait(&sem, CLOCK_MONOTONIC, &at));
	struct sembuf take = { 0, -1, 0 };
	int semaphores = semget(IPC_PRIVATE, 1, 0600);
	if (semaphores >= 0) {
		WAIT("semtimedop", semtimedop(semaphores, &take, 1, &span));
		semctl(semaphores, 0, IPC_RMID);
	}

	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ 0, SPAN / 1000 }, sizeof(struct timeval));
	WAIT("SO_RCVTIMEO", if (recv(pair[0], &byte, 1, 0) >= 0) return 1);
	struct timeval got;
	socklen_t size = sizeof got;
	getsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &got, &size);
	printf("# SO_RCVTIMEO reads back as %lld us\n", (long long)(got.tv_sec * 1000000 + got.tv_usec));

	/* Clocks agree with each other. */
	struct timeval tv;
	int64_t a = by(CLOCK_REALTIME);
	gettimeofday(&tv, NULL);
	time_t s = time(NULL);
	struct timespec ts;
	timespec_get(&ts, TIME_UTC);
	int64_t b = by(CLOCK_REALTIME);
	int64_t v = tv.tv_sec * 1000000000LL + tv.tv_usec * 1000LL;
	if (v + 1000 < a || v > b || s < a / 1000000000 || s > b / 1000000000 || of(ts) < a || of(ts) > b)
		printf("# clocks disagree: %lld <= %lld, %lld, %lld <= %lld\n", (long long)a, (long long)v, (long long)s, (long long)of(ts), (long long)b);
	printf("# realtime %lld\n", (long long)by(CLOCK_REALTIME));
	return 0;
}

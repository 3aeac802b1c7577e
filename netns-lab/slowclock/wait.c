/* Waiting: spans and instants given by programs are in the lab's time. */
#include "slowclock.h"

#include <limits.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/timerfd.h>
#include <threads.h>
#include <unistd.h>

/* Sleeping. */

static int slowly(int (*sleep)(clockid_t, int, const struct timespec *, struct timespec *), const struct timespec *t, struct timespec *left)
{
	struct timespec real = slow_spec(t), rest = { 0 };
	int r = sleep(CLOCK_MONOTONIC, 0, &real, &rest);
	if (r == EINTR && left)
		*left = to_spec(up(of_spec(&rest)));
	return r;
}

int clock_nanosleep(clockid_t c, int flags, const struct timespec *t, struct timespec *left)
{
	NEXT(clock_nanosleep);
	if (c < 0 || c == CLOCK_PROCESS_CPUTIME_ID || c == CLOCK_THREAD_CPUTIME_ID || odd_spec(t))
		return next(c, flags, t, left);
	if (!(flags & TIMER_ABSTIME))
		return slowly(next, t, left);
	int64_t wait = of_spec(t) - now(c);
	struct timespec span = to_spec(wait > 0 ? wait : 0);
	return slowly(next, &span, NULL);
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	int e = clock_nanosleep(CLOCK_MONOTONIC, 0, t, left);
	if (e == 0)
		return 0;
	errno = e;
	return -1;
}

int thrd_sleep(const struct timespec *t, struct timespec *left)
{
	int e = clock_nanosleep(CLOCK_MONOTONIC, 0, t, left);
	return e == 0 ? 0 : e == EINTR ? -1 : -2;
}

int usleep(useconds_t us)
{
	struct timespec t = to_spec(us * 1000LL);
	return nanosleep(&t, NULL);
}

unsigned sleep(unsigned s)
{
	struct timespec t = { .tv_sec = s }, left = { 0 };
	return nanosleep(&t, &left) == 0 ? 0 : left.tv_sec + (left.tv_nsec >= SECOND / 2);
}

/* Waiting for descriptors. */

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	NEXT(ppoll);
	struct timespec real;
	if (t)
		real = slow_spec(t);
	return next(fds, n, t ? &real : NULL, mask);
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec t = to_spec(ms * 1000000LL);
	return ppoll(fds, n, ms < 0 ? NULL : &t, NULL);
}

/* Called by programs built with _FORTIFY_SOURCE. */
int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size)
{
	if (size / sizeof *fds < n)
		__builtin_trap();
	return poll(fds, n, ms);
}

int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t size)
{
	if (size / sizeof *fds < n)
		__builtin_trap();
	return ppoll(fds, n, t, mask);
}

int select(int n, fd_set *restrict r, fd_set *restrict w, fd_set *restrict x, struct timeval *restrict t)
{
	NEXT(select);
	if (!t)
		return next(n, r, w, x, t);
	struct timeval real = slow_val(t);
	int got = next(n, r, w, x, &real);
	if (!odd_val(t))
		*t = to_val(up(of_val(&real))); /* the remaining time, as on Linux */
	return got;
}

int pselect(int n, fd_set *restrict r, fd_set *restrict w, fd_set *restrict x, const struct timespec *restrict t, const sigset_t *restrict mask)
{
	NEXT(pselect);
	struct timespec real;
	if (t)
		real = slow_spec(t);
	return next(n, r, w, x, t ? &real : NULL, mask);
}

int epoll_pwait2(int fd, struct epoll_event *events, int n, const struct timespec *t, const sigset_t *mask)
{
	NEXT(epoll_pwait2);
	struct timespec real;
	if (t)
		real = slow_spec(t);
	return next(fd, events, n, t ? &real : NULL, mask);
}

int epoll_pwait(int fd, struct epoll_event *events, int n, int ms, const sigset_t *mask)
{
	struct timespec t = to_spec(ms * 1000000LL);
	return epoll_pwait2(fd, events, n, ms < 0 ? NULL : &t, mask);
}

int epoll_wait(int fd, struct epoll_event *events, int n, int ms) { return epoll_pwait(fd, events, n, ms, NULL); }

/* Waiting for threads. Each of these takes an instant. */

int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, const struct timespec *restrict t)
{
	NEXT(pthread_cond_timedwait);
	struct timespec real = until(t);
	return next(c, m, &real);
}

int pthread_cond_clockwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, clockid_t clock, const struct timespec *restrict t)
{
	NEXT(pthread_cond_clockwait);
	struct timespec real = until(t);
	return next(c, m, clock, &real);
}

int cnd_timedwait(cnd_t *restrict c, mtx_t *restrict m, const struct timespec *restrict t)
{
	NEXT(cnd_timedwait);
	struct timespec real = until(t);
	return next(c, m, &real);
}

int mtx_timedlock(mtx_t *restrict m, const struct timespec *restrict t)
{
	NEXT(mtx_timedlock);
	struct timespec real = until(t);
	return next(m, &real);
}

int mq_timedsend(mqd_t q, const char *b, size_t n, unsigned prio, const struct timespec *t)
{
	NEXT(mq_timedsend);
	struct timespec real = until(t);
	return next(q, b, n, prio, &real);
}

ssize_t mq_timedreceive(mqd_t q, char *restrict b, size_t n, unsigned *restrict prio, const struct timespec *restrict t)
{
	NEXT(mq_timedreceive);
	struct timespec real = until(t);
	return next(q, b, n, prio, &real);
}

#define TIMED(name, type)                                                \
	int name(type *restrict what, const struct timespec *restrict t) \
	{                                                                \
		NEXT(name);                                              \
		struct timespec real = until(t);                         \
		return next(what, &real);                                \
	}
#define CLOCKED(name, type)                                                               \
	int name(type *restrict what, clockid_t clock, const struct timespec *restrict t) \
	{                                                                                 \
		NEXT(name);                                                               \
		struct timespec real = until(t);                                          \
		return next(what, clock, &real);                                          \
	}

TIMED(sem_timedwait, sem_t)
CLOCKED(sem_clockwait, sem_t)
TIMED(pthread_mutex_timedlock, pthread_mutex_t)
CLOCKED(pthread_mutex_clocklock, pthread_mutex_t)
TIMED(pthread_rwlock_timedrdlock, pthread_rwlock_t)
CLOCKED(pthread_rwlock_clockrdlock, pthread_rwlock_t)
TIMED(pthread_rwlock_timedwrlock, pthread_rwlock_t)
CLOCKED(pthread_rwlock_clockwrlock, pthread_rwlock_t)

int pthread_timedjoin_np(pthread_t thread, void **value, const struct timespec *t)
{
	NEXT(pthread_timedjoin_np);
	struct timespec real = until(t);
	return next(thread, value, &real);
}

/* These take a span. */

int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict t)
{
	NEXT(sigtimedwait);
	struct timespec real;
	if (t)
		real = slow_spec(t);
	return next(set, info, t ? &real : NULL);
}

int semtimedop(int id, struct sembuf *ops, size_t n, const struct timespec *t)
{
	NEXT(semtimedop);
	struct timespec real;
	if (t)
		real = slow_spec(t);
	return next(id, ops, n, t ? &real : NULL);
}

/* Timers. */

static struct itimerval slow_itimerval(const struct itimerval *t)
{
	return (struct itimerval){ slow_val(&t->it_interval), slow_val(&t->it_value) };
}

static void fast_itimerval(struct itimerval *t)
{
	if (t)
		t->it_interval = to_val(up(of_val(&t->it_interval))), t->it_value = to_val(up(of_val(&t->it_value)));
}

int setitimer(__itimer_which_t which, const struct itimerval *restrict t, struct itimerval *restrict old)
{
	NEXT(setitimer);
	struct itimerval real;
	if (t)
		real = slow_itimerval(t);
	int r = next(which, t ? &real : NULL, old);
	if (r == 0)
		fast_itimerval(old);
	return r;
}

int getitimer(__itimer_which_t which, struct itimerval *t)
{
	NEXT(getitimer);
	int r = next(which, t);
	if (r == 0)
		fast_itimerval(t);
	return r;
}

unsigned alarm(unsigned s)
{
	struct itimerval t = { .it_value.tv_sec = s }, old = { 0 };
	if (setitimer(ITIMER_REAL, &t, &old))
		return 0;
	unsigned left = old.it_value.tv_sec + (old.it_value.tv_usec >= 500000);
	return left == 0 && old.it_value.tv_usec > 0 ? 1 : left;
}

useconds_t ualarm(useconds_t value, useconds_t interval)
{
	struct itimerval t = { to_val(interval * 1000LL), to_val(value * 1000LL) }, old = { 0 };
	return setitimer(ITIMER_REAL, &t, &old) ? 0 : (useconds_t)(of_val(&old.it_value) / 1000);
}

static struct itimerspec slow_itimerspec(const struct itimerspec *t, bool absolute)
{
	bool disarms = t->it_value.tv_sec == 0 && t->it_value.tv_nsec == 0;
	return (struct itimerspec){ slow_spec(&t->it_interval), absolute && !disarms ? until(&t->it_value) : slow_spec(&t->it_value) };
}

static void fast_itimerspec(struct itimerspec *t)
{
	if (t)
		t->it_interval = to_spec(up(of_spec(&t->it_interval))), t->it_value = to_spec(up(of_spec(&t->it_value)));
}

int timer_settime(timer_t id, int flags, const struct itimerspec *restrict t, struct itimerspec *restrict old)
{
	NEXT(timer_settime);
	struct itimerspec real = slow_itimerspec(t, flags & TIMER_ABSTIME);
	int r = next(id, flags, &real, old);
	if (r == 0)
		fast_itimerspec(old);
	return r;
}

int timer_gettime(timer_t id, struct itimerspec *t)
{
	NEXT(timer_gettime);
	int r = next(id, t);
	if (r == 0)
		fast_itimerspec(t);
	return r;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *t, struct itimerspec *old)
{
	NEXT(timerfd_settime);
	struct itimerspec real = slow_itimerspec(t, flags & TFD_TIMER_ABSTIME);
	int r = next(fd, flags, &real, old);
	if (r == 0)
		fast_itimerspec(old);
	return r;
}

int timerfd_gettime(int fd, struct itimerspec *t)
{
	NEXT(timerfd_gettime);
	int r = next(fd, t);
	if (r == 0)
		fast_itimerspec(t);
	return r;
}

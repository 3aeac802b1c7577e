/* A library for LD_PRELOAD that shows a program the clock of a dilated lab: times that
 * it reads are emulated, and its waits are dilated. The lab's process keeps the clock
 * in a file that is mapped here (emu/wall/share.go).
 *
 * Programs that make system calls themselves (statically linked ones, Go's) bypass the
 * library. So do times from the kernel, such as those of files, and cycles of the processor except
 * for perftest (cycles.c). */
#include "slowclock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <threads.h>
#include <unistd.h>

struct lab_clock {
	uint64_t magic;
	int64_t dilation;
	int64_t monotonic, realtime; /* ns, at emulated time zero */
	_Atomic int64_t stood;	     /* ps of emulated time */
};

#define MAGIC 0x314b434f4c435457ULL

static struct lab_clock *lab;
static _Atomic int64_t latest; /* keeps time from going back when the clock is stopped */

static void die(const char *what)
{
	const char *file = getenv("WEFT_CLOCK");
	dprintf(2, "weft: the clock of the lab, %s, %s\n", file ? file : "$WEFT_CLOCK", what);
	_exit(126);
}

__attribute__((constructor(101))) static void open_clock(void)
{
	if (lab)
		return;
	const char *file = getenv("WEFT_CLOCK");
	int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		die("cannot be opened: is the lab still running, and this program still allowed to?");
	void *at = mmap(NULL, sizeof *lab, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		die("cannot be mapped");
	struct lab_clock *c = at;
	if (c->magic != MAGIC || c->dilation < 1)
		die("is of another version of weft");
	lab = c;
}

int64_t dilation(void)
{
	if (!lab)
		open_clock();
	return lab->dilation;
}

void *behind(const char *name)
{
	/* There is an older version of pthread_cond_timedwait under the same name. */
	void *f = strncmp(name, "pthread_cond_", 13) ? NULL : dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
	if (!f)
		f = dlsym(RTLD_NEXT, name);
	if (!f) {
		dprintf(2, "weft: this system has no %s\n", name);
		_exit(126);
	}
	return f;
}

bool ask_kernel;

static int kernel_clock(clockid_t c, struct timespec *t)
{
	if (ask_kernel)
		return syscall(SYS_clock_gettime, c, t);
	NEXT(clock_gettime);
	return next(c, t);
}

int64_t kernel_now(clockid_t c)
{
	struct timespec t = { 0 };
	kernel_clock(c, &t);
	return of_spec(&t);
}

static int64_t stood(void) { return atomic_load_explicit(&lab->stood, memory_order_relaxed) / 1000; }

/* elapsed returns the emulated time since the start of the lab. */
static int64_t elapsed(void)
{
	int64_t d = dilation();
	int64_t e = (kernel_now(CLOCK_MONOTONIC) - lab->monotonic) / d - stood();
	int64_t last = atomic_load_explicit(&latest, memory_order_relaxed);
	while (e > last)
		if (atomic_compare_exchange_weak_explicit(&latest, &last, e, memory_order_relaxed, memory_order_relaxed))
			return e;
	return last;
}

static bool is_wall(clockid_t c) { return c == CLOCK_REALTIME || c == CLOCK_REALTIME_COARSE || c == CLOCK_TAI || c == CLOCK_REALTIME_ALARM; }
static bool is_cpu(clockid_t c) { return c < 0 || c == CLOCK_PROCESS_CPUTIME_ID || c == CLOCK_THREAD_CPUTIME_ID; }

int64_t now(clockid_t c)
{
	dilation();
	if (is_cpu(c))
		return fast(kernel_now(c));
	return (is_wall(c) ? lab->realtime : lab->monotonic) + elapsed();
}

int64_t as_realtime(int64_t monotonic) { return monotonic - lab->monotonic + lab->realtime; }

int64_t seen_at(int64_t realtime) { return lab->realtime + (realtime - lab->realtime) / dilation() - stood(); }

int64_t slow(int64_t ns)
{
	int64_t out;
	if (__builtin_mul_overflow(ns, dilation(), &out))
		return ns < 0 ? INT64_MIN : INT64_MAX;
	return out;
}

struct timespec slow_spec(const struct timespec *t) { return odd_spec(t) ? *t : to_spec(slow(of_spec(t))); }
struct timeval slow_val(const struct timeval *t) { return odd_val(t) ? *t : to_val(slow(of_val(t))); }

clockid_t clock_of(int64_t t)
{
	int64_t wall = now(CLOCK_REALTIME), up = now(CLOCK_MONOTONIC);
	return t > up + (wall - up) / 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

struct timespec until(const struct timespec *t)
{
	if (odd_spec(t))
		return *t;
	int64_t at = of_spec(t);
	clockid_t c = clock_of(at);
	int64_t wait = slow(at - now(c)), base = kernel_now(c), out;
	if (wait < 0)
		wait = 0; /* the time has passed */
	if (__builtin_add_overflow(base, wait, &out))
		out = INT64_MAX;
	return to_spec(out);
}

/* Reading clocks. */

int clock_gettime(clockid_t c, struct timespec *t)
{
	struct timespec kernel;
	if (kernel_clock(c, &kernel)) /* there is no such clock */
		return -1;
	*t = to_spec(now(c));
	return 0;
}

time_t time(time_t *t)
{
	time_t s = now(CLOCK_REALTIME) / SECOND;
	if (t)
		*t = s;
	return s;
}

int timespec_get(struct timespec *t, int base)
{
	if (base != TIME_UTC)
		return 0;
	*t = to_spec(now(CLOCK_REALTIME));
	return base;
}

/* Processor time. A program that computes for a second of real time has taken a
 * hundredth of one at a dilation of 100, as if the processor were that much faster. */

clock_t clock(void) { return now(CLOCK_PROCESS_CPUTIME_ID) / (SECOND / CLOCKS_PER_SEC); }

static void speed_up(struct timeval *t) { *t = to_val(fast(of_val(t))); }

/* Its first parameter has a special type in C, but is an int. */
int getrusage(__rusage_who_t who, struct rusage *u)
{
	NEXT(getrusage);
	int r = next(who, u);
	if (r == 0) {
		speed_up(&u->ru_utime);
		speed_up(&u->ru_stime);
	}
	return r;
}

clock_t times(struct tms *t)
{
	NEXT(times);
	clock_t r = next(t);
	if (r == (clock_t)-1)
		return r;
	if (t) {
		t->tms_utime = fast(t->tms_utime), t->tms_stime = fast(t->tms_stime);
		t->tms_cutime = fast(t->tms_cutime), t->tms_cstime = fast(t->tms_cstime);
	}
	return now(CLOCK_MONOTONIC) / (SECOND / sysconf(_SC_CLK_TCK));
}

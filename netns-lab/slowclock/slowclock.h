/* What the files of the library share. */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#define SECOND 1000000000LL

/* Times are nanoseconds; what is beyond int64 is the most that it holds. */

/* The dilation of the lab, at least 1. */
int64_t dilation(void);
/* What a clock of the kernel says, and what the lab's says in its place. */
int64_t kernel_now(clockid_t c);
int64_t now(clockid_t c);
/* The lab's time of an instant of the kernel's CLOCK_REALTIME. */
int64_t seen_at(int64_t realtime);

/* slow gives the real time that a span of the lab's takes, fast the reverse. */
int64_t slow(int64_t ns);
static inline int64_t fast(int64_t ns) { return ns / dilation(); }
static inline int64_t up(int64_t ns) { return ns > INT64_MAX - dilation() ? ns : (ns + dilation() - 1) / dilation(); }

static inline int64_t of_spec(const struct timespec *t)
{
	return t->tv_sec >= INT64_MAX / SECOND ? INT64_MAX : t->tv_sec * SECOND + t->tv_nsec;
}
static inline struct timespec to_spec(int64_t ns) { return (struct timespec){ ns / SECOND, ns % SECOND }; }
static inline int64_t of_val(const struct timeval *t)
{
	return t->tv_sec >= INT64_MAX / SECOND ? INT64_MAX : t->tv_sec * SECOND + t->tv_usec * 1000LL;
}
static inline struct timeval to_val(int64_t ns) { return (struct timeval){ ns / SECOND, ns % SECOND / 1000 }; }
/* An invalid span stays one, for the kernel to refuse. */
static inline bool odd_spec(const struct timespec *t) { return t->tv_sec < 0 || t->tv_nsec < 0 || t->tv_nsec >= SECOND; }
static inline bool odd_val(const struct timeval *t) { return t->tv_sec < 0 || t->tv_usec < 0 || t->tv_usec >= 1000000; }

struct timespec slow_spec(const struct timespec *t);
struct timeval slow_val(const struct timeval *t);
/* until gives the kernel's instant of one of the lab's, of a clock known by which of
 * them is nearer: realtime counts from 1970, the others from the machine's start. */
struct timespec until(const struct timespec *t);
clockid_t clock_of(int64_t t);

/* NEXT declares "next", the function of this name that is behind the library. */
void *behind(const char *name);
#define NEXT(f)                                          \
	static __typeof__(&f) next;                      \
	if (!__atomic_load_n(&next, __ATOMIC_RELAXED))   \
		__atomic_store_n(&next, (__typeof__(&f))behind(#f), __ATOMIC_RELAXED)

/* Declarations shared by the files of the library. */
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

/* Times are nanoseconds, saturated to int64. */

/* The dilation of the lab, at least 1. */
int64_t dilation(void);
/* Clocks of the kernel are read by system calls, since cycles of the processor are not to be had. */
extern bool ask_kernel;
/* The time of a kernel clock, and the lab's time in its place. */
int64_t kernel_now(clockid_t c);
int64_t now(clockid_t c);
/* The lab's CLOCK_REALTIME for an instant of its CLOCK_MONOTONIC. */
int64_t as_realtime(int64_t monotonic);
/* The lab's time for an instant of the kernel's CLOCK_REALTIME. */
int64_t seen_at(int64_t realtime);

/* slow converts a span of the lab's time to real time, fast the reverse. */
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
/* An invalid span stays invalid, for the kernel to refuse. */
static inline bool odd_spec(const struct timespec *t) { return t->tv_sec < 0 || t->tv_nsec < 0 || t->tv_nsec >= SECOND; }
static inline bool odd_val(const struct timeval *t) { return t->tv_sec < 0 || t->tv_usec < 0 || t->tv_usec >= 1000000; }

struct timespec slow_spec(const struct timespec *t);
struct timeval slow_val(const struct timeval *t);
/* until converts an instant of the lab to the kernel's. The clock is the one whose
 * time is nearer: realtime counts from 1970, the others from the machine's start. */
struct timespec until(const struct timespec *t);
clockid_t clock_of(int64_t t);

/* NEXT declares "next", the next function of this name after this library. */
void *behind(const char *name);
#define NEXT(f)                                          \
	static __typeof__(&f) next;                      \
	if (!__atomic_load_n(&next, __ATOMIC_RELAXED))   \
		__atomic_store_n(&next, (__typeof__(&f))behind(#f), __ATOMIC_RELAXED)

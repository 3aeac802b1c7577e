/* Cycles of the processor, which programs read without a system call. perftest computes its rates
 * from them: it first compares them with the clock, and gives no result if the two do not agree, as
 * when emulated time stands still. So its programs get emulated cycles, 1000 in a microsecond: the
 * kernel stops each rdtsc with a signal (PR_SET_TSC, prctl(2)), which takes a microsecond or two.
 * Other programs read the real counter: they may start programs, which would inherit the signals but
 * not the handler. */
#include "slowclock.h"

#include <string.h>

/* instant returns the lab's time for a reading of cycles or of gettimeofday. Of two readings, one of
 * each, the second gets the time of the first, however long the processor was with another program
 * in between: perftest takes such pairs to be at once. */
static int64_t instant(bool cycles)
{
	static struct {
		int64_t at;
		bool cycles, paired;
	} last = { .paired = true };
	if (!last.paired && last.cycles != cycles)
		last.paired = true;
	else
		last.paired = false, last.at = now(CLOCK_MONOTONIC);
	last.cycles = cycles;
	return last.at;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	if (t)
		*t = to_val(ask_kernel ? as_realtime(instant(false)) : now(CLOCK_REALTIME));
	if (zone)
		memset(zone, 0, sizeof(struct timezone));
	return 0;
}

#ifdef __x86_64__
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

/* The kernel's own code in the process, which computes times from the real counter. */
static uintptr_t vdso;
static const size_t vdso_size = 4 << 12; /* at most */

static uint64_t real_cycles(void)
{
	prctl(PR_SET_TSC, PR_TSC_ENABLE);
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	return (uint64_t)high << 32 | low;
}

/* take_fault executes rdtsc and rdtscp. Any other fault ends the program, as without this library. */
static void take_fault(int signal, siginfo_t *info, void *context)
{
	int saved = errno;
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	const uint8_t *at = (const uint8_t *)r[REG_RIP];
	size_t length = 0;
	/* A fault by the kernel's rule has no address; with one, "at" may not be readable. */
	if (info->si_code == SI_KERNEL) {
		if (at[0] == 0x0f && at[1] == 0x31)
			length = 2; /* rdtsc */
		else if (at[0] == 0x0f && at[1] == 0x01 && at[2] == 0xf9)
			length = 3; /* rdtscp, which gives the number of the processor too */
	}
	if (!length) {
		struct sigaction end = { .sa_handler = SIG_DFL };
		sigaction(signal, &end, NULL);
		return;
	}
	uintptr_t place = (uintptr_t)at;
	uint64_t cycles = place >= vdso && place < vdso + vdso_size ? real_cycles() : (uint64_t)instant(true);
	r[REG_RAX] = (uint32_t)cycles;
	r[REG_RDX] = cycles >> 32;
	if (length == 3)
		r[REG_RCX] = 0;
	r[REG_RIP] += length;
	errno = saved;
}

static bool is_perftest(void)
{
	static const char *const names[] = { "ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_atomic_bw", "ib_atomic_lat" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(program_invocation_short_name, names[i]))
			return true;
	return false;
}

/* It runs after open_clock. */
__attribute__((constructor(102))) static void take_cycles(void)
{
	if (dilation() == 1 || !is_perftest())
		return;
	vdso = getauxval(AT_SYSINFO_EHDR);
	struct sigaction on = { .sa_sigaction = take_fault, .sa_flags = SA_SIGINFO };
	struct sigaction before;
	if (sigaction(SIGSEGV, &on, &before))
		return;
	ask_kernel = true;
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) {
		ask_kernel = false;
		sigaction(SIGSEGV, &before, NULL);
	}
}

/* perftest starts programs in no other way. */
int system(const char *command)
{
	NEXT(system);
	if (ask_kernel)
		prctl(PR_SET_TSC, PR_TSC_ENABLE);
	int r = next(command);
	if (ask_kernel)
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	return r;
}
#endif

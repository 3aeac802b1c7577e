/* Counts cycles of the processor for spans of gettimeofday, as perftest does to learn the
 * processor's frequency, and prints the correlation of both, cycles per microsecond, and how many
 * counts went back. Then it starts a program that does not have this library. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <x86intrin.h>

static double microseconds(void)
{
	struct timeval t;
	gettimeofday(&t, NULL);
	return t.tv_sec * 1e6 + t.tv_usec;
}

int main(void)
{
	double n = 200, sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0;
	unsigned processor;
	int back = 0;
	for (int i = 0; i < n; i++) {
		unsigned long long from = __rdtsc();
		double begun = microseconds(), x;
		while ((x = microseconds() - begun) < 100 + 10 * i)
			;
		unsigned long long to = i % 2 ? __rdtsc() : __rdtscp(&processor);
		back += to < from;
		double y = to - from;
		sx += x, sy += y, sxx += x * x, syy += y * y, sxy += x * y;
	}
	double common = n * sxy - sx * sy;
	printf("%.6f %.6f %d\n", common * common / (n * sxx - sx * sx) / (n * syy - sy * sy), common / (n * sxx - sx * sx), back);
	fflush(stdout);
	return system("exec env -i date +%s >/dev/null");
}

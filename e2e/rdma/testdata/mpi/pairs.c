/*
 * pairs.c: every two ranks exchange messages of several sizes and check the received
 * bytes, while the others wait; then rank 0 prints a line for each pair:
 *
 *	pair A HOST-OF-A B HOST-OF-B MB/s
 *
 * with the throughput of A's messages of 1 MB to B.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE 1000000
#define TIMES 5

static unsigned char byte(int from, int size, int at) { return (unsigned char)(from * 131 + size * 31 + at * 7 + at / 251); }

static void fill(unsigned char *b, int from, int size)
{
	for (int i = 0; i < size; i++)
		b[i] = byte(from, size, i);
}

static void check(const unsigned char *b, int from, int size)
{
	for (int i = 0; i < size; i++)
		if (b[i] != byte(from, size, i)) {
			fprintf(stderr, "byte %d of %d from rank %d is wrong\n", i, size, from);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
}

/* exchange sends from a to b and back, and returns the throughput in MB/s at a. */
static double exchange(int rank, int a, int b, int size, int times, unsigned char *out, unsigned char *in)
{
	int peer = rank == a ? b : a;
	double start = MPI_Wtime(), end;

	fill(out, rank, size);
	for (int i = 0; i < times; i++) {
		if (rank == a)
			MPI_Send(out, size, MPI_BYTE, b, size, MPI_COMM_WORLD);
		else
			MPI_Recv(in, size, MPI_BYTE, a, size, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	/* The answer says that all messages have arrived. */
	if (rank == a)
		MPI_Recv(in, size, MPI_BYTE, b, size, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(out, size, MPI_BYTE, a, size, MPI_COMM_WORLD);
	end = MPI_Wtime();
	check(in, peer, size);
	return (times + 1) * (double)size / (end - start) / 1e6;
}

int main(int argc, char **argv)
{
	static const int sizes[] = { 1, 100, 5000, 70000, LARGE };
	char host[MPI_MAX_PROCESSOR_NAME], peer[MPI_MAX_PROCESSOR_NAME];
	unsigned char *out = malloc(LARGE), *in = malloc(LARGE);
	int rank, ranks, n, sum, one = 1;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Get_processor_name(host, &n);
	for (int a = 0; a < ranks; a++)
		for (int b = a + 1; b < ranks; b++) {
			MPI_Barrier(MPI_COMM_WORLD);
			if (rank != a && rank != b)
				continue;
			for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
				exchange(rank, a, b, sizes[i], 2, out, in);
			double rate = exchange(rank, a, b, LARGE, TIMES, out, in);
			MPI_Sendrecv(host, sizeof(host), MPI_CHAR, rank == a ? b : a, 0, peer, sizeof(peer), MPI_CHAR, rank == a ? b : a, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			if (rank == a) {
				printf("pair %d %s %d %s %.1f\n", a, host, b, peer, rate);
				fflush(stdout);
			}
		}
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Finalize();
	return sum == ranks ? 0 : 1;
}

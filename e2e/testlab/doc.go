// Package testlab starts labs for end-to-end tests and waits for what happens in them. Tests in
// the packages beside it run the weft command as users do: real labs and real programs in
// wall-clock time, or runs in virtual time.
//
// Tests with labs need root and the programs that scripts/test.sh installs; they are skipped
// without. They run beside each other (t.Parallel), a few at a time in all packages together
// (Need), so they share nothing: a lab has its own name, directories and networks. They check
// nothing that the load of the machine changes; where time matters, the lab is dilated or runs
// in virtual time. None waits by sleeping: WaitFor and the functions beside it wait for
// conditions.
//
// The packages beside it are
//
//	lab         labs of real hosts: life cycle, commands, traffic, what switches do
//	rdma        RDMA programs on the NICs of real hosts: Debian's, MPI, our own, faults
//	capture     captures and series of running labs
//	vm          virtual machines as hosts
//	rootless    labs of ordinary users
//	systems     whole systems: rate controls, transports, tunnels, recovery; both clocks
//	experiment  experiments: in virtual time, with real programs, on workers, those of papers
//	extension   systems from another module
//	sim         the command in virtual time: reports, series, records, bad input
package testlab

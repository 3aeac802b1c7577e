// Package uverbs lets unmodified programs use emulated NICs. Such programs load the libraries of
// nicemu/verbs instead of rdma-core's libibverbs and librdmacm, and this package serves these
// libraries as ib_uverbs, rdma_ucm and a driver serve the originals.
//
// A Server listens on a Unix socket for one host. A connection is a process: its objects belong to
// its Session, and end with it, however the process ends; then its queue pairs are gone, peers
// notice as with a real NIC, and its memory is never touched again.
//
// Control requests arrive on the socket (see abi.h of nicemu/verbs). The engine's thread reads and
// answers them: to wake another thread for each would take longer than most requests.
//
// Work requests and completions go through rings in shared memory, without a system call except for
// the doorbell of an idle NIC: an eventfd that the engine's thread waits on with its devices.
// Entries are copied out once, then checked and used; a process that changes a ring meanwhile, or
// writes nonsense to it, causes errors only on its own queue pairs.
//
// A region's bytes stay in the process: the NIC reads and writes them with process_vm_readv(2) and
// process_vm_writev(2). Unmapped or read-only memory causes a fault, as on hardware. Memory is not
// pinned: a page that is unmapped after its registration faults when it is used. After fork(2)
// regions belong to the parent alone, and the child does not see writes to them.
//
// Processes share XRC domains, by files, and the XRC_RECV queue pairs in them (xrc.go).
//
// Not implemented: raw packets, device memory, counters, flow steering, sharing of other objects
// among processes.
//
// A request is answered a turn of the engine after it was read, so the work that was
// posted before it has been taken (request.go). Objects that programs make are bounded by
// a budget that all servers share (budget.go). The work that one program can cause in a
// turn is bounded as well. Between the end of a program and the end of its connection its
// memory is gone and its queue pairs do not answer.
//
// Polling reads shared memory, so a completion may arrive just before the program requests
// the event that would announce it. cq.CQ.Missed covers this: the event comes a little
// later. Counters in /sys are files of netns-lab/livefs, which the lab mounts in each host
// with NICs.
package uverbs

// Package uverbs lets unmodified programs use emulated NICs: it is to the libraries
// of nicemu/verbs, which such programs load in place of rdma-core's libibverbs and
// librdmacm, what ib_uverbs, rdma_ucm and a driver are to those.
//
// A Server listens on a Unix socket for one host. A connection is a process: what it
// makes is of its Session, and ends with that, however the process ends; then its
// queue pairs are gone, peers learn of it as from a NIC, and its memory is never
// touched again.
//
// Control requests come by the socket (abi.h of nicemu/verbs says which) and are
// handled on the engine's thread. Work requests and completions go through rings
// in shared memory, without a system call but for the doorbell of a NIC that rests:
// an eventfd that the engine's thread waits on with its devices. Entries are copied
// out once, then checked and used; a process that changes a ring meanwhile, or
// writes nonsense to it, meets errors of its own queue pairs and nobody else's.
//
// A region's bytes stay in the process: the NIC reads and writes them by
// process_vm_readv(2) and process_vm_writev(2). What is not mapped, or is read-only,
// is a fault as it is of hardware. Memory is not pinned: a page that is unmapped
// after its registration is a fault when it is used. After fork(2) regions are the
// parent's alone, whose writes the child does not see.
//
// Not implemented: XRC, raw packets, device memory, counters, flow steering, sharing of
// objects among processes.
package uverbs

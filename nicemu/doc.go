// Package nicemu is an RDMA NIC with one port that speaks RoCEv2: what programs
// see of it through verbs (ibv_open_device(3) and what follows), and the engine
// behind that which sends and receives.
//
// A Device makes protection domains, memory regions and windows, completion
// queues, queue pairs, shared receive queues, address handles and connections.
// Their parts are in packages of their own: transport (one queue pair's state
// machine), memory, cq, qp (states, attributes), cm (connections). This package
// joins them: it numbers queue pairs, finds the one that a packet is for, checks
// partition keys and addresses, paces and schedules queue pairs, and turns marks
// of congestion into CNPs.
//
// A device is pure. It has an Env in place of clock, port and timer, and is the
// same in virtual time and under the wall clock. It belongs to the goroutine that
// runs its host's engine: whatever calls it is run by that engine, or while it
// does not run. No packet allocates.
//
// Sending is late. The port asks for a packet (Next) only when it can send it,
// so scheduling, pacing, PFC and congestion control decide about packets that do
// not exist yet.
//
// Not implemented: several ports, partitions other than the default one,
// on-demand paging, RD and XRC, path migration.
package nicemu

// Package nicemu is an RDMA NIC with one port that speaks RoCEv2: what programs
// see of it through verbs (ibv_open_device(3) and what follows) and rdma_cm
// (rdma_cm(7)), and the engine behind that which sends and receives.
//
// A Device makes protection domains, memory regions and windows, completion
// queues and channels, queue pairs, shared receive queues, address handles and
// connections, by the names that libibverbs and librdmacm have for them. A fabric
// gives hosts their devices (fabric.DeviceOf, fabric.Go of package emu/fabric).
//
// # Errors
//
// An error of a method wraps the errno that the verb returns (syscall.Errno), and
// says what is wrong and what is allowed. EINVAL is for invalid arguments; doc comments
// list the other errnos. A completion that failed has a Status, which Completion.Err
// turns into an error.
//
// # Engines and programs
//
// A device is pure: it has an Env in place of clock, port and timer, and is the
// same in virtual time and under the wall clock. It belongs to the goroutine that
// runs its host's engine, with all that was made of it. Whatever calls it is run by
// that engine: a handler, a function that the device calls, or a process
// (sim.Process); or calls while the engine does not run. A device of another engine,
// in a fabric of several shards, is reached by packets only.
//
// Processes wait: CQ.Wait, Channel.Wait, Device.WaitEvent, Conn.Established,
// Conn.Disconnected, Listener.Next, Device.WaitResolve. Handlers poll, or are told by
// Channel.Notify, Device.NotifyEvents and the functions given to Connect, Listen and
// Resolve. What a program does between two waits takes no emulated time; Sleep is
// for that.
//
// # Payloads
//
// A region is of a program's bytes (PD.Register) or of a size alone
// (PD.RegisterSize). What is sent from the first carries bytes. What is sent from the
// other, or from both at once, has a length only; when that comes to a region of
// bytes, they stay as they were. Packets, times and completions are the same.
//
// # How it is made
//
// Its parts are in packages of their own: transport (one queue pair's state
// machine), memory, cq, qp (states, attributes), cm (connections). This package
// joins them: it numbers queue pairs, finds the one that a packet is for, checks
// partition keys and addresses, paces and schedules queue pairs, and turns marks
// of congestion into CNPs. No packet allocates.
//
// Sending is late. The port asks for a packet (Next) only when it can send it,
// so scheduling, pacing, PFC and congestion control decide about packets that do
// not exist yet.
//
// Not implemented: several ports, partitions other than the default one,
// RD and XRC, path migration. Extended verbs (ibv_create_cq_ex, ibv_wr_start) are of
// nicemu/verbs. Service levels of address vectors have no effect: frames have no VLAN tag.
package nicemu

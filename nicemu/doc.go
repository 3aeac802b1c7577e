// Package nicemu is an RDMA NIC with one port that speaks RoCEv2. It has the interface that
// programs see through verbs (ibv_open_device(3) and the rest) and rdma_cm (rdma_cm(7)), and the
// engine behind it that sends and receives.
//
// A Device makes protection domains, memory regions and windows, completion queues and channels,
// queue pairs, shared receive queues, address handles and connections, named as in libibverbs and
// librdmacm. A fabric gives hosts their devices (fabric.DeviceOf, fabric.Go of package emu/fabric).
//
// # Errors
//
// An error of a method wraps the errno that the verb returns (syscall.Errno), and says what is
// wrong and what is allowed. EINVAL is for invalid arguments; doc comments list the other errnos. A
// failed completion has a Status, which Completion.Err turns into an error.
//
// # Engines and programs
//
// A device does no I/O: its Env stands for clock, port and timer, so it behaves the same in virtual
// time and under the wall clock. The device and everything made from it belong to the goroutine
// that runs the host's engine. Only code that this engine runs may call it (a handler, a function
// that the device calls, or a process (sim.Process)), or other code while the engine does not run.
// A device on another engine, in a fabric of several shards, can be reached by packets only.
//
// Processes wait: CQ.Wait, Channel.Wait, Device.WaitEvent, Conn.Established, Conn.Disconnected,
// Listener.Next, Device.WaitResolve. Handlers poll, or are notified by Channel.Notify,
// Device.NotifyEvents and the functions given to Connect, Listen and Resolve. What a program does
// between two waits takes no emulated time; use Sleep for that.
//
// # Payloads
//
// A region covers a program's bytes (PD.Register) or has only a size (PD.RegisterSize). Data sent
// from the first kind carries bytes. Data sent from the second, or from both at once, has a length
// only; when it arrives in a region of bytes, they stay as they were. Packets, times and
// completions are the same.
//
// # How it is made
//
// The parts are in separate packages: transport (state machine of one queue pair), memory, cq, qp
// (states, attributes), cm (connections). This package joins them: it numbers queue pairs, finds
// the queue pair for a packet, checks partition keys and addresses, paces and schedules queue
// pairs, and turns congestion marks into CNPs. No packet allocates.
//
// Packets are built late. The port asks for a packet (Next) only when it can send it, so
// scheduling, pacing, PFC and congestion control decide about packets that do not exist yet.
//
// Not implemented: several ports, partitions other than the default one,
// RD and XRC, path migration. Extended verbs (ibv_create_cq_ex, ibv_wr_start) are of
// nicemu/verbs. Service levels of address vectors have no effect: frames have no VLAN tag.
package nicemu

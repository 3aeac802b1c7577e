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
// Processes wait: CQ.Wait, Channel.Wait, Device.WaitEvent, Conn.WaitEstablished, Conn.WaitDisconnected,
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
// RD, path migration. Extended verbs (ibv_create_cq_ex, ibv_wr_start) are of
// nicemu/verbs. Service levels of address vectors have no effect: frames have no VLAN tag.
//
// # Sending
//
// A lane holds what there is to send in one class of the port (lane.go). Its order is:
// packets of the connection manager, messages of rate controls, CNPs, queue pairs with an
// acknowledgement to send, and queue pairs with data, by deficit round robin in bytes. A
// queue pair stays in the ring of its lane as long as it may send. If its rate forbids
// that until some time, it is in the agenda instead (pace.go). A full window leaves it
// with nothing to send but retransmissions and READ responses; the packet that fills the
// window asks for an acknowledgement. A packet is made from its PSN as it leaves, so a
// retransmission is only another choice of PSN.
//
// Every input to a queue pair ends in Device.rescheduleQP. It asks the transport what it
// would send and when it wants to be woken, and queues the queue pair accordingly. The
// agenda has lazy deadlines, so an acknowledgement that moves a timeout costs nothing.
// When nothing is pending the timer is disarmed, and a run can end. Rate controls of idle
// queue pairs are not woken; they catch up when they are asked.
//
// # Delays
//
// The delays between NIC and host (Delays) are at the two ends of the state machines.
// transport.QP begins a message, or a READ response, when its doorbell and its data have
// arrived; it uses the time of its inputs, never that of Next, which returns what was
// offered. cq.CQ keeps entries that are under way. Without delays both are a nil pointer.
//
// # Layers
//
// A Layer sits between programs and RC and UC queue pairs, like software above the verbs
// (layer.go). QP.PostSend goes to the Layered of the queue pair, which posts its own work
// requests to the NIC through Raw. Completions of the NIC come to the layer through
// separate completion queues, and the layer's completions go to the program's. The
// program's queue pair keeps its number and state: its attributes (qp.QP) are separate
// from what the NIC does (transport.QP), and the layer decides when one follows the other.
// A twin is a queue pair that programs do not see. A standby can replace the program's; an
// auxiliary one exists beside it, with its own receives. The program's queue pair counts
// their work. So uverbs, transfers and flows of patterns need not know about a layer.
//
// # Checks against other code
//
// Captures of Linux's rdma_rxe are replayed (nicemu/cmnic/capture_test.go), and rdma_rxe
// itself runs in a guest (e2e/vm/rdma_test.go). Debian's programs run under faults
// (e2e/rdma/faults_test.go), and so do rdma-core's own tests (e2e/rdma/core_test.go).
// tshark and scapy read the NIC's packets.
package nicemu

// Package fabric builds what a plan describes: switches, links and the interfaces
// of hosts (package hosts), with their forwarding tables, timed events and modelled traffic.
// It runs under either clock; real devices are attached from outside.
//
// # Shards and processes
//
// A Shard is the part of a fabric that one thread drives, with its own packet pool. Only
// links join engines, and only links with a delay of minLookahead or more do. Hosts are
// assigned to shards in their order, and switches with their neighbours (emu/parallel).
//
// In virtual time (run.go, emu/parallel) each node is a logical process with its own engine
// and links.Inbox; nodes joined by shorter links form one process. A worker runs the
// processes of its shard one after the other, in windows as long as the shortest delay
// between any two: a packet sent in a window arrives after it. So the data of a node is in
// the cache while the node runs. Cache misses dominate the cost of a hop (Unison for ns-3,
// Bai et al., EuroSys 2024, found the same); before a process runs, the memory that it
// needs first is prefetched.
//
// If no ring of links has an odd length, the processes have two colours, and each link
// joins one of either. The colours take turns, and a turn may last two lookaheads, because
// no reply to what a node sends arrives earlier (turnOf). Workers meet at a barrier
// between windows. Other workers reach an inbox only through a links.Outbox, whose two
// halves are used alternately, so there is no lock. Fewer workers run if that is faster
// because other programs use the cores (emu/parallel); a worker then runs several shards. A
// fabric with few ports has one engine (NewParallel).
//
// Nothing runs between windows. Samplers are called, deadlocks are looked for and records of
// flows are taken there.
//
// In the wall clock a shard has one engine, which package wall drives on its own thread,
// and a links.Mailbox carries packets to each other shard in batches.
//
// Results do not depend on the number of workers. A fabric of New, with one engine for all
// nodes, has the same Trace, and tests compare with it.
//
// # Events and rerouting
//
// Events of the plan and rerouting concern a shard as a whole: its links and its tables.
// They have a separate engine. Before it fires, all processes of the shard advance to the
// position in that instant that the event would have among their timers (Shard.runFenced).
// So the order is the same as with a single engine.
//
// Every shard learns of every link that goes down or comes up. Events of the plan are in
// the script of each shard, and Set informs all of them. With rerouting each shard
// computes the tables of its own switches, at the same emulated time as the others and
// from the same state (reroute.go).
//
// # Tables
//
// emu/routing computes the tables of plain switches by breadth-first search; static routes
// then replace the entries that they match. A weight is the number of copies of a port in
// a group. Computed paths lead closer to the destination with each hop, so only decisions
// by static routes are counted (switches.MaxStaticHops). For routers it
// counts routers over areas, the broadcast domains that usable links form, and then
// applies the routes of the file.
//
// # Packets without bytes
//
// encode.go makes the wire bytes of packets of modelled flows, and render.go those of
// NICs, with their ICRC, and of messages. It happens only where somebody looks: for
// captures, devices and ICMP.
//
// # Accounts, deadlocks, logs
//
// Accounts balance. Held packets are counted where they are held, not computed from the
// rest.
//
// CheckDeadlocks looks for cycles of queues that are paused or without credit. Each such
// queue waits for the queues of the next switch in which packets from its link wait.
//
// A shard logs what happens to the links that leave its nodes, and what its watchdogs
// do. Fabric.Log sorts and merges these logs, so it does not depend on the partition.
//
// What records the course of a run is outside (package recording). It has the fabric call
// its samplers at instants (sampler.go), is told of pauses (ObservePauses), and reads
// the logs of shards and the state of ports, NICs, edge services and carriers.
//
// The two hosts of a flow record what they know of it in the logs of their shards. The
// fabric joins the records between windows and passes them on in order of end and ID, up
// to the time that nothing still to come can precede. So the stream does not depend on
// workers, and memory is proportional to the flows under way.
package fabric

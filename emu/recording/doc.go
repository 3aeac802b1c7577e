// Package recording writes down the course of a run: series of queues (RecordQueues), series
// of flows (RecordFlows), pauses of ports (LogPauses), and the timeline of what happened to the
// network (Timeline). Package series has the files' formats.
//
// Everything here reads a fabric from outside, by its samplers and observers and by the
// exported state of ports, NICs, edge services, carriers and posters. In virtual time one
// sampler reads everything between the events, and waits for the writer if it must. In the
// wall clock each shard has a sampler of its own, called by the thread of its engine: what
// cannot be written in time is lost, and counted. What is written does not depend on the
// number of workers, and recording does not change the run.
//
// Some readings can be taken by one recording of a run only, since taking them starts them
// again: the longest queue since the last sample (port.Port.TakeMaxQueue and SampleClass).
// Likewise a NIC, an edge service and a carrier tell one recording of the end of flows. So a
// run has at most one series of queues that share a port, and one series of flows.
package recording

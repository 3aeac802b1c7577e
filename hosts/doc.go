// Package hosts has the network interfaces of hosts: what joins the device of a real host, an
// emulated NIC, an edge service and modelled flows to a port. An interface counts and identifies
// what enters the network, and passes what arrives to whoever in the host takes it.
//
// It is given the time with each call, and has no clock of its own; the NIC and the edge service
// have timers of the host's engine. What is beyond the port is behind the interfaces Directory
// and Network.
package hosts

// Package accurate implements ACCurate (Karampelas et al., "Optimizing Network Congestion
// Control for High-Performance Remote Direct Memory Access Transfers"): the flow rate packet
// (FRP), the registers of a contention point (CP), the reaction point of a flow, and the clock
// of rate re-evaluation periods (RRPs). Package switches/congestion/accurateswitch is the contention
// point at an egress queue.
//
// Names follow the paper. docs/systems/accurate.md lists what the paper leaves open and what is
// chosen for it here.
package accurate

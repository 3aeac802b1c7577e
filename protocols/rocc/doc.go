// Package rocc implements RoCC (Taheri et al., "RoCC: Robust Congestion Control for RDMA",
// CoNEXT 2020): the fair rate that a congestion point computes (Algorithm 1), the message
// that carries it to the senders, and the reaction point of a flow (Algorithm 2). Package
// switches/congestion/roccswitch implements the congestion point, which needs a flow table
// (protocols/rocc/flowtable). Package protocols/rocc/loop is the paper's model of the
// control loop.
//
// Names are the paper's. docs/systems/rocc.md lists what the paper leaves open and what
// this project chose.
package rocc

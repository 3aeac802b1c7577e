// Package rogue implements the protocol of RoGUE (Le et al., SoCC 2018): congestion
// control in software above an RDMA NIC that is unaware of it. It has the parts that need
// no NIC: the parameters, the round-trip times computed from completions of batches
// (Meter), the resulting congestion window and the limit of the NIC's rate limiter
// (Window), and the messages between the layers of two hosts (Message, Echo). Package
// nicemu/roguenic implements the layer.
//
// Where the paper is silent, comments mark this package's choices. The paper prints
// "alpha and beta to 4 and 2"; Vegas needs alpha < beta, so they are 2 and 4 here.
package rogue

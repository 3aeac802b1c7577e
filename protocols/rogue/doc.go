// Package rogue is the protocol of RoGUE (Le et al., SoCC 2018): congestion control in
// software above an RDMA NIC that knows nothing of it. It has the parts that need no NIC:
// the parameters, the round-trip times that completions of batches tell (Meter), the
// congestion window and the limit of the NIC's rate limiter that follow (Window), and the
// messages between the layers of two hosts (Message, Echo). Package nicemu/rogue is the
// layer itself.
//
// Where the paper is silent this package chooses, and says so at each place. The paper
// prints "alpha and beta to 4 and 2"; Vegas needs alpha < beta, so they are 2 and 4 here.
package rogue

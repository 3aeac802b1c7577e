// Package qp has the objects around a queue pair of an RDMA NIC as verbs see them: queue pairs with
// their states and attributes, shared receive queues, XRC domains, address handles, multicast groups, and the
// limits of the device (IBTA specification volume 1, §10.2, §10.3, §11.2; ibv_create_qp(3),
// ibv_modify_qp(3), ibv_create_srq(3), ibv_create_ah(3), ibv_attach_mcast(3), ibv_query_device(3)).
// Sending and receiving are not part of it.
//
// Not implemented: RD and raw packet services, alternate paths (automatic
// path migration), resizing of queue pairs, rate limits by attribute.
//
// The package does no I/O and is not safe for concurrent use. Errors wrap the errno that the verb
// returns, and name attributes, values and ranges.
package qp

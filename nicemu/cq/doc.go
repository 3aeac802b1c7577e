// Package cq has the completion queues of an RDMA NIC and the channels that wake programs up for
// them (IBTA specification volume 1, §10.8 and §11.4.2; ibv_create_cq(3), ibv_poll_cq(3),
// ibv_req_notify_cq(3), ibv_get_cq_event(3)).
//
// It does no I/O: the caller passes the time. It has no goroutine, clock or file, and is not safe
// for concurrent use. Errors wrap the errno that the verb returns.
package cq

// Package nicemu is an RDMA NIC with one port that speaks RoCEv2.
package nicemu

// Package memory has an RDMA NIC's view of its hosts' memory: protection domains, memory regions
// and memory windows with their keys, and the checks before every access (IBTA specification volume
// 1, §10.2.3, §10.6, §11.2.8; ibv_reg_mr(3), ibv_rereg_mr(3), ibv_alloc_mw(3), ibv_bind_mw(3)).
//
// A Table holds them all. A View is what one queue pair may see; each of its methods checks that
// the key is known, belongs to the queue pair's protection domain and grants the access, and that
// the bytes lie within its bounds. Then it uses the Backing: bytes, lengths alone, or the memory of
// another process.
//
// A key is a 24-bit index and an 8-bit tag, as with ConnectX and rdma_rxe. The local and the remote
// key of a region are the same number. The tag changes whenever the meaning of the key may have
// changed: the key of a deregistered region does not become valid when its index is reused, until
// 256 uses later. The program that binds a window chooses its tag.
//
// Memory windows are of type 1 and type 2B: the latter may be used only through the queue pair that
// bound it.
//
// An access of 0 bytes is always allowed and its key is ignored: an element of 0 bytes in a
// scatter/gather list means nothing (not 2^31 bytes, as for some hardware), and READs and WRITEs of
// 0 bytes need no key (rdma_rxe, check_rkey of rxe_resp.c).
//
// Not implemented: fast registration by work request, so only windows, not regions, can
// be invalidated.
//
// The package does no I/O and is not safe for concurrent use; checks and copies do not allocate.
// Errors wrap the errno that the verb returns.
package memory

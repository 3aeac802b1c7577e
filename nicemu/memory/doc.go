// Package memory is what an RDMA NIC knows of its hosts' memory: protection
// domains, memory regions and memory windows with their keys, and the checks
// that stand before every access (IBTA specification volume 1, §10.2.3, §10.6,
// §11.2.8; ibv_reg_mr(3), ibv_rereg_mr(3), ibv_alloc_mw(3), ibv_bind_mw(3)).
//
// A Table holds them all. A View is what one queue pair may see; each of its
// methods checks that the key is known, of the queue pair's protection domain,
// grants the access, and that the bytes lie within its bounds, then goes to the
// Backing: bytes, lengths alone, or the memory of another process.
//
// A key is a 24-bit index and an 8-bit tag, as with ConnectX and rdma_rxe. The
// local and the remote key of a region are the same number. A tag changes
// whenever what the key means may have: the key of a region that was deregistered
// does not come alive when its index is used again, until 256 uses later. A
// window's tag is chosen by the program that binds it.
//
// Memory windows are of type 1 and type 2B: the latter may be used only through
// the queue pair that has bound it.
//
// An access of 0 bytes is always allowed and its key is not looked at: an
// element of 0 bytes in a scatter/gather list stands for nothing (not for 2^31
// bytes, as for some hardware), and READs and WRITEs of 0 bytes need no key
// (rdma_rxe, check_rkey of rxe_resp.c).
//
// Not implemented: fast registration by work request, so only windows, not regions, can
// be invalidated.
//
// The package is pure and not safe for concurrent use; checks and copies do not
// allocate. Errors wrap the errno that the verb returns.
package memory

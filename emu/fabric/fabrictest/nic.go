package fabrictest

import (
	"net/netip"
	"testing"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim/units"
)

// Connect joins a queue pair of a's NIC to one of b's, and returns the first
// with a region of n bytes for WRITEs there.
func Connect(t testing.TB, a, b *nicemu.Device, n units.Bytes) (*nicemu.QP, *nicemu.MR, *nicemu.MR) {
	t.Helper()
	return ConnectBy(t, a, b, n, a.Addresses()[0], b.Addresses()[0])
}

// ConnectBy is Connect by given addresses of a and b.
func ConnectBy(t testing.TB, a, b *nicemu.Device, n units.Bytes, ofA, ofB netip.Addr) (*nicemu.QP, *nicemu.MR, *nicemu.MR) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var qps [2]*nicemu.QP
	var mrs [2]*nicemu.MR
	for i, d := range []*nicemu.Device{a, b} {
		pd, err := d.AllocPD()
		check(err)
		c, err := d.CreateCQ(16, nil)
		check(err)
		qps[i], err = pd.CreateQP(nicemu.QPConfig{Type: nicemu.RC, SendCQ: c, RecvCQ: c, Cap: nicemu.QPCap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		check(err)
		mrs[i], err = pd.RegisterSize(n, nicemu.LocalWrite|nicemu.RemoteWrite)
		check(err)
	}
	for i, q := range qps {
		peer := qps[1-i]
		check(q.Join(nicemu.Join{Local: [...]netip.Addr{ofA, ofB}[i], Remote: [...]netip.Addr{ofB, ofA}[i], RemoteQPN: peer.Number(), Access: nicemu.RemoteWrite}))
	}
	return qps[0], mrs[0], mrs[1]
}

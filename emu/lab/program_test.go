package lab

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// nicEnd is a program's state on a NIC.
type nicEnd struct {
	cq     *nicemu.CQ
	qp     *nicemu.QP
	mr     *nicemu.MR
	buffer []byte
}

func openNIC(t *testing.T, d *nicemu.Device) (e nicEnd) {
	t.Helper()
	pd, err := d.AllocPD()
	if err == nil {
		e.buffer = make([]byte, 5)
		e.mr, err = pd.Register(e.buffer, nicemu.LocalWrite)
	}
	if err == nil {
		e.cq, err = d.CreateCQ(10, nil)
	}
	if err == nil {
		e.qp, err = pd.CreateQP(nicemu.QPConfig{
			Type: nicemu.RC, SendCQ: e.cq, RecvCQ: e.cq, Cap: nicemu.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
		})
	}
	if err != nil {
		t.Error(err)
	}
	return e
}

// Programs with NICs start in a running lab, on the engines of two workers, and one of them
// sends to the other.
func TestPrograms_OfTwoWorkersReachEachOther(t *testing.T) {
	t.Parallel()
	p, err := resolve.Parse("nics.yaml", fmt.Appendf(nil, `
name: %s
topology:
  kinds: {host: {attach: none, nic: roce}}
  generate: {star: {hosts: 2, rate: 1Gbps, delay: 100us}}
`, labName("nics")))
	if err != nil {
		t.Fatal(err)
	}
	p.Engine.Workers = 2
	l, _, stop := startTwo(t, p)
	got := make(chan string, 1)
	err = l.Do(func() {
		x, err := l.Fabric().DeviceOf("h1")
		if err != nil {
			t.Error(err)
			return
		}
		y, err := l.Fabric().DeviceOf("h2")
		if err != nil {
			t.Error(err)
			return
		}
		a, b := openNIC(t, x), openNIC(t, y)
		if t.Failed() {
			return
		}
		if err := nicemu.JoinPair(a.qp, b.qp, nicemu.Join{}); err != nil {
			t.Error(err)
		}
		start := func(host string, f func(p *sim.Process, d *nicemu.Device)) {
			if _, err := l.Fabric().Go(host, f); err != nil {
				t.Error(err)
			}
		}
		start("h2", func(p *sim.Process, d *nicemu.Device) {
			if err := b.qp.PostRecv(&nicemu.RecvWR{SGL: []nicemu.SGE{b.mr.SGE(0, 5)}}); err != nil {
				t.Error(err)
			}
			if _, err := b.cq.WaitOne(p); err != nil {
				t.Error(err)
			}
			got <- string(b.buffer)
		})
		start("h1", func(p *sim.Process, d *nicemu.Device) {
			p.Sleep(units.Millisecond)
			copy(a.buffer, "hello")
			if err := a.qp.PostSend(&nicemu.SendWR{SGL: []nicemu.SGE{a.mr.SGE(0, 5)}}); err != nil {
				t.Error(err)
			}
		})
	})
	if err != nil || t.Failed() {
		t.Fatal(err)
	}
	if s := await.Receive(t, "a message", got); s != "hello" {
		t.Errorf("what came is %q", s)
	}
	stop()
	if err := l.Do(func() { t.Error("the lab has stopped") }); !errors.Is(err, wall.ErrStopped) {
		t.Errorf("after the run: %v", err)
	}
}

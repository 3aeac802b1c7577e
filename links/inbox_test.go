package links

import (
	"math"
	"slices"
	"testing"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// apart is a link whose far half is in another process.
type apart struct {
	engine sim.Engine // of the far half
	pool   packet.Pool
	agenda *sim.Agenda
	inbox  *Inbox
	outbox *Outbox // nil with one worker
	link   *Link
	got    []landed
}

func (a *apart) ReceivePacket(now units.Time, p *packet.Packet) {
	a.got = append(a.got, landed{now, p.ID, false})
	a.pool.Free(p)
}

func newApart(workers int) *apart {
	var near sim.Engine
	a := &apart{agenda: sim.NewAgenda(3)}
	a.inbox = NewInbox(a.agenda, 1)
	if workers > 1 {
		a.outbox = &Outbox{}
		a.outbox.BeginHalf(0)
	}
	a.link = new(Link).InitLink(new(Flight), End{Engine: &near, Pool: &a.pool}, End{Engine: &a.engine, Pool: &a.pool}, nil, sim.NewRand(1, "link"), Settings{Delay: 100, Rate: units.Gbps, MTU: 1500, Up: true}, a)
	a.link.JoinProcess(a.inbox, a.outbox)
	return a
}

// ahead launches packets that arrive at the given times.
func (a *apart) ahead(at ...units.Time) (all []*packet.Packet) {
	for _, t := range at {
		p := a.pool.New()
		p.ID, p.At, p.Size = uint64(t), t, 100
		a.link.LaunchAhead(0, p)
		all = append(all, p)
	}
	return all
}

// deliver ends a window.
func (a *apart) deliver() {
	if a.outbox != nil {
		a.outbox.DeliverHalf(0)
		a.outbox.BeginHalf(0)
	}
}

func (a *apart) until(at units.Time) (ids []uint64) {
	a.inbox.DeliverMessages()
	a.engine.Run(at, math.MaxInt)
	for _, l := range a.got {
		ids = append(ids, l.id)
	}
	a.got = nil
	return ids
}

// TestInbox: packets that are launched ahead and recalled do not arrive in the other
// process, nor are they counted as lost when the link goes down there before the recall
// arrives.
func TestInbox(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		a := newApart(workers)
		if !a.link.CrossesEngines() || !a.link.IsPredictable() {
			t.Fatal("a link between processes crosses and is predictable")
		}
		a.ahead(110, 120)
		back := a.ahead(130, 140)
		a.deliver()
		if a.agenda.FirstTime() != 110 {
			t.Errorf("the first arrives at %v", a.agenda.FirstTime())
		}
		if got := a.until(115); !slices.Equal(got, []uint64{110}) {
			t.Errorf("%d have arrived", got)
		}
		a.link.RecallLast(2)
		for _, p := range back {
			a.pool.Free(p)
		}
		a.ahead(135)
		a.deliver()
		if got := a.until(200); !slices.Equal(got, []uint64{120, 135}) || a.link.InFlight() != 0 {
			t.Errorf("%d have arrived, %d are under way", got, a.link.InFlight())
		}

		// Two are in flight and one has yet to leave when the link goes down: one of
		// the three has landed, and the far half learns of the change first.
		a.ahead(210)
		a.deliver()
		a.inbox.DeliverMessages()
		a.ahead(220)
		late := a.ahead(230)
		if workers == 1 {
			a.inbox.DeliverMessages()
		}
		a.link.SetFarHalf(false)
		down := a.link.Settings()
		down.Up = false
		a.link.RecallLast(1)
		a.pool.Free(late[0])
		a.link.Set(down)
		if got := a.until(205); len(got) > 0 || a.link.Counters().Cut != 0 {
			t.Errorf("%d have arrived, %d are cut before all is known", got, a.link.Counters().Cut)
		}
		a.deliver()
		a.inbox.FreeLostPackets()
		if got := a.until(300); len(got) > 0 || a.link.Counters().Cut != 2 || a.pool.LivePackets() != 0 {
			t.Errorf("%d have arrived, %d are cut, %d live", got, a.link.Counters().Cut, a.pool.LivePackets())
		}

		up := down
		up.Up = true
		a.link.Set(up)
		a.link.SetFarHalf(true)
		a.ahead(410)
		a.deliver()
		if got := a.until(500); !slices.Equal(got, []uint64{410}) {
			t.Errorf("%d have arrived when it is up again", got)
		}
	}
}

package wall

import (
	"context"
	"sync"
	"testing"

	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// post is what bouncers send to each other.
type post struct {
	arrival units.Time
	count   int
}

// bouncer is one end of a volley: it returns what arrives one look-ahead later,
// and checks that nothing arrives from the past.
type bouncer struct {
	t      *testing.T
	engine sim.Engine
	number int
	peer   *bouncer
	delay  units.Time

	mu     sync.Mutex
	posted []post

	sending, waiting []post
	timer            sim.Timer
	last             int
	done             func()
}

func (b *bouncer) Post(notify func(to int, earliest units.Time)) {
	if len(b.sending) == 0 {
		return
	}
	b.peer.mu.Lock()
	b.peer.posted = append(b.peer.posted, b.sending...)
	b.peer.mu.Unlock()
	notify(b.peer.number, b.sending[0].arrival)
	b.sending = nil
}

func (b *bouncer) Collect() {
	b.mu.Lock()
	got := b.posted
	b.posted = nil
	b.mu.Unlock()
	for _, p := range got {
		if p.arrival < b.engine.Now() {
			b.t.Errorf("engine %d is at %v and is given something for %v", b.number, b.engine.Now(), p.arrival)
		}
		if len(b.waiting) == 0 {
			b.timer.Arm(p.arrival)
		}
		b.waiting = append(b.waiting, p)
	}
}

func (b *bouncer) Fire(now units.Time) {
	p := b.waiting[0]
	b.waiting = b.waiting[1:]
	if len(b.waiting) > 0 {
		b.timer.Arm(b.waiting[0].arrival)
	}
	if p.arrival != now {
		b.t.Errorf("engine %d acts at %v on what was for %v", b.number, now, p.arrival)
	}
	b.last = p.count
	if p.count == 0 {
		b.done()
		return
	}
	b.sending = append(b.sending, post{now + b.delay, p.count - 1})
}

// Two engines on two threads exchange messages. Each hop takes exactly its time,
// nothing reaches an engine from its past, and neither waits forever; both with
// other work in between, and without, when they sleep until they are notified.
func TestGroup_ExchangesInTime(t *testing.T) {
	for name, busy := range map[string]units.Time{"asleep until notified": 0, "with other work": 30 * units.Microsecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const hops = 200
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			a := &bouncer{t: t, delay: 100 * units.Microsecond, done: cancel}
			b := &bouncer{t: t, delay: 100 * units.Microsecond, done: cancel, number: 1, peer: a}
			a.peer = b
			g := NewGroup(2, 100*units.Microsecond)
			clock := NewClock(1)
			var all sync.WaitGroup
			for _, x := range []*bouncer{a, b} {
				x.timer = x.engine.NewTimer(x)
				if busy > 0 {
					k := &ticker{step: busy}
					k.timer = x.engine.NewTimer(k)
					k.timer.Arm(0)
				}
				if x == a {
					a.waiting = []post{{units.Millisecond, hops}}
					a.timer.Arm(units.Millisecond)
				}
				d := newDriver(t, &x.engine, Options{Limit: units.Millisecond})
				d.JoinGroup(g, x.number, x)
				all.Add(1)
				go func() {
					defer all.Done()
					if err := d.Run(ctx, clock, units.Never, func() {}); err != nil {
						t.Error(err)
					}
				}()
			}
			all.Wait()
			if a.last != 0 && b.last != 0 {
				t.Errorf("the volley ended at %d and %d", a.last, b.last)
			}
		})
	}
}

// outbox is an exchange that sends what work from outside gives it.
type outbox struct {
	t       *testing.T
	sending int
	posted  int
}

func (o *outbox) Post(func(to int, earliest units.Time)) {
	o.posted += o.sending
	o.sending = 0
}

// Collect is called before a turn reports how far the engine has come: the
// others rely on everything sent before that having been posted.
func (o *outbox) Collect() {
	if o.sending > 0 {
		o.t.Errorf("%d packets are not posted", o.sending)
	}
}

// What work from outside sends is posted in the same turn, even if it arrived after
// the check for what woke the thread.
func TestOutsideWork_IsPostedInItsTurn(t *testing.T) {
	t.Parallel()
	var e sim.Engine
	o := &outbox{t: t}
	d := newDriver(t, &e, Options{})
	d.JoinGroup(NewGroup(1, 100*units.Microsecond), 0, o)
	k := &worker{driver: d, outbox: o}
	k.timer = e.NewTimer(k)
	k.timer.Arm(0)
	if err := d.Run(context.Background(), NewClock(1), 20*units.Millisecond, func() {}); err != nil {
		t.Fatal(err)
	}
	if o.posted != 20 {
		t.Errorf("%d packets were posted, want 20", o.posted)
	}
}

// worker adds work during events, as Do does from another thread just before it
// writes to the eventfd.
type worker struct {
	driver *Driver
	outbox *outbox
	timer  sim.Timer
	count  int
}

func (w *worker) Fire(now units.Time) {
	d := w.driver
	d.mu.Lock()
	d.work = append(d.work, func() { w.outbox.sending++ })
	d.pending.Store(true)
	d.mu.Unlock()
	if w.count++; w.count < 20 {
		w.timer.Arm(now + units.Millisecond)
	}
}

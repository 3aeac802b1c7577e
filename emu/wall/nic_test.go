package wall_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// A program with NICs behaves the same in virtual time and by the wall clock.

const twoHosts = `
name: two-hosts
topology:
  kinds: {host: {attach: none, nic: {cc: dcqcn}}, link: {rate: 1Gbps, delay: 100us}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"], loss: 1%}
`

// diary is the log of one process.
type diary struct {
	t     *testing.T
	lines []string
}

func (d *diary) note(p *sim.Process, format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf("%v ", p.Now())+fmt.Sprintf(format, args...))
}

// need ends the process on an error.
func (d *diary) need(p *sim.Process, err error) {
	if err != nil {
		d.t.Errorf("%s: %v", p.Name(), err)
		p.Stop()
		p.Sleep(0)
	}
}

const messages = 20

// side creates what a side of the program needs.
func (d *diary) side(p *sim.Process, device *nicemu.Device) (c *nicemu.CQ, q *nicemu.QP, b []byte, bytes, sizes *nicemu.MR) {
	pd, err := device.AllocPD()
	d.need(p, err)
	c, err = device.CreateCQ(100, nil)
	d.need(p, err)
	q, err = pd.CreateQP(nicemu.QPConfig{Type: nicemu.RC, SendCQ: c, RecvCQ: c, SignalAll: true, Cap: nicemu.QPCap{MaxSendWR: 2, MaxRecvWR: messages, MaxSendSGE: 1, MaxRecvSGE: 1}})
	d.need(p, err)
	b = make([]byte, 5000)
	bytes, err = pd.Register(b, nicemu.LocalWrite)
	d.need(p, err)
	sizes, err = pd.RegisterSize(5000, nicemu.LocalWrite)
	d.need(p, err)
	return c, q, b, bytes, sizes
}

// program lets a client on h1 connect to a server on h2 and send it messages,
// alternately of bytes and of sizes. It returns what each of them saw, and when.
func program(t *testing.T, f *fabric.Fabric) (client, server *diary) {
	client, server = &diary{t: t}, &diary{t: t}
	start := func(host string, d *diary, program func(p *sim.Process, device *nicemu.Device)) {
		if _, err := f.Go(host, program); err != nil {
			t.Fatal(err)
		}
	}
	start("h2", server, func(p *sim.Process, device *nicemu.Device) {
		d := server
		l, err := device.Listen(netip.AddrPortFrom(netip.Addr{}, 7174), 0, nil)
		d.need(p, err)
		e, err := l.Next(p)
		d.need(p, err)
		d.note(p, "asked by %v", e.Conn.Remote().Addr())
		c, q, b, bytes, sizes := d.side(p, device)
		d.need(p, q.Init(0, 0))
		for i := range uint64(messages) {
			mr := []*nicemu.MR{bytes, sizes}[i%2]
			d.need(p, q.PostRecv(&nicemu.RecvWR{ID: i, SGL: []nicemu.SGE{mr.SGE(0, 5000)}}))
		}
		d.need(p, e.Conn.Accept(q, nicemu.ConnParam{}))
		for range messages {
			w, err := c.WaitOne(p)
			d.need(p, err)
			d.note(p, "message %d of %d bytes, which ends with %d", w.ID, w.ByteLen, b[4999])
		}
		e.Conn.WaitDisconnected(p)
		d.note(p, "disconnected")
	})
	start("h1", client, func(p *sim.Process, device *nicemu.Device) {
		d := client
		p.Sleep(units.Millisecond)
		c, q, b, bytes, sizes := d.side(p, device)
		conn, err := device.Connect(q, netip.MustParseAddrPort("10.0.0.2:7174"), nicemu.ConnParam{RetryCount: 7}, nil)
		d.need(p, err)
		_, err = conn.WaitEstablished(p)
		d.need(p, err)
		for i := range uint64(messages) {
			b[4999] = byte(i)
			mr := []*nicemu.MR{bytes, sizes}[i%2]
			d.need(p, q.PostSend(&nicemu.SendWR{ID: i, SGL: []nicemu.SGE{mr.SGE(0, 5000)}}))
			_, err := c.WaitOne(p)
			d.need(p, err)
			d.note(p, "message %d is there", i)
			p.Sleep(units.Millisecond)
		}
		d.need(p, conn.Disconnect())
		conn.WaitDisconnected(p)
		d.note(p, "disconnected")
	})
	return client, server
}

func TestProgram_IsTheSameInBothTimes(t *testing.T) {
	t.Parallel()
	plan, err := resolve.Parse("lab.yaml", []byte(twoHosts))
	if err != nil {
		t.Fatal(err)
	}
	f := fabric.New(plan)
	client, server := program(t, f)
	if err := f.Run(context.Background(), units.Minute); err != nil {
		t.Fatal(err)
	}
	f.StopProcesses()
	if n := len(server.lines); n != messages+2 || len(client.lines) != messages+1 {
		t.Fatalf("in virtual time the program says\n%q\n%q", client.lines, server.lines)
	}
	for i, line := range server.lines[1 : messages+1] {
		// Even-numbered messages carry bytes; the others leave the buffer unchanged.
		if want := fmt.Sprintf("message %d of 5000 bytes, which ends with %d", i, i&^1); line[len(line)-len(want):] != want {
			t.Errorf("%q, want %q", line, want)
		}
	}
	for shards := 1; shards <= 2; shards++ {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			f, err := fabric.NewSharded(plan, shards)
			if err != nil {
				t.Fatal(err)
			}
			x, y := program(t, f)
			drive(t, f, nil, func() bool { return len(y.lines) == messages+2 && len(x.lines) == messages+1 })
			if !slices.Equal(x.lines, client.lines) || !slices.Equal(y.lines, server.lines) {
				t.Errorf("by the wall clock the program says\n%q\n%q, in virtual time\n%q\n%q", x.lines, y.lines, client.lines, server.lines)
			}
		})
	}
}

// drive runs a fabric by the wall clock until done returns true. It calls begin at the
// start of the run, with a function that runs work on the thread of the last shard.
// There it also calls done while the other shards stand still.
func drive(t *testing.T, f *fabric.Fabric, begin func(do func(func())), done func() bool) {
	t.Helper()
	group := wall.NewGroup(len(f.Shards), f.Lookahead())
	var drivers []*wall.Driver
	for i, s := range f.Shards {
		d, err := wall.NewDriver(s.Engine, wall.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Shards) > 1 {
			d.JoinGroup(group, i, s)
		}
		drivers = append(drivers, d)
	}
	ctx, stop := context.WithCancel(context.Background())
	clock := wall.NewClock(1)
	var started, ended sync.WaitGroup
	defer func() { stop(); ended.Wait() }()
	for _, d := range drivers {
		started.Add(1)
		ended.Go(func() {
			if err := d.Run(ctx, clock, units.Never, started.Done); err != nil {
				t.Error(err)
			}
		})
	}
	started.Wait()
	do := func(f func()) {
		// Nested, as in a lab.
		for _, d := range slices.Backward(drivers) {
			inner := f
			f = func() { _ = d.Do(inner) } // if it has stopped, there is nothing to do
		}
		f()
	}
	if begin != nil {
		begin(do)
	}
	await.True(t, "the end of the program", func() (over bool) {
		do(func() { over = done() })
		return over
	})
}

// Programs start on running engines, each on its own host.
func TestPrograms_StartWhileTheFabricRuns(t *testing.T) {
	plan, err := resolve.Parse("lab.yaml", []byte(twoHosts))
	if err != nil {
		t.Fatal(err)
	}
	for shards := 1; shards <= 2; shards++ {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			f, err := fabric.NewSharded(plan, shards)
			if err != nil {
				t.Fatal(err)
			}
			var x, y *diary
			drive(t, f, func(do func(func())) {
				do(func() { x, y = program(t, f) })
			}, func() bool { return len(y.lines) == messages+2 && len(x.lines) == messages+1 })
		})
	}
}

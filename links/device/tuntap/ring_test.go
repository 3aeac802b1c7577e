package tuntap

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/links/device/uring"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// whole is the common interface of TAP and TUN.
type whole interface {
	DeliverPacket(now units.Time, p *packet.Packet)
	Queues() []*Queue
	SetMTU(mtu int)
	IgnoredFrames() uint64
}

// newRing makes a ring for a device on the test's thread, or skips the test if the
// kernel does not allow it. stop does what a driver does at its end.
func newRing(t testing.TB, e whole) (r *uring.Ring, stop func()) {
	t.Helper()
	runtime.LockOSThread()
	r, err := uring.New(64, len(e.Queues()))
	if uring.IsUnavailable(err) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range e.Queues() {
		if err := q.Start(r, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	return r, func() {
		r.Close()
		for _, q := range e.Queues() {
			q.Stop()
		}
	}
}

func newWhole(kind string, c Config) whole {
	if kind == "TAP" {
		return NewTAP(c)
	}
	return NewTUN(c, hostMAC, []netip.Addr{host4, host6}, neighbours{})
}

// TestRing_BehavesLikeReadAndWrite: a device with a ring always behaves like one without.
func TestRing_BehavesLikeReadAndWrite(t *testing.T) {
	for _, kind := range []string{"TAP", "TUN"} {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				seed := rapid.SliceOfN(rapid.Uint16(), 1, 200).Draw(rt, "script")
				plain, ringed := play(t, kind, seed, false), play(t, kind, seed, true)
				if diff := cmp.Diff(plain, ringed); diff != "" {
					rt.Fatalf("(-system calls +ring)\n%s", diff)
				}
			})
		})
	}
}

// play makes a host and the fabric send each other the packets of a script, and
// returns a log of the results.
func play(t *testing.T, kind string, script []uint16, ring bool) (told []string) {
	k, fd := newKernel(t)
	defer k.closeBoth()
	c := k.config(fd)
	c.Ignore = bytes.Repeat([]byte{2}, 60)
	delivered := 0
	c.Delivered = func(_ units.Time, n int) { delivered += n }
	d := newWhole(kind, c)
	enter, stop := func() {}, func() {}
	if ring {
		var r *uring.Ring
		r, stop = newRing(t, d)
		enter = func() { r.SubmitAndWait(0) }
	}
	q := d.Queues()[0]
	look := func() {
		enter()
		for _, b := range k.entered {
			told = append(told, fmt.Sprintf("entered %x", b))
		}
		k.entered = nil
		for b := k.receive(); b != nil; b = k.receive() {
			told = append(told, fmt.Sprintf("received %x", b))
		}
		told = append(told, fmt.Sprint(k.malformed, k.refused, d.IgnoredFrames(), delivered))
		if tun, ok := d.(*TUN); ok {
			told = append(told, fmt.Sprint(tun.UnroutablePackets(), tun.AnsweredRequests()))
		}
	}
	sent := 0
	drain := func() {
		for enter(); q.PollInput(2, 1000) > 0; {
			enter()
		}
		sent = 0
	}
	packets := [][]byte{ipTo(t, "10.0.0.2"), ipTo(t, "fd00::2"), ipTo(t, "10.9.9.9"), {1, 2, 3}, bytes.Repeat([]byte{2}, 60)}
	for _, x := range script {
		b := packets[int(x>>3)%len(packets)]
		switch x & 7 {
		case 0, 1:
			if kind == "TAP" && len(b) != 60 {
				b = append(framed("10.0.0.2"), b...)
			}
			if sent++; sent == 5 { // a socket takes few packets at a time
				drain()
			}
			k.send(b)
		case 2, 3, 4:
			f := append(framed("10.0.0.2"), b...)
			if len(b) != 60 {
				hostMAC.EncodeTo(f)
			}
			f = append(f, byte(x>>8))
			p := k.pool.NewFrame(len(f))
			copy(p.Frame, f)
			if !p.Parse() {
				k.pool.Free(p)
				continue
			}
			d.DeliverPacket(units.Time(x>>8), p)
		case 5:
			enter()
			q.PollInput(1, int(x>>3)%5)
		case 6:
			d.SetMTU(1500 + int(x>>15)*6000)
		case 7:
			enter()
		}
		if x&7 < 5 {
			look()
		}
	}
	drain()
	look()
	stop()
	if n := k.pool.LivePackets(); n != 0 {
		t.Errorf("%d packets live", n)
	}
	return told
}

// TestRing_ReadsOnWhenBuffersAreFree: when the buffers are used up, reading continues, in order, as
// soon as some have entered; and a larger MTU applies to all packets not yet read.
func TestRing_ReadsOnWhenBuffersAreFree(t *testing.T) {
	k, fd := newKernel(t)
	d := NewTAP(k.config(fd))
	r, stop := newRing(t, d)
	q := d.Queues()[0]
	sent, largest := 0, 1000
	send := func(n int) {
		t.Helper()
		for range n {
			b := append(framed("10.0.0.2"), ipTo(t, "10.0.0.2")...)
			b = append(b, make([]byte, largest)...)
			b[len(b)-1] = byte(sent)
			sent++
			k.send(b)
			r.SubmitAndWait(0)
		}
	}
	send(ringBuffers)
	if !q.NeedsPoll() || len(k.entered) != 0 {
		t.Fatalf("%d entered", len(k.entered))
	}
	send(3) // they wait in the device
	if n := q.PollInput(1, 10); n != 10 || !q.NeedsPoll() {
		t.Fatalf("%d read", n)
	}
	d.SetMTU(9000)
	r.SubmitAndWait(0)
	if n := q.PollInput(2, 1000); n != ringBuffers-10+3 || q.NeedsPoll() {
		t.Fatalf("%d read", n)
	}
	largest = 8000
	send(5)
	if n := q.PollInput(3, 1000); n != 5 {
		t.Fatalf("%d read", n)
	}
	for i, b := range k.entered {
		want := 1000
		if i >= ringBuffers+3 {
			want = 8000
		}
		if len(b) < want || b[len(b)-1] != byte(i) {
			t.Fatalf("packet %d has %d bytes and is %d", i, len(b), b[len(b)-1])
		}
	}
	send(2)
	stop()
	if k.pool.LivePackets() != 0 || len(k.entered) != sent-2 {
		t.Errorf("%d live, %d of %d entered", k.pool.LivePackets(), len(k.entered), sent)
	}
	k.send(append(framed("10.0.0.2"), ipTo(t, "10.0.0.2")...))
	if n := q.PollInput(4, 10); n != 1 {
		t.Errorf("after the end: %d read", n)
	}
}

// TestRing_WritesInOrder: packets are written in order, a full batch before the last is
// queued, and those that the host does not take are counted.
func TestRing_WritesInOrder(t *testing.T) {
	k, fd := newKernel(t)
	c := k.config(fd)
	var delivered []string
	c.Delivered = func(now units.Time, n int) { delivered = append(delivered, fmt.Sprint(now, n)) }
	d := NewTAP(c)
	r, stop := newRing(t, d)
	defer stop()
	live := k.pool.LivePackets()
	deliver := func(now units.Time, b byte) {
		p := k.pool.NewFrame(wire.EthernetHeader + 20)
		copy(p.Frame, append(framed("10.0.0.2"), ipTo(t, "10.0.0.2")...))
		p.Frame[len(p.Frame)-1] = b
		p.Parse()
		d.DeliverPacket(now, p)
	}
	for i := range 7 {
		deliver(units.Time(i/4), byte(i))
	}
	if b := k.receive(); b != nil {
		t.Error("written at once")
	}
	r.SubmitAndWait(0)
	for i := range 7 {
		if b := k.receive(); len(b) == 0 || b[len(b)-1] != byte(i) {
			t.Fatalf("packet %d is %x", i, b)
		}
	}
	if !cmp.Equal(delivered, []string{"0s 4", "1ps 3"}) {
		t.Errorf("delivered %q", delivered)
	}
	k.close()
	for i := range maxWrites + 1 {
		deliver(5, byte(i))
	}
	if k.refused != maxWrites {
		t.Errorf("%d refused with %d waiting", k.refused, maxWrites)
	}
	r.SubmitAndWait(0)
	if k.refused != maxWrites+1 || k.pool.LivePackets() != live {
		t.Errorf("%d refused, %d live", k.refused, k.pool.LivePackets()-live)
	}
}

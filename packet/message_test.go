package packet

import (
	"net/netip"
	"testing"

	"github.com/weftlab/weft/wire"
)

type text struct{ b []byte }

func (x *text) Len() int          { return len(x.b) }
func (x *text) EncodeTo(b []byte) { copy(b, x.b) }
func (x *text) Set(from Body)     { x.b = append(x.b[:0], from.(*text).b...) }
func (x *text) Reset()            { x.b = x.b[:0] }

var textProtocol = NewMessageProtocol(MessageProtocol{Name: "text", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, Port: 7, New: func() Body { return &text{} }})

func newText(l *Pool, s string) *Packet {
	p := l.NewMessage(textProtocol)
	x := p.Message.Body.(*text)
	x.b = append(x.b, s...)
	p.Message.From, p.Message.To = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	p.SrcPort = 9
	p.SetFields()
	return p
}

// TestCloneMessage: a clone, in its own pool or another, has the same content and shares
// nothing with the original.
func TestCloneMessage(t *testing.T) {
	for _, to := range []int{0, 1} {
		pools := NewPools(2)
		p := newText(pools[0], "abc")
		if p.Size != 14+20+8+3 || p.Proto != wire.ProtoUDP || p.DstPort != 7 || p.Version != 4 || p.TTL != 64 || !p.HasBytes() {
			t.Errorf("%+v", p)
		}
		p.ID, p.Next = 7, pools[0].New()
		c := pools[to].ClonePacket(p)
		p.Message.Body.(*text).b[0], p.Message.To = 'x', netip.Addr{}
		if m := c.Message; c.ID != 7 || c.Next != nil || string(m.Body.(*text).b) != "abc" || m.To != netip.MustParseAddr("10.0.0.2") || c.Kind != Protocol || m.Protocol != textProtocol {
			t.Errorf("the clone in pool %d is %+v, %+v", to, c, m)
		}
		pools[to].Free(c)
		if live := pools[to].LivePackets(); live != 2-2*to {
			t.Errorf("%d live in pool %d", live, to)
		}
		if again := pools[to].NewMessage(textProtocol); again != c || again.Message.Body.Len() != 0 || again.Message.To.IsValid() {
			t.Errorf("used again: %+v", again)
		}
	}
}

// TestMessagesDoNotAllocate: once there are some, new messages do not allocate.
func TestMessagesDoNotAllocate(t *testing.T) {
	l := NewPools(1)[0]
	l.Free(newText(l, "abcdefgh"))
	if n := testing.AllocsPerRun(100, func() { l.Free(newText(l, "abc")) }); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}

// TestProtocolsSayHowTheyLook: incomplete protocols panic when they are made.
func TestProtocolsSayHowTheyLook(t *testing.T) {
	body := func() Body { return &text{} }
	for i, p := range []MessageProtocol{
		{},
		{Name: "x", New: body},
		{Name: "x", Ether: 0x88b5},
		{Name: "x", Ether: 0x88b5, Proto: 1, New: body},
		{Name: "x", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, New: body},
		{Name: "x", Proto: wire.ProtoICMP, Port: 3, New: body},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d: %+v is a protocol", i, p)
				}
			}()
			NewMessageProtocol(p)
		}()
	}
}

// TestFlowKeys: a flow has one key, whatever sends its packets.
func TestFlowKeys(t *testing.T) {
	l := NewPools(1)[0]
	k := newText(l, "abc").FlowKey(4791)
	if k != (FlowKey{From: netip.MustParseAddr("10.0.0.1"), To: netip.MustParseAddr("10.0.0.2"), Proto: 17, SrcPort: 9, DstPort: 7, Flow: -1}) {
		t.Errorf("%+v", k)
	}
	p := l.New()
	p.Kind, p.Flow = Modelled, 3
	if k := p.FlowKey(4791); k != (FlowKey{Flow: 3}) {
		t.Errorf("%+v", k)
	}
}

// TestInner: an inner packet is counted from its network header on, copied with its carrier
// into any pool, and freed with it, in its own pool or another; code that takes it out owns
// it alone.
func TestInner(t *testing.T) {
	for _, to := range []int{0, 1} {
		pools := NewPools(2)
		inner := newText(pools[0], "inside")
		p := newText(pools[0], "abc")
		p.Message.Inner = inner
		p.SetFields()
		if p.Size != 14+20+8+3+20+8+6 {
			t.Errorf("the packet has %d bytes", p.Size)
		}
		c := pools[to].ClonePacket(p)
		in := c.Message.Inner
		if in == inner || in.Size != inner.Size || string(in.Message.Body.(*text).b) != "inside" || in.Message == inner.Message {
			t.Errorf("the copy carries %+v", in)
		}
		c.Message.Inner = nil
		pools[to].Free(c)
		pools[to].Free(in)
		pools[1].Free(p) // a stranger there
		back := pools[1].TakeForeign(pools[0])
		for x := back.Pop(); x != nil; x = back.Pop() {
			pools[0].Free(x)
		}
		if a, b := pools[0].LivePackets(), pools[1].LivePackets(); a != 0 || b != 0 {
			t.Errorf("copied into pool %d: %d and %d packets are not back", to, a, b)
		}
		if again := pools[0].NewMessage(textProtocol); again.Message.Inner != nil {
			t.Error("a new packet carries another")
		}
	}
}

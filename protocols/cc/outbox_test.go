package cc_test

import (
	"testing"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/accurate"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// TestOutbox: one packet waits for each flow and direction, in the order of the first. A
// replacement carries the newest content, and a message that is no longer needed leaves no
// packet behind.
func TestOutbox(t *testing.T) {
	l := packet.NewPools(1)[0]
	var o cc.Outbox
	put := func(port uint16, k accurate.Kind, cr units.Rate, response bool) {
		p := l.NewMessage(accurate.Protocol)
		*p.Message.Body.(*accurate.FRP) = accurate.FRP{Kind: k, CR: cr, Response: response, Flow: packet.FlowKey{Proto: wire.ProtoTCP, SrcPort: port, Flow: -1}}
		o.PutProbe(l, p)
	}
	put(1, accurate.Init, 1, false)
	put(2, accurate.Regular, 2, false)
	put(1, accurate.Regular, 3, true)
	put(3, accurate.Init, 4, false)
	put(2, accurate.Regular, 5, false)
	put(3, accurate.Stop, 6, false) // no contention point knows the flow
	put(1, accurate.Regular, 7, false)
	put(4, accurate.Stop, 8, false)
	if o.Len() != 4 || l.LivePackets() != 4 {
		t.Errorf("%d wait, %d packets are live", o.Len(), l.LivePackets())
	}
	for _, want := range []accurate.FRP{
		{Kind: accurate.Init, CR: 7}, {Kind: accurate.Regular, CR: 5}, {Kind: accurate.Regular, CR: 3, Response: true}, {Kind: accurate.Stop, CR: 8},
	} {
		first := o.FirstProbe()
		p := o.Pop()
		if f := p.Message.Body.(*accurate.FRP); p != first || f.Kind != want.Kind || f.CR != want.CR || f.Response != want.Response {
			t.Errorf("%+v leaves, and not %+v", f, want)
		}
		l.Free(p)
	}
	if o.FirstProbe() != nil || o.Pop() != nil || o.Len() != 0 || l.LivePackets() != 0 {
		t.Errorf("%d are left, %d live", o.Len(), l.LivePackets())
	}
	put(1, accurate.Stop, 1, false) // what has left is not replaced
	if put(1, accurate.Init, 2, false); o.Pop().Message.Body.(*accurate.FRP).Kind != accurate.Regular {
		t.Error("a flow that begins again before its stop has left is not a new one")
	}
}

package transport

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// TestAnyPacketIsSurvived gives queue pairs packets that no peer would send: they may fail, but
// then each work request has exactly one completion, and they become idle.
func TestAnyPacketIsSurvived(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		service := rapid.SampledFrom([]roce.Service{roce.RC, roce.UC, roce.UD, roce.IRN, roce.XRC}).Draw(t, "service")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		sent, received := &count{}, &count{}
		host := newSizes()
		window := host.window()
		bind := memory.Binding{Window: window, Tag: uint8(window), Region: targetKey, Length: 8}
		config := Config{Memory: host.view(0), SendCQ: sent, RecvCQ: received, MaxSend: 8, MaxRecv: 8, MaxSGE: 1, SignalAll: true}
		if config.Service = service; service == roce.IRN {
			config.Service, config.Recovery = roce.RC, drawIRN(t).New
		}
		shared := &posted{}
		if service == roce.XRC {
			config.RecvCQ = nil
			if rapid.Bool().Draw(t, "target") {
				config.Memory, config.SendCQ, config.Domain = nil, nil, domainOf(Destination{5, host.view(0), shared, received})
			}
		}
		q, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		for s := qp.Init; s <= qp.RTS; s++ {
			if err := q.Modify(s, Attr{
				Access: open, PathMTU: 256, RQPSN: roce.PSNMask - 2, SQPSN: roce.PSNMask - 2,
				MaxRdAtomic: 2, MaxDestRdAtomic: 2, Timeout: 1, RetryCount: 7, RNRRetry: 3,
			}); err != nil {
				t.Fatal(err)
			}
		}
		var now units.Time
		posts, recvs := 0, 0
		for range random.IntN(200) {
			now += units.Microsecond
			switch random.IntN(6) {
			case 0:
				op := Op(random.IntN(int(LocalInvalidate) + 1))
				n := random.Uint32N(2000)
				if op.isAtomic() {
					n = atomicLen
				}
				if q.PostSend(&SendWR{Op: op, RKey: window, Bind: bind, SGL: []memory.SGE{{Length: n, LKey: localKey}}}) == nil {
					posts++
				}
			case 1:
				if config.Domain != nil {
					shared.list = append(shared.list, &qp.RecvWR{SGL: []memory.SGE{{Length: random.Uint32N(2000), LKey: localKey}}})
					recvs++
				} else if q.PostRecv(&qp.RecvWR{SGL: []memory.SGE{{Length: random.Uint32N(2000), LKey: localKey}}}) == nil {
					recvs++
				}
			case 2:
				var p roce.Packet
				if o := q.Offer(); q.Next(now, &p) && o.Bytes != units.Bytes(p.Len()) {
					t.Fatalf("%v bytes were offered, %v came", o.Bytes, p.Len())
				}
			case 3:
				q.DoDueWork(now)
			default:
				// Mostly the next expected packet, so that it gets far.
				psn := PSN(roce.PSNMask - 5).Add(random.Uint32N(20))
				if w, _ := q.Outstanding(); random.IntN(3) > 0 {
					psn = pick(random, w.Una, q.resp.expected)
				}
				speaks := service
				if service == roce.RC || service == roce.IRN {
					speaks = pick(random, service, service, service, service, service, service, service, roce.RC, roce.IRN)
				}
				p := &roce.Packet{
					BTH:       roce.BTH{Opcode: speaks.WithOperation(roce.Opcode(random.IntN(32))), PSN: uint32(psn), AckReq: random.IntN(2) > 0},
					RETH:      roce.RETH{VA: random.Uint64(), RKey: targetKey, Length: pick[uint32](random, 0, 8, 256, 300, 1<<31, 1<<32-1)},
					Selective: roce.SelETH{PSN: uint32(psn.Add(random.Uint32N(8)))},
					AETH:      roce.AETH{Syndrome: pick[uint8](random, 31, 31, 31, 31, 31, 0x20, 0x21, 0x21, 0x40, 0x60, 0x60, 0x61, 0x62, 0x63, 0x64, 0xff)},
					Send:      roce.SendETH{Receive: pick(random, q.resp.received, random.Uint32N(1<<24)), Packet: pick(random, 0, 1, random.Uint32N(1<<24))},
					Length:    pick(random, 0, 1, 8, 44, 256, 256, 4096),
				}
				p.FurtherHeaders().XRC.SRQ = pick[uint32](random, 5, 5, 5, 5, 5, 5, 5, 6)
				p.FurtherHeaders().Atomic = roce.AtomicETH{VA: pick[uint64](random, 0, 4, 8), RKey: targetKey}
				q.Receive(now, p, nil)
			}
		}
		if err := q.Modify(qp.Err, Attr{}); err != nil {
			t.Fatal(err)
		}
		if sent.n != posts || received.n != recvs-len(shared.list) {
			t.Fatalf("%d and %d completions of %d and %d work requests, of which %d are left", sent.n, received.n, posts, recvs, len(shared.list))
		}
		if o := q.Offer(); o.Kind != Nothing || q.NextExpiry() != units.Never {
			t.Fatalf("in the error state: %+v, a timer at %v", o, q.NextExpiry())
		}
	})
}

// domainOf returns an XRC domain with one shared receive queue.
func domainOf(only Destination) Domain {
	return func(number uint32) *Destination {
		if number != only.Number {
			return nil
		}
		return &only
	}
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

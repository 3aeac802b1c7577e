package transport

import (
	"math/rand/v2"
	"testing"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// passing is the memory of a program that has ended.
type passing struct{}

func (passing) LoadBytes(dst []byte, _ uint64, _ uint32) ([]byte, memory.Fault) {
	return dst, memory.Gone
}
func (passing) StoreBytes(uint64, []byte) memory.Fault { return memory.Gone }

// TestNobodyAnswersForADeadProgram: a program's memory goes before its queue pairs do. Packets in
// between are not answered, so that its peer sees a queue pair that is gone, and not one that
// refuses.
func TestNobodyAnswersForADeadProgram(t *testing.T) {
	for _, op := range []Op{Write, Read, Send, FetchAdd} {
		c := &channel{random: rand.New(rand.NewPCG(1, 2))}
		var sides [2]*agent
		for i := range sides {
			s := &agent{host: newHost()}
			sides[i] = s
			if i == 0 {
				s.host.bytes(0, 4096, memory.LocalWrite)
			} else {
				s.host.add(0, 4096, memory.LocalWrite, passing{})
				s.host.add(0, 4096, open, passing{})
			}
			var err error
			if s.qp, err = New(Config{
				Number: uint32(i), Memory: s.host.view(uint32(i)), SendCQ: sends{s}, RecvCQ: recvs{s}, MaxSend: 8, MaxRecv: 8, MaxSGE: 1,
			}); err != nil {
				t.Fatal(err)
			}
			for state := qp.Init; state <= qp.RTS; state++ {
				if err := s.qp.Modify(state, Attr{Access: open, DestQP: uint32(1 - i), PathMTU: 256, Timeout: 8, RetryCount: 2, MaxRdAtomic: 1, MaxDestRdAtomic: 1}); err != nil {
					t.Fatal(err)
				}
			}
			c.ends[i] = s.qp
		}
		client, server := sides[0], sides[1]
		answers := 0
		c.each = func(from int, p *roce.Packet) { answers += from }
		if err := server.qp.PostRecv(&qp.RecvWR{SGL: []memory.SGE{{Length: 1000, LKey: localKey}}}); err != nil {
			t.Fatal(err)
		}
		n := uint32(600)
		if op == FetchAdd {
			n = 8
		}
		if err := client.qp.PostSend(&SendWR{Op: op, RKey: targetKey, SGL: []memory.SGE{{Length: n, LKey: localKey}}}); err != nil {
			t.Fatal(err)
		}
		if !c.run(units.Second) {
			t.Fatalf("%v: it has no end", op)
		}
		if len(client.sent) != 1 || client.sent[0].Status != cq.RetryExcErr || answers != 0 {
			t.Errorf("%v: %d answers, completions %+v", op, answers, client.sent)
		}
		if s := server.qp.State(); s != qp.Err {
			t.Errorf("%v: the server is in %v", op, s)
		}
	}
}

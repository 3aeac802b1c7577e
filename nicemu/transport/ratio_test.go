package transport

import (
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/wire/roce"
)

// cpu returns the CPU time that the process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkIRNInOrder measures the cost of a packet with IRN relative to go-back-N, without loss:
// the median of runs of both, one after the other.
func BenchmarkIRNInOrder(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	bytes := newHost()
	bytes.bytes(0, 1<<20, memory.LocalWrite)
	bytes.bytes(0, 1<<20, open)
	for _, c := range []struct {
		name   string
		memory *host
		op     Op
		length uint32
	}{
		{"write-1MB", newSizes(), Write, 1 << 20}, {"write-1MB-bytes", bytes, Write, 1 << 20}, {"write-1KB", newSizes(), Write, 1 << 10},
		{"send-1KB", newSizes(), Send, 1 << 10}, {"read-1MB", newSizes(), Read, 1 << 20}, {"read-1KB", newSizes(), Read, 1 << 10},
	} {
		b.Run(c.name, func(b *testing.B) {
			wires := [2]*wire{newWire(b, roce.RC, c.memory), newWire(b, roce.IRN, c.memory)}
			wr := SendWR{Op: c.op, SGL: []memory.SGE{{Length: c.length, LKey: localKey}}, RKey: targetKey}
			packets := int(wires[0].ends[0].packetsFor(c.length)) * 8
			run := func(w *wire) time.Duration {
				began := cpu()
				for done := 0; done < 1<<14; done += packets {
					for range 8 {
						if c.op == Send {
							_ = w.ends[1].PostRecv(recvOf(&wr))
						}
						if err := w.ends[0].PostSend(&wr); err != nil {
							b.Fatal(err)
						}
					}
					w.drain(0)
				}
				return cpu() - began
			}
			var ratios []float64
			for b.Loop() {
				// The first run leaves the other's data in caches.
				x, y := run(wires[0]), run(wires[1])
				z, v := run(wires[1]), run(wires[0])
				ratios = append(ratios, float64(y+z)/float64(x+v))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "irn/go-back-n")
		})
	}
}

func recvOf(wr *SendWR) *qp.RecvWR { return &qp.RecvWR{SGL: wr.SGL} }

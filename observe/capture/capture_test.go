package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket/pcapgo"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/sim/units"
)

var epoch = time.Unix(1_700_000_000, 123_456_789)

// failer is a test or a property.
type failer interface {
	Helper()
	Fatal(...any)
}

func must(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ports returns n interfaces.
func ports(n int) (list []Interface) {
	for i := range n {
		list = append(list, Interface{Name: fmt.Sprintf("s1:%d", i+1), Speed: 10 * units.Gbps})
	}
	return list
}

// written is one packet as read back.
type written struct {
	At           int64 // ns after epoch
	Port, Length int
	Data         string
}

// readAll reads back a file and its statistics with gopacket.
func readAll(t failer, file io.Reader) (list []written, stats []pcapgo.NgInterfaceStatistics) {
	t.Helper()
	r, err := pcapgo.NewNgReader(file, pcapgo.DefaultNgReaderOptions)
	must(t, err)
	for {
		data, info, err := r.ReadPacketData()
		if err == io.EOF {
			break
		}
		must(t, err)
		list = append(list, written{info.Timestamp.Sub(epoch).Nanoseconds(), info.InterfaceIndex, info.Length, string(data)})
	}
	for i := range r.NInterfaces() {
		n, err := r.Interface(i)
		must(t, err)
		stats = append(stats, n.Statistics)
	}
	return list, stats
}

// Packets put before Run are read back from the file.
func TestCapture_WritesWhatIsPut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap := rapid.IntRange(1, 200).Draw(t, "snap length")
		c, err := New(Options{Interfaces: ports(300), Epoch: epoch, SnapLen: snap, Ring: 1 << 16})
		must(t, err)
		var want []written
		for range rapid.IntRange(0, 50).Draw(t, "packets") {
			data := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
			p := Packet{
				At:     units.Time(rapid.Int64Range(0, 1<<62).Draw(t, "at")),
				Port:   rapid.Int32Range(0, 299).Draw(t, "port"),
				Dir:    rapid.SampledFrom([]Direction{In, Out}).Draw(t, "direction"),
				Data:   data,
				Length: rapid.Int32Range(0, 9000).Draw(t, "length"),
			}
			c.Tap().PutPacket(p)
			want = append(want, written{int64(p.At / units.Nanosecond), int(p.Port), max(int(p.Length), len(data)), string(data[:min(snap, len(data))])})
		}
		c.Close()
		var out bytes.Buffer
		sum, err := c.Run(context.Background(), &out)
		must(t, err)
		n := uint64(len(want))
		if d := cmp.Diff(Summary{Seen: n, Written: n}, sum); d != "" {
			t.Fatal(d)
		}
		got, _ := readAll(t, &out)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

// A ring is filled without a reader, then read.
func TestOverruns_AreCounted(t *testing.T) {
	c, err := New(Options{Interfaces: ports(2), SnapLen: 64, Ring: 4096})
	must(t, err)
	const puts = 1000
	for i := range puts {
		c.Tap().PutPacket(Packet{Port: int32(i % 2), Data: make([]byte, 64)})
	}
	c.Close()
	var out bytes.Buffer
	sum, err := c.Run(context.Background(), &out)
	must(t, err)
	if room := uint64(4096 / (prefix + recordHeader + 64)); sum.Seen != room || sum.Overrun != puts-room {
		t.Errorf("of %d puts into a ring for %d: %+v", puts, room, sum)
	}
	_, stats := readAll(t, &out)
	if stats[0].PacketsReceived != puts/2 || stats[1].PacketsReceived != puts/2 || stats[0].PacketsDropped+stats[1].PacketsDropped != sum.Overrun {
		t.Errorf("statistics: %+v", stats)
	}
}

// A producer and a consumer that cannot keep up, in either mode, in virtual time. Every put is
// accounted for, and packets are written in order.
func TestCapture_AccountsForEveryPutOnASlowDisk(t *testing.T) {
	for _, wait := range []bool{false, true} {
		t.Run(fmt.Sprintf("wait=%v", wait), inBubble(func(t *testing.T) {
			c, err := New(Options{Interfaces: ports(1), SnapLen: 256, Ring: 8192, Wait: wait, Epoch: epoch})
			must(t, err)
			const puts, burst = 20_000, 200
			go func() {
				data := make([]byte, 200)
				for i := range uint64(puts) {
					if i%burst == 0 {
						time.Sleep(time.Millisecond)
					}
					if i%(puts/10) == 0 {
						synctest.Wait() // the consumer sleeps, and the ring does not hold the burst
					}
					binary.BigEndian.PutUint64(data, i)
					c.Tap().PutPacket(Packet{At: units.Time(i) * units.Nanosecond, Data: data[:8+i%193]})
				}
				c.Close()
			}()
			var out bytes.Buffer
			sum, err := c.Run(context.Background(), slow{&out})
			must(t, err)
			if sum.Seen != sum.Written || sum.Seen+sum.Overrun != puts {
				t.Errorf("%d puts: %+v", puts, sum)
			}
			if wait != (sum.Overrun == 0) {
				t.Errorf("%d overruns", sum.Overrun)
			}
			list, _ := readAll(t, &out)
			if len(list) != int(sum.Written) {
				t.Errorf("%d packets in the file, %d by the summary", len(list), sum.Written)
			}
			last := int64(-1)
			for _, p := range list {
				i := int64(binary.BigEndian.Uint64([]byte(p.Data)))
				if i <= last || i != p.At || len(p.Data) != int(8+i%193) {
					t.Fatalf("packet %d at %d with %d bytes follows packet %d", i, p.At, len(p.Data), last)
				}
				last = i
			}
		}))
	}
}

// inBubble makes a test run in virtual time.
func inBubble(f func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

// The same puts give the same bytes, in virtual time.
func TestWait_MakesTheFileIndependentOfTheDisk(t *testing.T) {
	synctest.Test(t, checkWait)
}

func checkWait(t *testing.T) {
	var files [2]bytes.Buffer
	for i, w := range []io.Writer{&files[0], slow{&files[1]}} {
		c, err := New(Options{Interfaces: ports(3), SnapLen: 100, Ring: 4096, Wait: true})
		must(t, err)
		go func() {
			for i := range 2000 {
				c.Tap().PutPacket(Packet{At: units.Time(i), Port: int32(i % 3), Dir: In, Data: make([]byte, i%150)})
			}
			c.Close()
		}()
		sum, err := c.Run(context.Background(), w)
		must(t, err)
		if sum.Written != 2000 {
			t.Errorf("disk %d: %+v", i, sum)
		}
	}
	if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
		t.Error("a slow disk makes another file")
	}
}

// slow is a slow disk.
type slow struct{ io.Writer }

func (s slow) Write(b []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return s.Writer.Write(b)
}

// A reader of a pipe sees each packet soon after its put, and the statistics when the context
// ends. Time is virtual.
func TestCapture_ShowsEachPacketAtOnce(t *testing.T) {
	synctest.Test(t, checkLive)
}

func checkLive(t *testing.T) {
	c, err := New(Options{Interfaces: ports(1), Epoch: epoch})
	must(t, err)
	in, out := io.Pipe()
	defer in.Close()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan Summary, 1)
	go func() {
		defer out.Close()
		sum, err := c.Run(ctx, out)
		if err != nil {
			t.Error(err)
		}
		ended <- sum
	}()
	r, err := pcapgo.NewNgReader(in, pcapgo.DefaultNgReaderOptions)
	must(t, err)
	for i := range 3 {
		put := time.Now()
		c.Tap().PutPacket(Packet{At: units.Time(i) * units.Second, Data: []byte("packet")})
		_, info, err := r.ReadPacketData()
		must(t, err)
		if took := time.Since(put); took > maxNap {
			t.Errorf("packet %d was not there after %v, but after %v", i, maxNap, took)
		}
		if at := info.Timestamp.Sub(epoch); at != time.Duration(i)*time.Second {
			t.Errorf("packet %d is at %v", i, at)
		}
	}
	cancel()
	if _, _, err := r.ReadPacketData(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	if sum := <-ended; sum != (Summary{Seen: 3, Written: 3}) {
		t.Errorf("%+v", sum)
	}
	c.Tap().PutPacket(Packet{Data: []byte("too late")})
	if !c.Tap().IsClosed() {
		t.Error("the tap does not know that the capture has ended")
	}
}

// Run ends with the pipe's error, and the producer continues,
// even if it waits for room.
func TestCapture_EndsWithItsReader(t *testing.T) {
	for _, wait := range []bool{false, true} {
		c, err := New(Options{Interfaces: ports(1), SnapLen: 64, Ring: 1024, Wait: wait})
		must(t, err)
		in, out, err := os.Pipe()
		must(t, err)
		defer out.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 100_000 {
				c.Tap().PutPacket(Packet{Data: make([]byte, 64)})
			}
		}()
		must(t, in.Close())
		if _, err := c.Run(context.Background(), out); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Run ended with %v, want EPIPE", err)
		}
		await.Receive(t, "the end of the producer", done)
	}
}

func TestCount_EndsTheCapture(t *testing.T) {
	needTcpdump(t)
	c, err := New(Options{Interfaces: ports(1), Filter: "ether[0] = 1", Count: 5})
	must(t, err)
	for i := range 100 {
		c.Tap().PutPacket(Packet{Data: []byte{byte(i % 2)}})
	}
	var out bytes.Buffer
	sum, err := c.Run(context.Background(), &out)
	must(t, err)
	if want := (Summary{Seen: 10, Filtered: 5, Written: 5}); sum != want {
		t.Errorf("%+v, want %+v", sum, want)
	}
	if list, _ := readAll(t, &out); len(list) != 5 {
		t.Errorf("%d packets in the file", len(list))
	}
}

func TestNew_RefusesOptionsOutOfRange(t *testing.T) {
	for want, o := range map[string]Options{
		"no interface":       {},
		"snap length of -1":  {Interfaces: ports(1), SnapLen: -1},
		"snap length of 262": {Interfaces: ports(1), SnapLen: 262145},
		"ring of -1":         {Interfaces: ports(1), Ring: -1},
		"1970 to 2261":       {Interfaces: ports(1), Epoch: time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
	}
	c, err := New(Options{Interfaces: ports(1)})
	must(t, err)
	c.Close()
	_, err = c.Run(context.Background(), io.Discard)
	must(t, err)
	if _, err = c.Run(context.Background(), io.Discard); err == nil {
		t.Error("Run was taken twice")
	}
}

// flushed counts the flushes of an HTTP response.
type flushed struct {
	io.Writer
	n int
}

func (f *flushed) Flush() { f.n++ }

func TestCapture_FlushesAResponse(t *testing.T) {
	c, err := New(Options{Interfaces: ports(1)})
	must(t, err)
	c.Close()
	f := &flushed{Writer: io.Discard}
	_, err = c.Run(context.Background(), f)
	must(t, err)
	if f.n == 0 {
		t.Error("what was written was not flushed")
	}
}

// BenchmarkPut measures the engine's side. The record is released each time, so
// that the ring never fills: a PutPacket into a full ring would cost less.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{64, 1500} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c, err := New(Options{Interfaces: ports(8)})
			must(b, err)
			p := Packet{Data: make([]byte, size), Dir: In}
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				p.Port = (p.Port + 1) % 8
				p.At += 1000
				c.Tap().PutPacket(p)
				c.tap.ring.nextRecord()
				c.tap.ring.releaseRecord()
			}
			if c.tap.overruns[0].Load() != 0 {
				b.Error("the ring was full")
			}
		})
	}
}

// BenchmarkCapture measures producer and consumer together, from PutPacket to the
// written bytes, at the pace of the slower one.
func BenchmarkCapture(b *testing.B) {
	for _, size := range []int{64, 1500} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c, err := New(Options{Interfaces: ports(8), Wait: true})
			must(b, err)
			ended := make(chan error, 1)
			go func() {
				_, err := c.Run(context.Background(), io.Discard)
				ended <- err
			}()
			p := Packet{Data: make([]byte, size), Dir: In}
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				c.Tap().PutPacket(p)
			}
			c.Close()
			must(b, <-ended)
		})
	}
}

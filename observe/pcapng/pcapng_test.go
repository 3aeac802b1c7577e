package pcapng

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/pcapgo"

	"github.com/weftlab/weft/sim/units"
)

// epoch has digits down to the nanosecond.
const epoch = 1_700_000_000_123_456_789

// sample writes a file that uses everything that this package can write.
func sample(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, Section{Hardware: "none", OS: "Linux", Application: "weft", Comment: "a lab, dilation 10"})
	must(t, err)
	for i := range 2 {
		id, err := w.AddInterface(Interface{
			Name: fmt.Sprintf("s1:%d", i+1), Description: "switch s1", Filter: "tcp or udp", SnapLen: 128, Speed: 25 * units.Gbps,
		})
		must(t, err)
		if id != i {
			t.Fatalf("interface %d has number %d", i, id)
		}
	}
	must(t, w.WritePacket(0, Packet{At: epoch, Data: frame(60), Direction: Inbound}))
	must(t, w.WritePacket(1, Packet{At: epoch + 1, Data: frame(61), Length: 1500, Direction: Outbound, Comment: "dropped: buffer full, 12 kB queued", Drops: 7}))
	id, err := w.AddInterface(Interface{Name: "late"})
	must(t, err)
	must(t, w.WritePacket(id, Packet{At: epoch + 2, Data: frame(70), FCSError: true, Comment: "é☃"}))
	must(t, w.WriteStatistics(1, Statistics{Start: epoch, End: epoch + 5, Received: 100, Dropped: 7, FilterAccepted: 3, Delivered: 1}))
	must(t, w.Flush())
	return out.Bytes()
}

// frame is an Ethernet frame of n bytes: IPv4 and UDP of 46 bytes, then padding.
func frame(n int) []byte {
	f := make([]byte, n)
	copy(f, "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x08\x00"+
		"\x45\x00\x00\x2a\x00\x00\x00\x00\x40\x11\x66\xc1\x0a\x00\x00\x01\x0a\x00\x00\x02"+
		"\x10\x00\x10\x01\x00\x16\x00\x00")
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReadBack(t *testing.T) {
	r, err := pcapgo.NewNgReader(bytes.NewReader(sample(t)), pcapgo.DefaultNgReaderOptions)
	must(t, err)
	section := pcapgo.NgSectionInfo{Hardware: "none", OS: "Linux", Application: "weft", Comment: "a lab, dilation 10"}
	if d := cmp.Diff(section, r.SectionInfo()); d != "" {
		t.Error(d)
	}
	at := time.Unix(0, epoch).UTC()
	want := []gopacket.CaptureInfo{
		{Timestamp: at, CaptureLength: 60, Length: 60, InterfaceIndex: 0},
		{Timestamp: at.Add(1), CaptureLength: 61, Length: 1500, InterfaceIndex: 1},
		{Timestamp: at.Add(2), CaptureLength: 70, Length: 70, InterfaceIndex: 2},
	}
	for i, want := range want {
		data, info, err := r.ReadPacketData()
		must(t, err)
		if d := cmp.Diff(want, info); d != "" {
			t.Errorf("packet %d: %s", i, d)
		}
		if !bytes.Equal(data, frame(want.CaptureLength)) {
			t.Errorf("packet %d: %x", i, data)
		}
	}
	if _, _, err := r.ReadPacketData(); err != io.EOF {
		t.Errorf("after the last packet: %v", err)
	}
	i, err := r.Interface(1)
	must(t, err)
	if i.Name != "s1:2" || i.Description != "switch s1" || i.Filter != "tcp or udp" || i.SnapLength != 128 {
		t.Errorf("interface 1: %+v", i)
	}
	s := i.Statistics
	if !s.StartTime.Equal(at) || !s.EndTime.Equal(at.Add(5)) || s.PacketsReceived != 100 || s.PacketsDropped != 7 {
		t.Errorf("statistics: %+v", s)
	}
}

func TestRefused(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	if _, err := NewWriter(io.Discard, Section{Comment: long}); err == nil {
		t.Error("a section with a comment of 65535 bytes was taken")
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, Section{})
	must(t, err)
	_, err = w.AddInterface(Interface{})
	must(t, err)
	for want, err := range map[string]error{
		"interface 1 was not added": w.WritePacket(1, Packet{}),
		"interface -1 was not":      w.WriteStatistics(-1, Statistics{}),
		"packet of 262145 bytes":    w.WritePacket(0, Packet{Data: make([]byte, MaxPacket+1)}),
		"text of 65535 bytes":       w.WritePacket(0, Packet{Comment: long}),
		"before 1970":               w.WritePacket(0, Packet{At: -1}),
		"lie before 1970":           w.WriteStatistics(0, Statistics{Start: -1}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
	}
	must(t, w.Flush())
	before := out.Len()
	must(t, w.Flush())
	if out.Len() != before {
		t.Error("an empty Flush wrote something")
	}
}

// TestErrorStays: after a failed write nothing else is written.
func TestErrorStays(t *testing.T) {
	r, pipe := io.Pipe()
	r.CloseWithError(errors.New("reader is gone"))
	w, err := NewWriter(pipe, Section{})
	must(t, err)
	_, err = w.AddInterface(Interface{})
	must(t, err)
	for _, err := range []error{w.Flush(), w.Flush(), w.WritePacket(0, Packet{}), w.WriteStatistics(0, Statistics{})} {
		if err == nil || err.Error() != "reader is gone" {
			t.Errorf("got %v", err)
		}
	}
}

func BenchmarkWritePacket(b *testing.B) {
	for _, size := range []int{64, 1500} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			w, err := NewWriter(io.Discard, Section{})
			must(b, err)
			_, err = w.AddInterface(Interface{})
			must(b, err)
			p := Packet{At: epoch, Data: make([]byte, size), Direction: Inbound, Comment: "marked, 400 kB queued"}
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				must(b, w.WritePacket(0, p))
			}
		})
	}
}

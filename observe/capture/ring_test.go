package capture

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// The ring is compared with a plain list under any sequence of puts and gets.
func TestRing_IsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const largest = 200
		r := newRing(rapid.IntRange(1, 2000).Draw(t, "size"), largest)
		var want [][]byte
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				data := rapid.SliceOfN(rapid.Byte(), 0, largest).Draw(t, "data")
				b := r.reserveRecord(len(data))
				if b == nil {
					if len(want) == 0 {
						t.Fatal("an empty ring has no room")
					}
					return
				}
				if len(b) != len(data) {
					t.Fatalf("asked for %d bytes, got %d", len(data), len(b))
				}
				copy(b, data)
				r.commitRecord()
				want = append(want, data)
			},
			"put, given up": func(t *rapid.T) {
				r.reserveRecord(rapid.IntRange(0, largest).Draw(t, "n"))
			},
			"get": func(t *rapid.T) {
				b := r.nextRecord()
				if len(want) == 0 {
					if b != nil {
						t.Fatalf("an empty ring gave %x", b)
					}
					return
				}
				if b == nil || !bytes.Equal(b, want[0]) {
					t.Fatalf("got %x, want %x", b, want[0])
				}
				r.releaseRecord()
				want = want[1:]
			},
		})
	})
}

// Numbered records of varying sizes pass a small ring, for the race detector.
func TestRing_PassesRecordsBetweenGoroutines(t *testing.T) {
	const records, largest = 100_000, 120
	size := func(i uint64) int { return 8 + int(i*7919%(largest-8)) }
	r := newRing(512, largest)
	go func() {
		for i := range uint64(records) {
			b := r.reserveRecord(size(i))
			for b == nil {
				runtime.Gosched()
				b = r.reserveRecord(size(i))
			}
			for j := range b {
				b[j] = byte(i)
			}
			binary.LittleEndian.PutUint64(b, i)
			r.commitRecord()
		}
	}()
	for i := range uint64(records) {
		b := r.nextRecord()
		for b == nil {
			runtime.Gosched()
			b = r.nextRecord()
		}
		if len(b) != size(i) || binary.LittleEndian.Uint64(b) != i || bytes.Count(b[8:], []byte{byte(i)}) != len(b)-8 {
			t.Fatalf("record %d came as %x", i, b)
		}
		r.releaseRecord()
	}
	if r.nextRecord() != nil {
		t.Error("there are more records than were put")
	}
}

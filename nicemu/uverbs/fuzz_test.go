package uverbs

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu/transport"
)

// victim is a process beside a hostile one.
type victim struct {
	*client
	kit
}

func (w *world) victim() victim {
	c := w.connect()
	k := c.greet()
	copy(c.memory.Data, victims)
	return victim{c, k}
}

// victims is the content of a victim's memory.
var victims = func() []byte {
	b := make([]byte, 1<<16)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}()

// attacked makes a world with a victim and a hostile process, with the objects that this needs.
func attacked(t testing.TB) (*world, victim, *client, kit) {
	w := newWorld(t)
	v := w.victim()
	t.Cleanup(v.close)
	c := w.connect()
	t.Cleanup(c.close)
	return w, v, c, c.greet()
}

// unharmed checks that the victim's memory is unchanged, and that its queue pair still works.
func (v victim) unharmed(t *testing.T) {
	t.Helper()
	if v.completed(v.cq.Handle) != -1 {
		t.Fatal("the victim has a completion that it did not ask for")
	}
	if !bytes.Equal(v.memory.Data, victims) {
		for i, b := range v.memory.Data {
			if b != victims[i] {
				t.Fatalf("the victim's byte %d is %d", i, b)
			}
		}
	}
	v.write(v.rc, v.mr.Key, base, base+0x8000, 3000)
	v.w.run()
	if s := v.completed(v.cq.Handle); s != 0 || !bytes.Equal(v.memory.Data[:3000], v.memory.Data[0x8000:][:3000]) {
		t.Fatalf("the victim's WRITE: status %d", s)
	}
}

// FuzzControl has two processes send arbitrary requests. The first byte says which of them has a
// kit. A request is a byte with its operation, whose highest bit selects the process, one with the
// length of the rest, and a body (see body). Requests of real programs (testdata/fuzz/FuzzControl)
// were recorded in the same form.
func FuzzControl(f *testing.F) {
	f.Add([]byte{3, byte(opAllocPD), 1, 1, byte(opDestroyQP), 1, 9})
	f.Add([]byte{1, byte(opCMCreateChannel), 0, byte(opCMCreateID), 2, 12, 0x06, byte(opCMListen), 1, 13, opRun, 0, byte(opCMBind), 1, 13})
	f.Add([]byte{3, byte(opModifyQP), 5, 6, 0xff, 0xff, 0xff, 3, byte(opDeregMR) | 0x80, 1, 4, byte(opClose), 1, 1, opAnew, 0, byte(opDestroySRQ), 1, 6})
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newLightWorld(t)
		v := w.victim()
		defer v.close()
		before := w.device.InUse()
		var kits byte
		if len(data) > 0 {
			kits, data = data[0], data[1:]
		}
		clients := [2]*client{w.connect(), w.connect()}
		for i, c := range clients {
			if kits>>i&1 != 0 {
				c.greet()
			}
		}
		for n := 0; len(data) >= 2 && n < 300; n++ {
			who, o := &clients[data[0]>>7], data[0]&0x7f
			words := data[2:][:min(len(data)-2, int(data[1]))]
			data = data[2+len(words):]
			switch o {
			case opRun:
				w.run()
			case opAnew:
				(*who).close()
				*who = w.connect()
			default:
				c := *who
				a := c.answer(op(o), body(op(o), words))
				c.fds = append(c.fds, a.fds...)
				if a.err == nil && a.body != nil && binary.Size(a.body) < 0 {
					t.Fatalf("the answer to %d cannot be sent", o)
				}
			}
			w.sound()
		}
		w.run()
		for _, c := range clients {
			c.close()
		}
		w.run()
		if now := w.device.InUse(); now != before {
			t.Fatalf("in use are %+v, not %+v", now, before)
		}
		v.unharmed(t)
	})
}

// Other inputs of FuzzControl: time passes; a process hangs up and connects again.
const (
	opRun  = 0
	opAnew = 0x7f
)

// body makes the body of a request from bytes: each gives a word, so that words are existing
// handles and enumerators; 0xff means all ones, and 0xfe that the word follows.
func body(o op, data []byte) []byte {
	size := bodySizes[o]
	b := make([]byte, size)
	for i := 0; i+4 <= size && len(data) > 0; i += 4 {
		switch {
		case data[0] == 0xff:
			binary.LittleEndian.PutUint32(b[i:], 0xffffffff)
		case data[0] == 0xfe && len(data) >= 5:
			copy(b[i:], data[1:5])
			data = data[4:]
		default:
			binary.LittleEndian.PutUint32(b[i:], uint32(data[0]))
		}
		data = data[1:]
	}
	return b
}

// bodySizes are the sizes of the requests' bodies.
var bodySizes = map[op]int{}

func init() {
	for o, q := range map[op]any{
		opHello: helloMsg{}, opOpen: handleMsg{}, opClose: handleMsg{}, opQueryPort: handleMsg{}, opQueryGID: queryGID{},
		opAllocPD: handleMsg{}, opDeallocPD: handleMsg{}, opRegMR: regMR{}, opReregMR: regMR{}, opDeregMR: handleMsg{},
		opAllocMW: allocMW{}, opDeallocMW: handleMsg{}, opCreateChannel: handleMsg{}, opDestroyChannel: handleMsg{},
		opCreateCQ: createCQ{}, opResizeCQ: createCQ{}, opModifyCQ: modifyCQ{}, opDestroyCQ: handleMsg{},
		opCreateSRQ: createSRQ{}, opModifySRQ: modifySRQ{}, opQuerySRQ: handleMsg{}, opDestroySRQ: handleMsg{},
		opCreateQP: createQP{}, opModifyQP: qpAttr{}, opQueryQP: handleMsg{}, opDestroyQP: handleMsg{},
		opCreateAH: createAH{}, opDestroyAH: handleMsg{}, opAttachMcast: mcastMsg{}, opDetachMcast: mcastMsg{}, opQueryClock: handleMsg{}, opNotifyCQ: handleMsg{}, opLocate: locateMsg{}, opSetRateLimit: rateLimitMsg{},
		opCMDestroyChannel: handleMsg{}, opCMCreateID: cmCreateID{}, opCMDestroyID: handleMsg{},
		opCMMigrate: cmCreateID{}, opCMBind: cmAddress{}, opCMResolveAddr: cmResolve{}, opCMResolveRoute: handleMsg{},
		opCMListen: cmListen{}, opCMConnect: cmConnect{}, opCMAccept: cmConnect{}, opCMReject: cmConnect{}, opCMEstablish: handleMsg{},
		opCMDisconnect: handleMsg{}, opCMNotify: handleMsg{}, opCMGetEvent: handleMsg{}, opCMQPAttr: cmQPAttr{},
		opCMSetOption: cmOption{}, opCMJoin: cmJoin{}, opCMLeave: cmJoin{},
	} {
		bodySizes[o] = binary.Size(q)
	}
}

// FuzzRings writes arbitrary bytes to all memory that a process shares, and rings.
func FuzzRings(f *testing.F) {
	f.Add([]byte{pokeRing, 0, 0, 3, 1, 2, 0, 0})
	f.Add([]byte{1, 64, 0, 3, 0xff, 0xff, 0xff, 0xff, 2 | pokeRing, 0, 16, 7, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte{4, 64, 0, 3, 0x10, 0, 0, 0, 3, 0, 0, 3, 8, 0, 0, 0, pokeRing | 5, 1, 0, 0, 1})
	for _, s := range ringSeeds(f) {
		f.Add(s)
	}
	f.Fuzz(rings)
}

// The format of an input of FuzzRings: a byte that selects the memory (poke), with bits of these;
// two with the offset; one with the length; the bytes.
const (
	pokeSlots = 0x80 // the offset is from the start of the slots
	pokeRing  = 0x40 // then the server checks everything
	maxPoke   = 64
)

func appendPoke(b []byte, what byte, at int, data []byte) []byte {
	for ; len(data) > 0; data = data[min(len(data), maxPoke):] {
		n := min(len(data), maxPoke)
		b = append(binary.LittleEndian.AppendUint16(append(b, what), uint16(at)), byte(n-1))
		b = append(b, data[:n]...)
		at += n
	}
	return b
}

// ringSeeds are inputs of FuzzRings in which every operation is posted correctly.
func ringSeeds(t testing.TB) (seeds [][]byte) {
	w := newWorld(t)
	c := w.connect()
	defer c.close()
	k := c.greet()
	index := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	recv := make([]byte, recvLen+sgeLen)
	recv[4] = 1
	binary.LittleEndian.PutUint64(recv[recvLen:], base+0x2000)
	binary.LittleEndian.PutUint32(recv[recvLen+8:], 2048)
	binary.LittleEndian.PutUint32(recv[recvLen+12:], k.mr.Key)
	for n, q := range map[byte]qpAnswer{0: k.rc, 1: k.srqRC, 2: k.ud} {
		for o := range operations {
			for _, flags := range []uint32{flagSignaled, flagSignaled | flagInline | flagSolicited | flagFence} {
				b := c.entry(k.mr.Key, base, base+0x1000, 100)
				binary.LittleEndian.PutUint32(b, uint32(o))
				binary.LittleEndian.PutUint32(b[4:], flags)
				if operations[o] == transport.CompareSwap || operations[o] == transport.FetchAdd {
					binary.LittleEndian.PutUint32(b[sendLen+8:], 8)
				}
				if q == k.ud {
					copy(b[40:], index(k.ah))
					copy(b[44:], index(k.ud.QPNum))
					copy(b[48:], index(7))
				}
				binary.LittleEndian.PutUint32(b[56:], 10)
				at := len(c.queues[q.Number].sends.slots)
				seed := appendPoke(nil, n|pokeSlots, 0, b)
				if q != k.srqRC {
					seed = appendPoke(appendPoke(seed, n|pokeSlots, at, recv), n, recvIndex, index(1))
				}
				seed = appendPoke(appendPoke(seed, 3|pokeSlots, 0, recv), 3, recvIndex, index(1))
				seed = appendPoke(seed, 4, cqArm, index(armSolicited))
				seeds = append(seeds, appendPoke(seed, n|pokeRing, sendIndex, index(1)))
			}
		}
	}
	return seeds
}

func rings(t *testing.T, data []byte) {
	w := newLightWorld(t)
	v := w.victim()
	defer v.close()
	before := w.device.InUse()
	c := w.connect()
	k := c.greet()
	w.poke(c, k, data)
	c.close()
	w.run()
	if now := w.device.InUse(); now != before {
		t.Fatalf("in use are %+v, not %+v", now, before)
	}
	v.unharmed(t)
}

// poke executes an input of FuzzRings.
func (w *world) poke(c *client, k kit, data []byte) {
	shared := [][]byte{
		c.queues[k.rc.Number].mem.bytes, c.queues[k.srqRC.Number].mem.bytes, c.queues[k.ud.Number].mem.bytes,
		c.queues[k.srq.Number].mem.bytes, c.completions(k.cq.Handle).mem.bytes, c.doorbell.bytes,
	}
	for n := 0; len(data) > 4 && n < 64; n++ {
		m := shared[int(data[0]&0x3f)%len(shared)]
		at := int(binary.LittleEndian.Uint16(data[1:])) % len(m)
		if data[0]&pokeSlots != 0 {
			at = (pageSize + at) % len(m)
		}
		what, k := data[0], min(len(data)-4, 1+int(data[3])%maxPoke)
		copy(m[at:], data[4:][:k])
		data = data[4+k:]
		if what&pokeRing != 0 {
			w.shake(c)
		}
	}
	w.shake(c)
}

// TestRingSeeds: the seeds for existing operations succeed.
func TestRingSeeds(t *testing.T) {
	good := 0
	for _, s := range ringSeeds(t) {
		w := newWorld(t)
		c := w.connect()
		k := c.greet()
		w.poke(c, k, s)
		if c.completed(k.cq.Handle) == 0 {
			good++
		}
		c.close()
	}
	if good < 20 {
		t.Errorf("%d of the work requests have succeeded", good)
	}
}

// shake makes the server check everything that a process has posted.
func (w *world) shake(c *client) {
	for n := range c.queues {
		c.ring(uint32(n))
	}
	one := [8]byte{1}
	_, _ = unix.Write(c.bell, one[:])
	w.run()
	w.sound()
}

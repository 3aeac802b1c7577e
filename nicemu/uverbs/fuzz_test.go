package uverbs

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// victim is a process beside one that does its worst.
type victim struct {
	*client
	kit
}

func (w *world) victim() victim {
	c := w.connect()
	k := c.greet()
	for i := range c.memory.Data {
		c.memory.Data[i] = byte(i * 7)
	}
	return victim{c, k}
}

// unharmed checks that the victim's memory is as it was, and that its queue pair
// still works.
func (v victim) unharmed(t *testing.T) {
	t.Helper()
	if v.completed(v.cq.Handle) != -1 {
		t.Fatal("the victim has a completion that it did not ask for")
	}
	for i, b := range v.memory.Data {
		if b != byte(i*7) {
			t.Fatalf("the victim's byte %d is %d", i, b)
		}
	}
	v.write(v.rc, v.mr.Key, base, base+0x8000, 3000)
	v.w.run()
	if s := v.completed(v.cq.Handle); s != 0 || !bytes.Equal(v.memory.Data[:3000], v.memory.Data[0x8000:][:3000]) {
		t.Fatalf("the victim's WRITE: status %d", s)
	}
}

// FuzzControl sends arbitrary requests: pairs of an operation and a body whose words
// are small numbers more often than not.
func FuzzControl(f *testing.F) {
	f.Add([]byte{byte(opAllocPD), 1, byte(opDestroyQP), 9})
	f.Add([]byte{byte(opCMCreateChannel), byte(opCMCreateID), 12, 0x06, 1, byte(opCMListen), 13, 3, byte(opCMBind), 13})
	f.Add([]byte{byte(opModifyQP), 6, 0xff, 0xff, 0xff, 3, byte(opDeregMR), 4, byte(opClose), 1, byte(opDestroySRQ), 6})
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newWorld(t)
		v := w.victim()
		defer v.close()
		before := w.device.InUse()
		c := w.connect()
		c.greet()
		for n := 0; len(data) > 0 && n < 64; n++ {
			o := op(data[0])
			body := body(o, data[1:])
			data = data[min(len(data), 1+int(data[0])%24):]
			a := c.answer(o, body)
			c.fds = append(c.fds, a.fds...)
			if a.err == nil && a.body != nil && binary.Size(a.body) < 0 {
				t.Fatalf("the answer to %d cannot be sent", o)
			}
			w.sound()
		}
		w.run()
		c.close()
		w.run()
		if now := w.device.InUse(); now != before {
			t.Fatalf("in use are %+v, not %+v", now, before)
		}
		v.unharmed(t)
	})
}

// body makes the body of a request of bytes: one gives a word, so that words are
// handles and enumerators that there are.
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

// bodySizes are those of the requests' bodies.
var bodySizes = map[op]int{}

func init() {
	for o, q := range map[op]any{
		opHello: helloMsg{}, opOpen: handleMsg{}, opClose: handleMsg{}, opQueryPort: handleMsg{}, opQueryGID: queryGID{},
		opAllocPD: handleMsg{}, opDeallocPD: handleMsg{}, opRegMR: regMR{}, opReregMR: regMR{}, opDeregMR: handleMsg{},
		opAllocMW: allocMW{}, opDeallocMW: handleMsg{}, opCreateChannel: handleMsg{}, opDestroyChannel: handleMsg{},
		opCreateCQ: createCQ{}, opResizeCQ: createCQ{}, opModifyCQ: modifyCQ{}, opDestroyCQ: handleMsg{},
		opCreateSRQ: createSRQ{}, opModifySRQ: modifySRQ{}, opQuerySRQ: handleMsg{}, opDestroySRQ: handleMsg{},
		opCreateQP: createQP{}, opModifyQP: qpAttr{}, opQueryQP: handleMsg{}, opDestroyQP: handleMsg{},
		opCreateAH: createAH{}, opDestroyAH: handleMsg{}, opAttachMcast: mcastMsg{}, opDetachMcast: mcastMsg{},
		opCMDestroyChannel: handleMsg{}, opCMCreateID: cmCreateID{}, opCMDestroyID: handleMsg{},
		opCMMigrate: cmCreateID{}, opCMBind: cmAddress{}, opCMResolveAddr: cmResolve{}, opCMResolveRoute: handleMsg{},
		opCMListen: cmListen{}, opCMConnect: cmConnect{}, opCMAccept: cmConnect{}, opCMReject: cmConnect{}, opCMEstablish: handleMsg{},
		opCMDisconnect: handleMsg{}, opCMNotify: handleMsg{}, opCMGetEvent: handleMsg{}, opCMQPAttr: cmQPAttr{},
		opCMSetOption: cmOption{}, opCMJoin: cmJoin{}, opCMLeave: cmJoin{},
	} {
		bodySizes[o] = binary.Size(q)
	}
}

// FuzzRings writes arbitrary bytes to everything that a process shares, and rings.
func FuzzRings(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 2, 0, 0, 0})
	f.Add([]byte{1, 64, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte{4, 64, 0, 0x10, 0, 0, 0, 3, 0, 0, 8, 0, 0, 0, 0, 1})
	f.Fuzz(rings)
}

func rings(t *testing.T, data []byte) {
	w := newWorld(t)
	v := w.victim()
	defer v.close()
	before := w.device.InUse()
	c := w.connect()
	k := c.greet()
	// A real work request for the bytes to spoil.
	c.write(k.rc, k.mr.Key, base, base+0x1000, 2000)
	shared := [][]byte{
		c.queues[k.rc.Number].mem.bytes, c.queues[k.srqRC.Number].mem.bytes, c.queues[k.ud.Number].mem.bytes,
		c.queues[k.srq.Number].mem.bytes, c.completions(k.cq.Handle).mem.bytes, c.doorbell.bytes,
	}
	for n := 0; len(data) >= 4 && n < 64; n++ {
		m := shared[int(data[0])%len(shared)]
		at := int(binary.LittleEndian.Uint16(data[1:])) % len(m)
		if data[0]&0x80 != 0 {
			at = (pageSize + at) % len(m) // the slots
		}
		k := min(len(data)-3, 1+int(data[3])%16)
		copy(m[at:], data[3:][:k])
		data = data[3+k:]
		if n%4 == 3 {
			w.shake(c)
		}
	}
	w.shake(c)
	c.close()
	w.run()
	if now := w.device.InUse(); now != before {
		t.Fatalf("in use are %+v, not %+v", now, before)
	}
	v.unharmed(t)
}

// shake has the server look at everything that a process has posted.
func (w *world) shake(c *client) {
	for n := range c.queues {
		c.ring(uint32(n))
	}
	one := [8]byte{1}
	_, _ = unix.Write(c.bell, one[:])
	w.run()
	w.sound()
}

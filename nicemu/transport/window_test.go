package transport

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// TestWindowIsLentAndReturned shows the use of windows: a server binds one and sends its key in a
// SEND after that, the client works through it and returns it with a SEND with Invalidate; then the
// key is invalid. The second time the server invalidates it itself.
func TestWindowIsLentAndReturned(t *testing.T) {
	for _, returned := range []bool{true, false} {
		c := &channel{random: rand.New(rand.NewPCG(1, 2))}
		var sides [2]*agent
		for i := range sides {
			s := &agent{host: newHost()}
			s.local = s.host.bytes(0, 4096, memory.LocalWrite)
			s.target = s.host.bytes(0x1000, 4096, memory.LocalWrite|memory.MWBind)
			s.memory, s.window = s.host.view(uint32(i)), s.host.window()
			sides[i] = s
			var err error
			if s.qp, err = New(Config{
				Number: uint32(i), Memory: s.memory, SendCQ: sends{s}, RecvCQ: recvs{s}, MaxSend: 8, MaxRecv: 8, MaxSGE: 1, MaxInline: 8,
			}); err != nil {
				t.Fatal(err)
			}
			for state := qp.Init; state <= qp.RTS; state++ {
				if err := s.qp.Modify(state, Attr{Access: open, DestQP: uint32(1 - i), PathMTU: 256, Timeout: 8, RetryCount: 1}); err != nil {
					t.Fatal(err)
				}
			}
			c.ends[i] = s.qp
		}
		server, client := sides[0], sides[1]
		post := func(s *agent, wr SendWR) {
			t.Helper()
			wr.Flags |= Signaled
			if err := s.qp.PostSend(&wr); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range sides {
			if err := s.qp.PostRecv(&qp.RecvWR{SGL: []memory.SGE{{Length: 8, LKey: localKey}}}); err != nil {
				t.Fatal(err)
			}
		}
		key := server.window + 1
		post(server, SendWR{Op: BindWindow, Bind: memory.Binding{
			Window: server.window, Tag: uint8(key), Region: targetKey, Addr: 0x1100, Length: 512, Access: memory.RemoteWrite | memory.ZeroBased,
		}})
		post(server, SendWR{Op: Send, Inline: binary.LittleEndian.AppendUint32(nil, key)})
		c.run(units.Second)
		told := binary.LittleEndian.Uint32(client.local)
		if told != key || len(client.received) != 1 {
			t.Fatalf("the client was told %#x, want %#x: %+v", told, key, client.received)
		}
		data := bytes.Repeat([]byte{7}, 400)
		copy(client.local[100:], data)
		write := SendWR{Op: Write, RKey: told, RemoteVA: 112, SGL: []memory.SGE{{VA: 100, Length: 400, LKey: localKey}}}
		post(client, write)
		if returned {
			post(client, SendWR{Op: SendInvalidate, RKey: told})
			c.run(units.Second)
			if len(server.received) != 1 || server.received[0].Flags != cq.WithInv || server.received[0].Imm != key {
				t.Fatalf("the server has received %+v", server.received)
			}
		} else {
			c.run(units.Second)
			post(server, SendWR{Op: LocalInvalidate, RKey: key})
		}
		if !bytes.Equal(server.target[0x100+112:][:400], data) || bytes.Count(server.target, []byte{7}) != 400 {
			t.Fatal("the WRITE did not go where the window begins")
		}
		post(client, write)
		c.run(units.Second)
		if last := client.sent[len(client.sent)-1]; last.Status != cq.RemAccessErr {
			t.Errorf("a WRITE by the old key ends with %v", last.Status)
		}
		if last := server.sent[len(server.sent)-1]; last.Status != cq.Success || !returned && last.Opcode != cq.LocalInv {
			t.Errorf("the server's last completion is %+v", last)
		}
	}
}

// TestDatagramBytes: a datagram is stored after the GRH that the NIC provides, and not at all if
// bytes are not modelled.
func TestDatagramBytes(t *testing.T) {
	h := newHost()
	local := h.bytes(0, 4096, memory.LocalWrite)
	q, err := New(Config{Service: roce.UD, Memory: h.view(0), SendCQ: &count{}, RecvCQ: &count{}, MaxRecv: 3, MaxSGE: 3})
	if err != nil {
		t.Fatal(err)
	}
	for state := qp.Init; state <= qp.RTS; state++ {
		if err := q.Modify(state, Attr{PathMTU: 256, QKey: 5}); err != nil {
			t.Fatal(err)
		}
	}
	grh, ipv4 := [GRHLen]byte{0: 0x60, 39: 0xff}, [GRHLen]byte{20: 0x45, 39: 7}
	payload := bytes.Repeat([]byte{9}, 100)
	for i, c := range []struct {
		header  *[GRHLen]byte
		payload []byte
		want    []byte
		kind    uint8
	}{
		{&grh, payload, append(grh[:], payload...), cq.HeaderIPv6},
		{&ipv4, payload, append(ipv4[:], payload...), cq.HeaderIPv4},
		{nil, nil, make([]byte, 140), 0},
	} {
		clear(local)
		// The GRH lies across elements of the list.
		list := []memory.SGE{{VA: 10, Length: 30, LKey: localKey}, {VA: 40, Length: 60, LKey: localKey}, {VA: 100, Length: 50, LKey: localKey}}
		if err := q.PostRecv(&qp.RecvWR{SGL: list}); err != nil {
			t.Fatal(err)
		}
		p := roce.Packet{BTH: roce.BTH{Opcode: roce.UD.WithOperation(roce.SendOnly)}, Length: 100, Payload: c.payload}
		p.FurtherHeaders().DETH.QKey = 5
		q.Receive(0, &p, c.header)
		if got := local[10:150]; !bytes.Equal(got, c.want) || q.config.RecvCQ.(*count).n != i+1 {
			t.Errorf("%d: % x, want % x", i, got, c.want)
		}
		if got := q.config.RecvCQ.(*count).last.SL; got != c.kind {
			t.Errorf("%d: the completion has sl %#x, not %#x", i, got, c.kind)
		}
	}
}

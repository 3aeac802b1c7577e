package tuntap

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// held is a device thread that does its jobs when the test says so.
type held struct{ jobs []func() }

func (h *held) do(job func()) { h.jobs = append(h.jobs, job) }

func (h *held) work() {
	for _, job := range h.jobs {
		job()
	}
	h.jobs = nil
}

// threaded gives the device to which s delivers a thread.
func (s *super) threaded(thread func(job func())) {
	q := s.out.Queues()[0]
	if !q.WantsThread() {
		s.t.Fatal("the device wants no thread")
	}
	q.WriteBy(thread)
}

// TestBehind: a device thread writes what several packets make up, and what comes behind
// it; a packet alone is written at once.
func TestBehind(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		var thread held
		s.threaded(thread.do)
		alone, whole, ack := s.stream(0, 0), s.stream(0, 4500), s.stream(4500, 0)

		s.deliver(1, s.enter(s.message(alone, 0))...)
		s.wrote("a packet alone", s.message(alone, 0))

		whole.ps = true
		s.deliver(2, s.enter(s.message(whole, 1000))...)
		s.deliver(3, s.enter(s.message(ack, 0))...)
		s.wrote("before the thread has worked")
		if c := s.out.Offloaded(); c.Written != 1 || len(thread.jobs) != 2 || s.pool.Live() != 6 {
			t.Errorf("%+v, %d jobs, %d packets in use", c, len(thread.jobs), s.pool.Live())
		}

		thread.work()
		s.wrote("the thread's", s.message(whole, 1000), s.message(ack, 0))
		if c := s.out.Offloaded(); c.Written != 7 || c.Writes != 3 || c.Behind != 2 || s.pool.Live() != 0 {
			t.Errorf("%+v, %d packets in use", c, s.pool.Live())
		}
		if n := len(s.writes); n != 3 || s.writes[1] != (delivery{2, 5}) || s.writes[2] != (delivery{3, 1}) {
			t.Errorf("deliveries %v", s.writes)
		}

		s.deliver(4, s.enter(s.message(ack, 0))...)
		s.wrote("alone again", s.message(ack, 0))

		// What the host's kernel refuses later counts as what it refuses at once.
		s.deliver(5, s.enter(s.message(whole, 1000))...)
		s.close()
		thread.work()
		s.threaded(nil)
		if c := s.out.Offloaded(); c.Written != 8 || s.refused != 5 {
			t.Errorf("%+v, %d refused", c, s.refused)
		}
	})
}

// TestBehindInOrder: beside a thread that works by itself the engine goes on, waits for it
// when too much is ahead, and what the host gets is what was delivered, in its order.
func TestBehindInOrder(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		const messages = 300
		random := rand.New(rand.NewPCG(1, 2))
		var want [][]byte
		var sent [][]*packet.Packet
		at, packets := 0, uint64(0)
		for range messages {
			g, size := s.stream(at, 1000*random.IntN(30)), 1000
			g.ps = true
			if len(g.payload) <= size {
				size = 0
			}
			at += len(g.payload)
			m := s.message(g, size)
			ps := s.enter(m)
			packets += uint64(len(ps))
			want, sent = append(want, m), append(sent, ps)
		}

		// The far end has room for some messages only: the thread waits for it.
		for _, fd := range []int{s.fd, s.out.Queues()[0].fd} {
			if err := unix.SetNonblock(fd, false); err != nil {
				t.Fatal(err)
			}
		}
		got := make(chan []byte, messages)
		go func() {
			defer close(got)
			b := make([]byte, 1<<17)
			for range messages {
				n, err := unix.Read(s.fd, b)
				if err != nil {
					t.Error(err)
					return
				}
				got <- bytes.Clone(b[:n])
			}
		}()
		jobs, ended := make(chan func(), 4), make(chan struct{})
		go func() {
			defer close(ended)
			for job := range jobs {
				job()
			}
		}()
		s.threaded(func(job func()) { jobs <- job })
		for i, ps := range sent {
			s.deliver(units.Time(i), ps...)
		}
		s.out.Flush(messages)
		s.threaded(nil)
		close(jobs)
		<-ended
		for i := range messages {
			if b := <-got; !bytes.Equal(b, want[i]) {
				t.Fatalf("message %d has %d bytes, want %d", i, len(b), len(want[i]))
			}
		}
		if c := s.out.Offloaded(); c.Written != packets || c.Writes != messages || c.Behind < messages/2 || s.refused != 0 {
			t.Errorf("%+v of %d packets, %d refused", c, packets, s.refused)
		}
	})
}

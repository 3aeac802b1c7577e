package uverbs

// sound checks that the lists of the server and of its sessions are consistent.
func (w *world) sound() {
	w.t.Helper()
	queues, cqs := 0, 0
	for c := range w.clients {
		x := c.session
		var held cost
		ids, users, shared := map[*cmChannel]int{}, map[*channel]int{}, map[*queue]int{}
		for h, o := range x.objects {
			held.memory += o.cost.memory
			held.mappings += o.cost.mappings
			held.descriptors += o.cost.descriptors
			switch o := o.it.(type) {
			case *cmID:
				ids[o.channel]++
				if o.ended {
					w.t.Fatalf("ID %d has ended and is there", h)
				}
			case *cmChannel:
				held.memory += int64(len(o.events)) * eventBytes
				for _, e := range o.events {
					if e.of.ended || e.new != nil && e.new.ended {
						w.t.Fatalf("channel %d has an event of an ID that has ended", h)
					}
				}
			case *completions:
				cqs++
				if o.channel != nil {
					users[o.channel]++
				}
			case *queue:
				queues++
				if x.queues[o.number] != o || o.session != x {
					w.t.Fatalf("queue %d is not in its place", h)
				}
				if o.shared != nil {
					shared[o.shared]++
				}
			}
		}
		for h, o := range x.objects {
			switch o := o.it.(type) {
			case *cmChannel:
				if o.ids != ids[o] {
					w.t.Fatalf("channel %d has %d IDs, and says %d", h, ids[o], o.ids)
				}
				delete(ids, o)
			case *channel:
				if o.queues != users[o] {
					w.t.Fatalf("channel %d has %d queues, and says %d", h, users[o], o.queues)
				}
				delete(users, o)
			case *queue:
				if o.users != shared[o] {
					w.t.Fatalf("queue %d has %d users, and says %d", h, shared[o], o.users)
				}
				delete(shared, o)
			}
		}
		if len(ids)+len(users)+len(shared) != 0 {
			w.t.Fatalf("in use, and gone: %d event channels, %d completion channels, %d shared receive queues", len(ids), len(users), len(shared))
		}
		if held != x.held {
			w.t.Fatalf("a session holds %+v of the budget, its objects %+v", x.held, held)
		}
	}
	s := w.server
	if len(s.qps)+len(s.srqs) != queues || len(s.cqs) != cqs {
		w.t.Fatalf("%d queues and %d completion queues; the server has %d, %d and %d", queues, cqs, len(s.qps), len(s.srqs), len(s.cqs))
	}
}

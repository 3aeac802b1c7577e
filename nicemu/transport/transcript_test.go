package transport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// TestTranscripts plays the files of testdata/transcripts: the inputs of one queue pair, and its
// exact outputs. They are named after the rules of chapter 9 that they show. Rewrite with go test
// ./nicemu/transport -rewrite and read the difference.
//
//	qp          makes a queue pair; see (*desk).make for its arguments
//	post        send requests, one a line
//	recv        receive requests, one a line
//	arrive      packets, one a line
//	next [n=1]  packets it sends now, all or n
//	wait t=10us lets time pass, and its timers expire
//	region      registers memory, forget ends that; window makes one of type 2
//	srq, no-srq makes and destroys a shared receive queue of an XRC target's domain
//	modify, counters, timer, offer, outstanding
//
// Each prints what the queue pair did: memory it wrote, completions, events. Local memory has key
// 0x100 and starts at 0; memory with key 0x200 starts at 0x1000 and is open to the peer.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		d := &desk{}
		datadriven.RunTest(t, path, func(t *testing.T, data *datadriven.TestData) string {
			out, err := d.do(data)
			if err != nil {
				t.Fatalf("%s: %v", data.Pos, err)
			}
			if out == "" {
				return "nothing\n"
			}
			return out
		})
	})
}

// desk is a queue pair with its inputs and outputs.
type desk struct {
	now    units.Time
	host   *host
	qp     *QP
	out    strings.Builder
	shared []qp.RecvWR
	srqs   map[uint32]*deskSRQ // by number
}

// deskSRQ is a shared receive queue of an XRC domain.
type deskSRQ struct {
	posted
	to Destination
}

// findSRQ is a Domain.
func (d *desk) findSRQ(number uint32) *Destination {
	if s := d.srqs[number]; s != nil {
		return &s.to
	}
	return nil
}

// addSRQ makes a shared receive queue. Memory of its own protection domain, with its number as the key,
// starts at 0.
func (d *desk) addSRQ(number uint32) {
	h := newHost()
	h.bytes(0, 1<<20, memory.LocalWrite)
	h.bytes(0x1000, 1<<16, open|memory.MWBind)
	m := ledger{h.view(17), func(l string) { d.printf("srq %d: %s", number, l) }}
	s := &deskSRQ{}
	s.to = Destination{Number: number, Memory: m, Receives: s, CQ: side{d, fmt.Sprintf("srq-%d-cq", number)}}
	d.srqs[number] = s
}

func (d *desk) printf(format string, args ...any) { fmt.Fprintf(&d.out, format+"\n", args...) }

// side identifies the queue of a completion.
type side struct {
	d    *desk
	name string
}

func (s side) CompleteRequest(c cq.Completion, solicited bool) {
	text := ""
	if c.Status == cq.Success {
		if c.ByteLen > 0 || c.Opcode >= cq.Recv {
			text += fmt.Sprintf(" len=%d", c.ByteLen)
		}
		if c.Flags&cq.WithImm != 0 {
			text += fmt.Sprintf(" imm=%d", c.Imm)
		}
		if c.Flags&cq.WithInv != 0 {
			text += fmt.Sprintf(" inv=%#x", c.Imm)
		}
		if c.SRQ != 0 {
			text += fmt.Sprintf(" srq=%d qp=%d from=%d", c.SRQ, c.QP, c.SrcQP)
		}
		if c.Flags&cq.GRH != 0 {
			text += fmt.Sprintf(" grh from=%d", c.SrcQP)
		}
		if solicited {
			text += " solicited"
		}
	}
	s.d.printf("%s id=%d %v %v%s", s.name, c.ID, c.Opcode, c.Status, text)
}

func (d *desk) Event(_ uint32, e qp.Event) { d.printf("%v", e) }

func (d *desk) OnSent(now units.Time, s Sent) {
	d.printf("sent at=%v %+v", now, s)
}

func (d *desk) OnLost(now units.Time, l Lost) {
	d.printf("lost at=%v %+v", now, l)
}

func (d *desk) OnAcked(now units.Time, a Acked) {
	a.Packet = nil // a place in memory
	d.printf("acked at=%v %+v", now, a)
}

func (d *desk) TakeRequest(wr *qp.RecvWR) bool {
	if len(d.shared) == 0 {
		return false
	}
	wr.ID, wr.SGL = d.shared[0].ID, append(wr.SGL[:0], d.shared[0].SGL...)
	d.shared = d.shared[1:]
	return true
}

func (d *desk) do(data *datadriven.TestData) (string, error) {
	d.out.Reset()
	var words []string
	for _, a := range data.CmdArgs {
		words = append(words, a.String())
	}
	args := fieldsOf(data.Cmd + " " + strings.Join(words, " "))
	err := d.command(data, args)
	if err == nil {
		err = args.rest()
	}
	return d.out.String(), err
}

func (d *desk) command(data *datadriven.TestData, args *fields) error {
	if d.qp == nil && data.Cmd != "qp" {
		return fmt.Errorf("first make a queue pair")
	}
	switch data.Cmd {
	case "qp":
		return d.make(args)
	case "region":
		n := args.number("len")
		b := &memory.Bytes{Base: args.number("va"), Data: make([]byte, n)}
		d.printf("key=%#x", d.host.add(b.Base, n, memory.Access(args.number("access")), b))
	case "forget":
		return d.host.table.Deregister(d.host.regions[uint32(args.number("key"))])
	case "srq":
		d.addSRQ(uint32(args.number("n")))
	case "no-srq":
		delete(d.srqs, uint32(args.number("n")))
	case "window":
		d.printf("key=%#x", d.host.window())
	case "post", "recv", "arrive":
		for line := range strings.Lines(data.Input) {
			f := fieldsOf(line)
			err := d.input(data.Cmd, f, line)
			if err == nil {
				err = f.rest()
			}
			if err != nil {
				return err
			}
		}
	case "next":
		for n := args.or("n", 1<<20); n > 0; n-- {
			var p roce.Packet
			if d.qp.Offer().Kind == Nothing {
				break
			}
			o := d.qp.Offer()
			if !d.qp.Next(d.now, &p) {
				continue
			}
			if o.Bytes != units.Bytes(p.Len()) {
				return fmt.Errorf("%v bytes were offered, %v came", o.Bytes, p.Len())
			}
			text := format(&p)
			if d.qp.config.Service == roce.UD {
				text += fmt.Sprintf(" path=%d", o.Path)
			}
			d.printf("%s", text)
		}
	case "wait":
		t, err := units.ParseTime(args.values["t"])
		if err != nil {
			return err
		}
		delete(args.values, "t")
		for end := d.now + t; ; {
			if d.qp.NextExpiry() > end {
				d.now = end
				break
			}
			d.now = d.qp.NextExpiry()
			d.qp.DoDueWork(d.now)
			d.printf("expired at=%v", d.now)
		}
	case "modify":
		for s := qp.Reset; s <= qp.Err; s++ {
			if args.flag(strings.ToLower(s.String())) {
				if err := d.qp.Modify(s, d.qp.Attr()); err != nil {
					d.printf("%v", err)
				}
			}
		}
	case "state":
		d.printf("%v", d.qp.State())
	case "counters":
		c := d.qp.Counters()
		c.EachCounter(func(name string, n uint64) {
			if n > 0 {
				d.printf("%s %d", name, n)
			}
		})
	case "timer":
		if d.qp.NextExpiry() == units.Never {
			d.printf("never")
		} else {
			d.printf("in %v", d.qp.NextExpiry()-d.now)
		}
	case "offer":
		o := d.qp.Offer()
		text := ""
		if d.qp.config.Service == roce.UD {
			text = fmt.Sprintf(" path=%d", o.Path)
		}
		d.printf("%s %d%s", [...]string{"nothing", "control", "response", "request"}[o.Kind], o.Bytes, text)
	case "outstanding":
		w, n := d.qp.Outstanding()
		d.printf("una=%d next=%d payload=%d", w.Una, w.Next, n)
	default:
		return fmt.Errorf("no command %q", data.Cmd)
	}
	return nil
}

// make makes a queue pair in RTS, or in the state named.
func (d *desk) make(f *fields) error {
	*d = desk{host: newHost()}
	d.host.bytes(0, 1<<20, memory.LocalWrite)
	d.host.bytes(0x1000, 1<<16, open|memory.MWBind)
	c := Config{
		Service: roce.RC, Number: 17, Memory: ledger{d.host.view(17), func(l string) { d.printf("%s", l) }}, SendCQ: side{d, "send-cq"}, RecvCQ: side{d, "recv-cq"}, Events: d,
		MaxSend: 16, MaxRecv: 16, MaxSGE: 4, MaxInline: 512,
		AckEvery: int(f.number("ack-every")), AskEvery: int(f.number("ask-every")),
	}
	switch {
	case f.flag("uc"):
		c.Service = roce.UC
	case f.flag("ud"):
		c.Service = roce.UD
	case f.flag("xrc-initiator"):
		c.Service, c.RecvCQ = roce.XRC, nil
	case f.flag("xrc-target"):
		c.Service, c.Domain, c.Memory, c.SendCQ, c.RecvCQ, d.srqs = roce.XRC, d.findSRQ, nil, nil, nil, map[uint32]*deskSRQ{}
	}
	if f.flag("srq") {
		c.Shared = d
	}
	if f.flag("feedback") {
		c.Feedback = d
	}
	if f.flag("connectx-3") {
		c.Recovery = NewConnectX3
	}
	var err error
	if d.qp, err = New(c); err != nil {
		return err
	}
	a := Attr{
		Access: memory.Access(f.or("access", uint64(open))), QKey: uint32(f.or("qkey", 0x11)),
		DestQP: 18, RQPSN: PSN(f.number("rq-psn")), PathMTU: units.Bytes(f.or("mtu", 256)),
		MaxDestRdAtomic: uint8(f.or("dest-rd", 2)), MinRNRTimer: uint8(f.or("rnr-timer", 1)),
		SQPSN: PSN(f.number("sq-psn")), Timeout: uint8(f.or("timeout", 4)),
		RetryCount: uint8(f.or("retry", 7)), RNRRetry: uint8(f.or("rnr-retry", 7)), MaxRdAtomic: uint8(f.or("rd", 2)),
	}
	last := qp.RTS
	if f.flag("rtr") {
		last = qp.RTR
	}
	for s := qp.Init; s <= last; s++ {
		if err := d.qp.Modify(s, a); err != nil {
			return err
		}
	}
	return nil
}

func (d *desk) input(command string, f *fields, line string) error {
	switch command {
	case "arrive":
		p, err := parse(d.qp.config.Service, line)
		if err != nil {
			return err
		}
		f.values = nil
		d.qp.Receive(d.now, &p, nil)
	case "recv":
		wr := qp.RecvWR{ID: f.number("id")}
		if n := f.number("len"); n > 0 {
			wr.SGL = []memory.SGE{{VA: f.number("va"), Length: uint32(n), LKey: uint32(f.or("lkey", localKey))}}
		}
		if n := uint32(f.number("srq")); n != 0 {
			d.srqs[n].list = append(d.srqs[n].list, &wr)
			return nil
		}
		if d.qp.config.Shared != nil {
			d.shared = append(d.shared, wr)
			return nil
		}
		if err := d.qp.PostRecv(&wr); err != nil {
			d.printf("%v", err)
		}
	case "post":
		wr := SendWR{
			ID: f.number("id"), RemoteVA: f.or("va", 0x1000), RKey: uint32(f.or("rkey", targetKey)), Imm: uint32(f.number("imm")),
			Compare: f.number("compare"), Swap: f.number("swap"),
			Path: uint32(f.number("path")), DestQP: uint32(f.number("to")), QKey: uint32(f.or("qkey", 0x11)), SRQ: uint32(f.number("srq")),
			Bind: memory.Binding{
				Window: uint32(f.number("window")), Tag: uint8(f.number("tag")), Region: uint32(f.or("region", targetKey)),
				Addr: f.or("from", 0x1000), Length: f.number("size"), Access: memory.Access(f.or("access", uint64(open))),
			},
			Op: 255,
		}
		for op, n := range opNames {
			if n == f.name {
				wr.Op = Op(op)
			}
		}
		n := f.or("len", 0)
		if wr.Op.isAtomic() {
			n = 8
		}
		switch {
		case f.flag("inline"):
			wr.Inline = make([]byte, n)
		case n > 0:
			wr.SGL = []memory.SGE{{Length: uint32(n), LKey: uint32(f.or("lkey", localKey))}}
		}
		if !f.flag("silent") {
			wr.Flags |= Signaled
		}
		if f.flag("fence") {
			wr.Flags |= Fence
		}
		if f.flag("solicited") {
			wr.Flags |= Solicited
		}
		if err := d.qp.PostSend(&wr); err != nil {
			d.printf("%v", err)
		}
	}
	return nil
}

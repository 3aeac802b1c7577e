package transport

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

func TestPSN(t *testing.T) {
	for _, c := range []struct {
		p, q   PSN
		from   uint32
		before bool
	}{
		{0, 0, 0, false},
		{1, 0, 1, false},
		{0, 1, roce.PSNMask, true},
		{0, roce.PSNMask, 1, false},
		{roce.PSNMask, 0, roce.PSNMask, true},
		{0, 1 << 23, 1 << 23, true},
		{5, 5 + 1<<23, 1 << 23, true},
		{5, 6 + 1<<23, 1<<23 - 1, false},
	} {
		if c.p.From(c.q) != c.from || c.p.Before(c.q) != c.before {
			t.Errorf("%d from %d: %d, before: %v", c.p, c.q, c.p.From(c.q), c.p.Before(c.q))
		}
	}
	if p := PSN(roce.PSNMask).Add(2); p != 1 {
		t.Error(p)
	}
}

func TestTimerCodes(t *testing.T) {
	for _, c := range []struct {
		got  units.Time
		want string
	}{
		{AckTimeout(0), "never"}, {AckTimeout(1), "8.192us"}, {AckTimeout(14), "67.108864ms"},
	} {
		want := units.Never
		if c.want != "never" {
			want, _ = units.ParseTime(c.want)
		}
		if c.got != want {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
}

// TestWhatIsWrongIsSaid checks that errors say how to fix them.
func TestWhatIsWrongIsSaid(t *testing.T) {
	config := func(change func(*Config)) Config {
		c := Config{Memory: sizes(), SendCQ: &count{}, RecvCQ: &count{}, MaxSend: 1, MaxRecv: 1, MaxSGE: 1}
		change(&c)
		return c
	}
	for want, c := range map[string]Config{
		"use RC (0)":           config(func(c *Config) { c.Service = 2 }),
		"needs Memory":         config(func(c *Config) { c.Memory = nil }),
		"more than 24 bits":    config(func(c *Config) { c.Number = 1 << 24 }),
		"is negative":          config(func(c *Config) { c.AckEvery = -1 }),
		"only RC and XRC":      config(func(c *Config) { c.Service, c.Recovery = roce.UD, NewGoBackN }),
		"only an XRC queue":    config(func(c *Config) { c.Domain = domainOf(Destination{}) }),
		"leave Shared out":     config(func(c *Config) { c.Service, c.Shared = roce.XRC, &posted{} }),
		"has more than 24 bit": config(func(c *Config) { c.Number = 1 << 31 }),
	} {
		if _, err := New(c); !errors.Is(err, syscall.EINVAL) && c.Service != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, a := range map[string]Attr{
		"256, 512, 1024": {PathMTU: 1500},
		"24 bits":        {PathMTU: 256, RQPSN: 1 << 24},
		"0 to 31":        {PathMTU: 256, MinRNRTimer: 32},
		"PSN 0x1000000":  {PathMTU: 256, SQPSN: 1 << 24},
		"timeout code":   {PathMTU: 256, Timeout: 32},
		"0 to 7":         {PathMTU: 256, RetryCount: 8},
	} {
		q, err := New(config(func(*Config) {}))
		if err != nil {
			t.Fatal(err)
		}
		for s := qp.Init; s <= qp.RTS && err == nil; s++ {
			err = q.Modify(s, a)
		}
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	q, _ := New(config(func(*Config) {}))
	if err := q.PostRecv(&qp.RecvWR{}); err != ErrState {
		t.Error(err)
	}
	for s := qp.Init; s <= qp.RTS; s++ {
		if err := q.Modify(s, Attr{PathMTU: 256}); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		wr   SendWR
		want error
	}{
		{SendWR{Op: 10}, ErrOp},
		{SendWR{Op: 10}, syscall.EINVAL},
		{SendWR{SGL: make([]memory.SGE, 2)}, syscall.EINVAL},
		{SendWR{Op: FetchAdd, SGL: []memory.SGE{{Length: 9}}}, ErrAtomic},
		{SendWR{}, nil},
		{SendWR{}, ErrQueueFull},
		{SendWR{}, syscall.ENOMEM},
	} {
		if err := q.PostSend(&c.wr); !errors.Is(err, c.want) {
			t.Errorf("%d: %v, want %v", i, err, c.want)
		}
	}
	for i, c := range []struct {
		wr   qp.RecvWR
		want error
	}{
		{qp.RecvWR{SGL: make([]memory.SGE, 2)}, syscall.EINVAL}, {qp.RecvWR{}, nil}, {qp.RecvWR{}, ErrQueueFull},
	} {
		if err := q.PostRecv(&c.wr); !errors.Is(err, c.want) {
			t.Errorf("%d: %v, want %v", i, err, c.want)
		}
	}
}

// TestXRC_RefusesARecoveryWithItsOwnPackets: IRN has no opcodes for XRC; other recoveries have those of
// RC, which XRC shares.
func TestXRC_RefusesARecoveryWithItsOwnPackets(t *testing.T) {
	c := Config{Service: roce.XRC, Domain: domainOf(Destination{}), Recovery: NewConnectX3}
	if _, err := New(c); err != nil {
		t.Error(err)
	}
	c.Recovery = paper
	if _, err := New(c); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("IRN: %v", err)
	}
}

func TestAdjust(t *testing.T) {
	q, err := New(Config{Memory: sizes(), SendCQ: &count{}, RecvCQ: &count{}})
	if err != nil {
		t.Fatal(err)
	}
	adjust := func(want string, change func(*Attr)) {
		t.Helper()
		a := q.Attr()
		change(&a)
		err := q.AdjustAttributes(a)
		switch {
		case want == "" && (err != nil || q.Attr() != a):
			t.Errorf("%v: %+v, want %+v", err, q.Attr(), a)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, want %q", err, want)
		}
	}
	adjust("before RTR", func(a *Attr) { a.Access = 0 })
	for s := qp.Init; s <= qp.RTS; s++ {
		if err := q.Modify(s, Attr{PathMTU: 256, RetryCount: 3, Access: memory.RemoteRead}); err != nil {
			t.Fatal(err)
		}
	}
	adjust("", func(a *Attr) { a.Access, a.MinRNRTimer = memory.RemoteWrite, 5 })
	adjust("0 to 31", func(a *Attr) { a.MinRNRTimer = 32 })
	adjust("in SQD", func(a *Attr) { a.Timeout = 9 })
	if err := q.Modify(qp.SQD, Attr{}); err != nil {
		t.Fatal(err)
	}
	adjust("", func(a *Attr) { a.Timeout, a.RetryCount, a.MaxRdAtomic = 9, 1, 3 })
	adjust("0 to 7", func(a *Attr) { a.RNRRetry = 8 })
	adjust("only Access", func(a *Attr) { a.PathMTU = 512 })
	if q.req.retries != 1 {
		t.Errorf("%d retries are left", q.req.retries)
	}
}

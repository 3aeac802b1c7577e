package labfile

import (
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// The types here describe RDMA NICs as a lab file does. As with switches in
// depth, keys that a node leaves out are taken from its kind.

// NICForm is the value of the key nic: settings, roce for a NIC with all
// defaults, or none. The two words override the settings of the kind.
type NICForm struct {
	none, plain bool
	Value       NIC
}

func (f *NICForm) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	switch text, scalar := yamlfile.ScalarText(n); {
	case !scalar:
		r.Read(&f.Value, n, what)
	case text == "none":
		f.none = true
	case text == "roce":
		f.plain = true
	default:
		r.FailAt(n, "settings are a mapping: write for example nic: {cc: dcqcn}", "%s: %q must be one of roce, none", what, text)
	}
}

func (NICForm) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.EnumSchema("roce", "none"), m.SchemaOf(reflect.TypeFor[NIC]())}}
}

// MergeOver merges the settings of a node's f and its kind's base, and returns nil
// if there is no NIC. Either may be nil.
func (f *NICForm) MergeOver(r *yamlfile.Reader, base *NICForm) *NIC {
	if f == nil {
		f, base = base, nil
	}
	switch {
	case f == nil || f.none:
		return nil
	case f.plain:
		return &NIC{}
	case base == nil:
		return &f.Value
	}
	return f.Value.joinBase(r, &base.Value)
}

// NIC holds the settings of an RDMA NIC.
type NIC struct {
	Control     *Control             `yaml:"cc,omitempty" jsonschema_description:"rate control of each RC, UC and XRC queue pair: its name, or {name: {settings}}; default none"`
	Recovery    *Recovery            `yaml:"recovery,omitempty" jsonschema_description:"loss recovery of each RC and XRC queue pair: its name, or {name: {settings}}; default go-back-n"`
	MTU         *PathMTU             `yaml:"mtu,omitempty" jsonschema_description:"largest path MTU; default the largest that fits the link's mtu"`
	DSCP        *DSCP                `yaml:"dscp,omitempty" jsonschema_description:"DSCP of packets whose address vector has no traffic class, 0 to 63; default 0"`
	AckDSCP     *DSCP                `yaml:"ack-dscp,omitempty" jsonschema_description:"DSCP of ACKs, NAKs and atomic responses, 0 to 63, which selects their class; default the one that the rate control needs, or the data's"`
	AckEvery    *PSNInterval         `yaml:"ack-every,omitempty" jsonschema_description:"number of packets after which a responder acknowledges unasked, 0 for never; default 0"`
	AskEvery    *PSNInterval         `yaml:"ask-every,omitempty" jsonschema_description:"number of packets after which a requester asks for an acknowledgement, as it does at the end of messages; 0 for never; default the number that the rate control needs, or 64"`
	Timeout     *AckTimeout          `yaml:"timeout,omitempty" jsonschema_description:"local ACK timeout of modelled transfers, rounded up to 4.096us times a power of 2, or none; default 16.777216ms"`
	Retries     *Retries             `yaml:"retries,omitempty" jsonschema_description:"retries of modelled transfers after a timeout or a NAK, 0 to 7; default 7"`
	RNRRetries  *RNRRetries          `yaml:"rnr-retries,omitempty" jsonschema_description:"retries of modelled transfers after an RNR NAK, 0 to 6, or unlimited, which is 7; default unlimited"`
	RNRTimer    *RNRTimer            `yaml:"rnr-timer,omitempty" jsonschema_description:"wait that RNR NAKs of modelled transfers ask for, rounded up to one of IBTA's 32; default 640us"`
	Delays      *OrNone[Delays]      `yaml:"delays,omitempty" jsonschema_description:"delays between NIC and host: times, a preset, or none; default none"`
	RateLimiter *OrNone[RateLimiter] `yaml:"rate-limiter,omitempty" jsonschema_description:"rate limiters (ibv_modify_qp_rate_limit): number and range, a preset, or none for one per queue pair that takes effect at once; default none"`
	Layer       *Layer               `yaml:"layer,omitempty" jsonschema_description:"software between programs and RC and UC queue pairs: its name, {name: {settings}}, or none; default none"`
	Limits      *Limits              `yaml:"limits,omitempty" jsonschema_description:"limits of the device, by the names of ibv_device_attr; default a ConnectX-5's"`
}

// Join returns f with missing keys taken from base.
func (f *NIC) joinBase(r *yamlfile.Reader, base *NIC) *NIC {
	joined := joinUnder(r, f, base)
	joined.Control = f.Control.JoinChoice(r, base.Control)
	joined.Recovery = f.Recovery.JoinChoice(r, base.Recovery)
	joined.Delays = underNone(r, f.Delays, base.Delays, func(a, b *Delays) *Delays { return a.joinBase(r, b) })
	joined.RateLimiter = underNone(r, f.RateLimiter, base.RateLimiter, func(a, b *RateLimiter) *RateLimiter { return a.joinBase(r, b) })
	joined.Layer = f.Layer.JoinChoice(r, base.Layer)
	joined.Limits = joinUnder(r, f.Limits, base.Limits)
	return joined
}

// MovedKeys returns hints for keys that belong elsewhere in the file.
func (NIC) MovedKeys() map[string]string {
	hint := "write the settings of a rate control under its name: cc: {dcqcn: {preset: paper, rpg_gd: 10}}"
	hints := map[string]string{"preset": hint}
	for _, name := range cc.Methods.Names() {
		hints[name] = hint
	}
	return hints
}

// Limits holds the limits of a device, with the names of
// ibv_query_device(3).
type Limits struct {
	MRSize       *units.Bytes `yaml:"max_mr_size,omitempty" jsonschema_description:"size of a memory region; default 2^64-1 bytes"`
	MR           *Limit       `yaml:"max_mr,omitempty" jsonschema_description:"memory regions; default 16777216"`
	MW           *Limit       `yaml:"max_mw,omitempty" jsonschema_description:"memory windows; default 16777216"`
	PD           *Limit       `yaml:"max_pd,omitempty" jsonschema_description:"protection domains; default 16777216"`
	CQ           *Limit       `yaml:"max_cq,omitempty" jsonschema_description:"completion queues; default 16777216"`
	CQE          *Limit       `yaml:"max_cqe,omitempty" jsonschema_description:"entries of a completion queue; default 4194303"`
	QP           *Limit       `yaml:"max_qp,omitempty" jsonschema_description:"queue pairs; default 262144"`
	QPWR         *Limit       `yaml:"max_qp_wr,omitempty" jsonschema_description:"work requests of a queue; default 32768"`
	SGE          *Limit       `yaml:"max_sge,omitempty" jsonschema_description:"elements of a list; default 30"`
	Inline       *units.Bytes `yaml:"max_inline_data,omitempty" jsonschema_description:"data in a work request itself; default 512B"`
	QPRdAtom     *Limit       `yaml:"max_qp_rd_atom,omitempty" jsonschema_description:"READs and atomics that a peer may have outstanding, 0 to 255; default 16"`
	QPInitRdAtom *Limit       `yaml:"max_qp_init_rd_atom,omitempty" jsonschema_description:"READs and atomics that a queue pair may have outstanding, 0 to 255; default 16"`
	Atomics      *Atomics     `yaml:"atomics,omitempty" jsonschema_description:"whether atomic operations are supported; default on"`
	SRQ          *Limit       `yaml:"max_srq,omitempty" jsonschema_description:"shared receive queues; default 8388608"`
	SRQWR        *Limit       `yaml:"max_srq_wr,omitempty" jsonschema_description:"work requests of a shared receive queue; default 32767"`
	SRQSGE       *Limit       `yaml:"max_srq_sge,omitempty" jsonschema_description:"elements of a list of a shared receive queue; default 31"`
	AH           *Limit       `yaml:"max_ah,omitempty" jsonschema_description:"address handles; default 2147483647"`
	McastGroups  *Limit       `yaml:"max_mcast_grp,omitempty" jsonschema_description:"multicast groups; default 2097152"`
}

// Limit is a number of objects of a device.
type Limit int

// UnmarshalText reads a number from 0 to 2147483647.
func (l *Limit) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 0, math.MaxInt32)
	*l = Limit(n)
	return err
}

func (Limit) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.IntegerSchema(0, math.MaxInt32)
}

// Atomics says whether a device has atomic operations.
type Atomics bool

// UnmarshalText reads on or off.
func (a *Atomics) UnmarshalText(b []byte) error {
	if s := string(b); s != "on" && s != "off" {
		return fmt.Errorf("%q must be one of on, off", b)
	}
	*a = string(b) == "on"
	return nil
}

func (Atomics) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema("on", "off")
}

// PathMTU is a path MTU. As for a link's MTU, the unit may be left out.
type PathMTU qp.MTU

// UnmarshalText reads 256, 512, 1024, 2048 or 4096, or such a number of bytes.
func (m *PathMTU) UnmarshalText(b []byte) error {
	var n change.MTU
	err := n.UnmarshalText(b)
	for mtu := qp.MTU256; mtu <= qp.MTU4096; mtu++ {
		if err == nil && int(n) == mtu.Bytes() {
			*m = PathMTU(mtu)
			return nil
		}
	}
	return fmt.Errorf("%q must be one of 256, 512, 1024, 2048, 4096", b)
}

func (PathMTU) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	s := &jsonschema.Schema{}
	for mtu := qp.MTU256; mtu <= qp.MTU4096; mtu++ {
		s.Enum = append(s.Enum, mtu.Bytes(), strconv.Itoa(mtu.Bytes())+"B")
	}
	return s
}

// maxInterval is half the PSN space: no more packets can be outstanding.
const maxInterval = 1 << 23

// PSNInterval is a number of packets.
type PSNInterval int

// UnmarshalText reads a number from 0 to maxInterval.
func (p *PSNInterval) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 0, maxInterval)
	*p = PSNInterval(n)
	return err
}

func (PSNInterval) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.IntegerSchema(0, maxInterval)
}

// AckTimeout is the code of a local ACK timeout.
type AckTimeout uint8

// UnmarshalText reads none, or a time, which it rounds up to the next one that
// has a code.
func (t *AckTimeout) UnmarshalText(b []byte) error {
	if string(b) == "none" {
		*t = 0
		return nil
	}
	const last = 31
	span, err := units.ParseTime(string(b))
	switch {
	case err != nil:
		return err
	case span <= 0 || span > transport.AckTimeout(last):
		return fmt.Errorf("%v must be above 0 and at most 4.096us times 2^%d, about 2.4h: write none for no timeout", span, last)
	}
	for *t = 1; transport.AckTimeout(uint8(*t)) < span; {
		*t++
	}
	return nil
}

func (AckTimeout) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.TextSchema(yamlfile.TimeForm), {Const: "none"}}}
}

// Retries is the retry count of a queue pair.
type Retries uint8

// MaxRetries bounds the retries of a queue pair: the field has three bits.
const MaxRetries = 7

// UnmarshalText reads a number from 0 to MaxRetries.
func (n *Retries) UnmarshalText(b []byte) error {
	v, err := yamlfile.ParseInt(b, 0, MaxRetries)
	*n = Retries(v)
	return err
}

func (Retries) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.IntegerSchema(0, MaxRetries)
}

// RNRRetries is how often a queue pair retries after an RNR NAK; 7 means no
// limit.
type RNRRetries uint8

// UnmarshalText reads a number from 0 to 6, or unlimited or 7.
func (n *RNRRetries) UnmarshalText(b []byte) error {
	text := string(b)
	if text == "unlimited" {
		text = "7"
	}
	v, err := yamlfile.ParseInt([]byte(text), 0, MaxRetries)
	if err != nil {
		return fmt.Errorf("%q is neither a whole number from 0 to 6 nor unlimited", b)
	}
	*n = RNRRetries(v)
	return nil
}

func (RNRRetries) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.IntegerSchema(0, MaxRetries), {Const: "unlimited"}}}
}

// RNRTimer is the code of the wait that an RNR NAK asks for.
type RNRTimer uint8

// UnmarshalText reads a time, which it rounds up to the next one that has a
// code.
func (t *RNRTimer) UnmarshalText(b []byte) error {
	longest := roce.RNRTime(0)
	span, err := units.ParseTime(string(b))
	switch {
	case err != nil:
		return err
	case span <= 0 || span > longest:
		return fmt.Errorf("%v must be above 0 and at most %v", span, longest)
	}
	*t = RNRTimer(roce.RNRCode(span))
	return nil
}

func (RNRTimer) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.TextSchema(yamlfile.TimeForm)
}

package transport

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weftlab/weft/wire/roce"
)

// Packets as text: the operation, then the values of its headers. A transcript omits the fields
// that are always the same.

var operationNames = []string{
	"send-first", "send-middle", "send-last", "send-last-imm", "send-only", "send-only-imm",
	"write-first", "write-middle", "write-last", "write-last-imm", "write-only", "write-only-imm",
	"read-request", "read-first", "read-middle", "read-last", "read-only", "ack", "atomic-ack",
	"cas", "faa", "reserved", "send-last-inv", "send-only-inv",
}

var nakNames = map[uint8]string{
	roce.SyndromeSequence: "nak-sequence", roce.SyndromeInvalidRequest: "nak-invalid-request",
	roce.SyndromeRemoteAccess: "nak-remote-access", roce.SyndromeRemoteOperation: "nak-remote-op",
}

// format returns the text of a packet.
func format(p *roce.Packet) string {
	var b strings.Builder
	op := p.BTH.Opcode.Operation()
	name := operationNames[op]
	if op == roce.Ack {
		name = syndromeName(p.AETH.Syndrome)
	}
	fmt.Fprintf(&b, "%s psn=%d", name, p.BTH.PSN)
	switch op {
	case roce.WriteFirst, roce.WriteOnly, roce.WriteOnlyImm, roce.ReadRequest:
		fmt.Fprintf(&b, " va=%#x rkey=%#x dma=%d", p.RETH.VA, p.RETH.RKey, p.RETH.Length)
	case roce.CompareSwap:
		fmt.Fprintf(&b, " va=%#x rkey=%#x compare=%d swap=%d", p.FurtherHeaders().Atomic.VA, p.FurtherHeaders().Atomic.RKey, p.FurtherHeaders().Atomic.Compare, p.FurtherHeaders().Atomic.Swap)
	case roce.FetchAdd:
		fmt.Fprintf(&b, " va=%#x rkey=%#x swap=%d", p.FurtherHeaders().Atomic.VA, p.FurtherHeaders().Atomic.RKey, p.FurtherHeaders().Atomic.Swap)
	case roce.Ack, roce.ReadFirst, roce.ReadLast, roce.ReadOnly:
		fmt.Fprintf(&b, " msn=%d", p.AETH.MSN)
	case roce.AtomicAck:
		fmt.Fprintf(&b, " msn=%d old=%d", p.AETH.MSN, p.FurtherHeaders().AtomicAck.Original)
	}
	if p.BTH.Opcode.Extensions().Has(roce.ExtXRCETH) {
		fmt.Fprintf(&b, " srq=%d", p.FurtherHeaders().XRC.SRQ)
	}
	switch s := shapes[op]; {
	case s.imm:
		fmt.Fprintf(&b, " imm=%d", p.ImmDt.Data)
	case s.invalidate:
		fmt.Fprintf(&b, " inv=%#x", p.IETH.RKey)
	}
	if p.BTH.Opcode.Service() == roce.UD {
		fmt.Fprintf(&b, " to=%d qkey=%#x from=%d", p.BTH.DestQP, p.FurtherHeaders().DETH.QKey, p.FurtherHeaders().DETH.SourceQP)
	}
	if shapes[op].kind != none || op >= roce.ReadFirst && op <= roce.ReadOnly {
		fmt.Fprintf(&b, " len=%d", p.Length)
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{p.BTH.Solicited, "solicited"}, {p.BTH.AckReq, "ackreq"}} {
		if f.on {
			b.WriteString(" " + f.name)
		}
	}
	return b.String()
}

func syndromeName(s uint8) string {
	switch {
	case s&roce.SyndromeKind == roce.SyndromeAck:
		return "ack"
	case s&roce.SyndromeKind == roce.SyndromeRNR:
		return fmt.Sprintf("rnr-nak timer=%d", s&31)
	}
	return nakNames[s]
}

// parse reads the output of format.
func parse(service roce.Service, line string) (roce.Packet, error) {
	f := fieldsOf(line)
	p := roce.Packet{AETH: roce.AETH{Syndrome: roce.SyndromeUnlimited}}
	op := -1
	for i, n := range operationNames {
		if n == f.name {
			op = i
		}
	}
	for s, n := range nakNames {
		if n == f.name {
			op, p.AETH.Syndrome = int(roce.Ack), s
		}
	}
	if f.name == "rnr-nak" {
		op, p.AETH.Syndrome = int(roce.Ack), roce.SyndromeRNR|uint8(f.number("timer"))
	}
	if f.name == "syndrome" {
		op, p.AETH.Syndrome = int(roce.Ack), uint8(f.number("code"))
	}
	if op < 0 {
		return p, fmt.Errorf("no operation %q", f.name)
	}
	p.BTH = roce.BTH{
		Opcode: service.WithOperation(roce.Opcode(op)), PSN: uint32(f.number("psn")), DestQP: 1,
		Solicited: f.flag("solicited"), AckReq: f.flag("ackreq"),
	}
	p.RETH = roce.RETH{VA: f.number("va"), RKey: uint32(f.number("rkey")), Length: uint32(f.number("dma"))}
	p.FurtherHeaders().Atomic = roce.AtomicETH{VA: p.RETH.VA, RKey: p.RETH.RKey, Swap: f.number("swap"), Compare: f.number("compare")}
	p.AETH.MSN = uint32(f.number("msn"))
	p.FurtherHeaders().DETH = roce.DETH{QKey: uint32(f.number("qkey")), SourceQP: uint32(f.number("from"))}
	p.FurtherHeaders().AtomicAck.Original = f.number("old")
	p.FurtherHeaders().XRC.SRQ = uint32(f.number("srq"))
	p.ImmDt.Data, p.IETH.RKey = uint32(f.number("imm")), uint32(f.number("inv"))
	p.Length, p.Truncated = int(f.number("len")), f.flag("truncated")
	return p, f.rest()
}

// fields is a line of a transcript: a name, then key=value and flags.
type fields struct {
	name   string
	values map[string]string
	err    error
}

func fieldsOf(line string) *fields {
	words := strings.Fields(line)
	f := &fields{values: map[string]string{}}
	for i, w := range words {
		k, v, _ := strings.Cut(w, "=")
		if i == 0 && v == "" {
			f.name = w
			continue
		}
		f.values[k] = v
	}
	return f
}

func (f *fields) number(key string) uint64 {
	v, ok := f.values[key]
	if !ok {
		return 0
	}
	delete(f.values, key)
	n, err := strconv.ParseUint(v, 0, 64)
	if err != nil {
		f.err = err
	}
	return n
}

func (f *fields) or(key string, otherwise uint64) uint64 {
	if _, ok := f.values[key]; !ok {
		return otherwise
	}
	return f.number(key)
}

func (f *fields) flag(key string) bool {
	_, ok := f.values[key]
	delete(f.values, key)
	return ok
}

// rest returns an error for unused fields.
func (f *fields) rest() error {
	for k := range f.values {
		return fmt.Errorf("nobody wants %q of %q", k, f.name)
	}
	return f.err
}

package roce

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/internal/oracle"
)

var sharkFields = []string{
	"infiniband.bth.se", "infiniband.bth.m", "infiniband.bth.padcnt", "infiniband.bth.tver", "infiniband.bth.a", "weft.bth.fecn", "weft.bth.becn",
	"infiniband.bth.opcode", "infiniband.bth.p_key", "infiniband.bth.destqp", "infiniband.bth.psn",
	"infiniband.deth.q_key", "infiniband.deth.srcqp",
	"infiniband.reth.va", "infiniband.reth.r_key", "infiniband.reth.dmalen",
	"infiniband.atomiceth.swapdt", "infiniband.atomiceth.cmpdt",
	"infiniband.aeth.syndrome", "infiniband.aeth.msn", "infiniband.atomicacketh.origremdt",
	"infiniband.immdt", "infiniband.ieth", "infiniband.invariant.crc",
	"weft.cnp", "weft.cnp.opcode", "weft.cnp.destqp", "weft.cnp.psn", "weft.cnp.icrc",
}

// sharkRow returns what tshark should show for a packet.
func sharkRow(p *Packet) []string {
	h, row := &p.BTH, map[string]string{}
	set := func(field, format string, v any) { row[field] = fmt.Sprintf(format, v) }
	flag := map[bool]string{false: "0", true: "1"}
	icrc := binary.BigEndian.Uint32(binary.LittleEndian.AppendUint32(nil, p.ICRC)) // tshark prints the bytes in their order
	set("weft.bth.fecn", "%s", flag[h.FECN])
	set("weft.bth.becn", "%s", flag[h.BECN])
	set("infiniband.bth.se", "%s", flag[h.Solicited])
	set("infiniband.bth.m", "%s", flag[h.MigReq])
	set("infiniband.bth.padcnt", "%d", h.Pad)
	set("infiniband.bth.tver", "%d", 0)
	set("infiniband.bth.a", "%s", flag[h.AckReq])
	set("infiniband.bth.opcode", "%d", uint8(h.Opcode))
	set("infiniband.bth.p_key", "%d", h.PKey)
	set("infiniband.bth.destqp", "0x%06x", h.DestQP)
	set("infiniband.bth.psn", "%d", h.PSN)
	if h.Opcode == NotifyCongestion {
		set("weft.cnp", "%d", 1)
		set("weft.cnp.opcode", "%#x", uint8(h.Opcode))
		set("weft.cnp.destqp", "0x%06x", h.DestQP)
		set("weft.cnp.psn", "%d", h.PSN)
		set("weft.cnp.icrc", "0x%08x", icrc)
	} else {
		set("infiniband.invariant.crc", "0x%08x", icrc)
	}
	e := p.Extensions
	if e.Has(ExtDETH) {
		set("infiniband.deth.q_key", "0x%016x", p.FurtherHeaders().DETH.QKey)
		set("infiniband.deth.srcqp", "0x%08x", p.FurtherHeaders().DETH.SourceQP)
	}
	if e.Has(ExtRETH) {
		set("infiniband.reth.va", "0x%016x", p.RETH.VA)
		set("infiniband.reth.r_key", "0x%08x", p.RETH.RKey)
		set("infiniband.reth.dmalen", "%d", p.RETH.Length)
	}
	if e.Has(ExtAtomicETH) {
		set("infiniband.reth.va", "0x%016x", p.FurtherHeaders().Atomic.VA)
		set("infiniband.reth.r_key", "0x%08x", p.FurtherHeaders().Atomic.RKey)
		set("infiniband.atomiceth.swapdt", "%d", p.FurtherHeaders().Atomic.Swap)
		set("infiniband.atomiceth.cmpdt", "%d", p.FurtherHeaders().Atomic.Compare)
	}
	if e.Has(ExtAETH) {
		set("infiniband.aeth.syndrome", "%d", p.AETH.Syndrome)
		set("infiniband.aeth.msn", "%d", p.AETH.MSN)
	}
	if e.Has(ExtAtomicAckETH) {
		set("infiniband.atomicacketh.origremdt", "%d", p.FurtherHeaders().AtomicAck.Original)
	}
	if e.Has(ExtImmDt) {
		set("infiniband.immdt", "%08[1]x,%08[1]x", p.ImmDt.Data) // the header and the field have one name
	}
	if e.Has(ExtIETH) {
		set("infiniband.ieth", "%08[1]x,%08[1]x", p.IETH.RKey)
	}
	out := make([]string, len(sharkFields))
	for i, f := range sharkFields {
		out[i] = row[f]
	}
	return out
}

// TestTsharkAgrees: tshark reads every field of the captures' packets, and of
// generated packets of all opcodes, as we do, and reports no errors.
func TestTsharkAgrees(t *testing.T) {
	all := map[string][][]byte{"made": standard(made(t))}
	for _, name := range captures {
		all[name] = oracle.UDP(t, name, Port)
	}
	for name, frames := range all {
		t.Run(name, func(t *testing.T) {
			for i, got := range oracle.Tshark(t, "../../observe/dissector/weft.lua", frames, sharkFields...) {
				var p Packet
				if err := p.DecodeIP(frames[i][ethernet:]); err != nil {
					t.Fatal(err)
				}
				for j, want := range sharkRow(&p) {
					if want != got[j] {
						t.Errorf("packet %d, a %v: %s is %q, tshark says %q", i, p.BTH.Opcode, sharkFields[j], want, got[j])
					}
				}
			}
		})
	}
}

// TestTsharkNamesOpcodes checks that tshark's names of opcodes agree with ours.
func TestTsharkNamesOpcodes(t *testing.T) {
	short := strings.NewReplacer(" with", "", "CmpSwap", "Compare Swap", "FetchAdd", "Fetch Add")
	frames := standard(made(t))
	for i, row := range oracle.Tshark(t, "../../observe/dissector/weft.lua", frames, "_ws.col.Info") {
		var p Packet
		if err := p.DecodeIP(frames[i][ethernet:]); err != nil {
			t.Fatal(err)
		}
		want := short.Replace(p.BTH.Opcode.String())
		if got, _, _ := strings.Cut(row[0], "QP="); !strings.EqualFold(strings.TrimSpace(got), want) {
			t.Errorf("opcode %#x is a %v, tshark says %q", uint8(p.BTH.Opcode), p.BTH.Opcode, row[0])
		}
	}
}

// standard returns the frames of the services whose headers Wireshark reads.
func standard(frames [][]byte) [][]byte {
	return slices.DeleteFunc(frames, func(b []byte) bool { s := decoded(b).BTH.Opcode.Service(); return s == IRN || s == XRC })
}

// ofService returns the frames of a service.
func ofService(frames [][]byte, s Service) [][]byte {
	return slices.DeleteFunc(frames, func(b []byte) bool { return decoded(b).BTH.Opcode.Service() != s })
}

// TestTsharkReadsXRC: Wireshark reads the base transport header, and the dissector the headers after
// column returns what tshark shows of a field of a header that packets with x have; "" without it.
func column(have, x Extension, format string, v any) string {
	if !have.Has(x) {
		return ""
	}
	return fmt.Sprintf(format, v)
}

// remoteMemory returns the address and the key in a RETH or an AtomicETH.
func remoteMemory(p *Packet) (va uint64, key uint32) {
	if p.Extensions.Has(ExtAtomicETH) {
		a := &p.FurtherHeaders().Atomic
		return a.VA, a.RKey
	}
	return p.RETH.VA, p.RETH.RKey
}

// it.
func TestTsharkReadsXRC(t *testing.T) {
	frames := ofService(made(t), XRC)
	fields := []string{"infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn", "xrc.srq", "xrc.va", "xrc.rkey", "xrc.length", "xrc.imm", "xrc.invalidate", "xrc.syndrome", "xrc.msn", "xrc.swap", "xrc.compare", "xrc.original", "xrc.icrc", "_ws.col.Info"}
	for i, row := range oracle.Tshark(t, "reliable.lua", frames, fields...) {
		p := decoded(frames[i])
		e, more := p.Extensions, p.FurtherHeaders()
		want := []string{fmt.Sprint(uint8(p.BTH.Opcode)), fmt.Sprintf("0x%06x", p.BTH.DestQP), fmt.Sprint(p.BTH.PSN)}
		field := func(x Extension, format string, v any) { want = append(want, column(e, x, format, v)) }
		va, key := remoteMemory(&p)
		field(ExtXRCETH, "%d", more.XRC.SRQ)
		field(ExtRETH|ExtAtomicETH, "0x%016x", va)
		field(ExtRETH|ExtAtomicETH, "0x%08x", key)
		field(ExtRETH, "%d", p.RETH.Length)
		field(ExtImmDt, "0x%08x", p.ImmDt.Data)
		field(ExtIETH, "0x%08x", p.IETH.RKey)
		field(ExtAETH, "0x%02x", p.AETH.Syndrome)
		field(ExtAETH, "%d", p.AETH.MSN)
		field(ExtAtomicETH, "%d", more.Atomic.Swap)
		field(ExtAtomicETH, "%d", more.Atomic.Compare)
		field(ExtAtomicAckETH, "%d", more.AtomicAck.Original)
		want = append(want, fmt.Sprintf("%x", binary.LittleEndian.AppendUint32(nil, p.ICRC)),
			fmt.Sprintf("%v QP=0x%06x PSN=%d", p.BTH.Opcode, p.BTH.DestQP, p.BTH.PSN))
		for j := range want {
			if want[j] != row[j] {
				t.Errorf("packet %d, a %v: %s is %q, tshark says %q", i, p.BTH.Opcode, fields[j], want[j], row[j])
			}
		}
	}
}

// TestTsharkReadsIRN: the dissector reads the headers that the packets have.
func TestTsharkReadsIRN(t *testing.T) {
	frames := ofService(made(t), IRN)
	fields := []string{"irn.opcode", "irn.psn", "irn.ordered", "irn.va", "irn.rkey", "irn.left", "irn.receive", "irn.packet", "irn.imm", "irn.invalidate", "irn.syndrome", "irn.msn", "irn.swap", "irn.compare", "irn.original", "irn.response", "irn.kept", "_ws.col.Info"}
	for i, row := range oracle.Tshark(t, "reliable.lua", frames, fields...) {
		p := decoded(frames[i])
		e := p.Extensions
		want := []string{fmt.Sprint(uint8(p.BTH.Opcode)), fmt.Sprint(p.BTH.PSN), map[bool]string{true: "1", false: "0"}[p.BTH.MigReq]}
		field := func(x Extension, format string, v any) { want = append(want, column(e, x, format, v)) }
		va, key := remoteMemory(&p)
		field(ExtRETH|ExtAtomicETH, "0x%016x", va)
		field(ExtRETH|ExtAtomicETH, "0x%08x", key)
		field(ExtRETH, "%d", p.RETH.Length)
		field(ExtSendETH, "%d", p.Send.Receive)
		field(ExtSendETH, "%d", p.Send.Packet)
		field(ExtImmDt, "0x%08x", p.ImmDt.Data)
		field(ExtIETH, "0x%08x", p.IETH.RKey)
		field(ExtAETH, "0x%02x", p.AETH.Syndrome)
		field(ExtAETH, "%d", p.AETH.MSN)
		field(ExtAtomicETH, "%d", p.FurtherHeaders().Atomic.Swap)
		field(ExtAtomicETH, "%d", p.FurtherHeaders().Atomic.Compare)
		field(ExtAtomicAckETH, "%d", p.FurtherHeaders().AtomicAck.Original)
		first, come := e&ExtSelETH, e&ExtSelETH
		if e.Has(ExtRETH | ExtAtomicETH) {
			come = 0
		} else {
			first = 0
		}
		show := func(there Extension) {
			if there == 0 {
				want = append(want, "")
			} else {
				want = append(want, fmt.Sprint(p.Selective.PSN))
			}
		}
		show(first)
		show(come)
		want = append(want, fmt.Sprintf("%v QP=0x%06x PSN=%d", p.BTH.Opcode, p.BTH.DestQP, p.BTH.PSN))
		for j := range want {
			if want[j] != row[j] {
				t.Errorf("packet %d, a %v: %s is %q, tshark says %q", i, p.BTH.Opcode, fields[j], want[j], row[j])
			}
		}
	}
}

// decoded decodes a generated frame.
func decoded(b []byte) (p Packet) {
	if err := p.DecodeIP(b[ethernet:]); err != nil {
		panic(err)
	}
	return p
}

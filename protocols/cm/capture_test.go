package cm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/wire/roce"
)

// Traffic of two machines with Linux 6.1's rdma_rxe: see package roce's tests.
// Both captures have rdma_cm connections that are set up and ended.
var captures = []string{"../../wire/roce/testdata/rping.pcap", "../../wire/roce/testdata/pingpong.pcap"}

const (
	ethernet = 14
	before   = ethernet + 20 + 8 + roce.BTHLen + roce.DETHLen // a MAD over IPv4
)

// mads returns the frames of a capture that carry management datagrams.
func mads(t testing.TB, name string) (all [][]byte) {
	for _, b := range oracle.UDP(t, name, roce.Port) {
		var p roce.Packet
		if err := p.DecodeIP(b[ethernet:]); err != nil {
			t.Fatal(err)
		}
		if p.BTH.DestQP == roce.ManagementQP {
			all = append(all, b)
		}
	}
	return all
}

// TestCapturesRoundTrip decodes Linux's messages, by Parse and as gopacket's
// layers, and encodes them to the same bytes.
func TestCapturesRoundTrip(t *testing.T) {
	want := []gopacket.LayerType{LayerTypeREQ, LayerTypeREP, LayerTypeRTU, LayerTypeDREQ, LayerTypeDREP}
	for _, name := range captures {
		var got []gopacket.LayerType
		for _, b := range mads(t, name) {
			mad := b[before : before+MADLen]
			h, m, err := Parse(mad)
			if err != nil {
				t.Fatal(err)
			}
			again := bytes.Repeat([]byte{0xee}, MADLen)
			PutMAD(again, h.Transaction, m)
			if diff := cmp.Diff(mad, again); diff != "" {
				t.Errorf("%s: a %v (-was +made):\n%s", name, h.Attribute, diff)
			}
			p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
			if e := p.ErrorLayer(); e != nil {
				t.Fatal(e.Error())
			}
			var all []gopacket.SerializableLayer
			var types []gopacket.LayerType
			for _, l := range p.Layers() {
				all = append(all, l.(gopacket.SerializableLayer))
				types = append(types, l.LayerType())
			}
			if diff := cmp.Diff([]gopacket.LayerType{layers.LayerTypeUDP, roce.LayerTypeBTH, roce.LayerTypeDETH, LayerTypeMAD, layerType(h.Attribute), roce.LayerTypeICRC}, types[2:]); diff != "" {
				t.Errorf("%s: a %v (-want +got):\n%s", name, h.Attribute, diff)
			}
			got = append(got, types[6])
			buffer := gopacket.NewSerializeBuffer()
			if err := roce.SerializePacket(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(b, buffer.Bytes()); diff != "" {
				t.Errorf("%s: a %v made of its layers (-was +made):\n%s", name, h.Attribute, diff)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestCapturedREQ: what rping's client asks for, field by field.
func TestCapturedREQ(t *testing.T) {
	_, m, err := Parse(mads(t, captures[0])[0][before:])
	if err != nil {
		t.Fatal(err)
	}
	client, server := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")
	want := &REQ{
		LocalID: 0x8c02c041, Service: IPService(ProtocolTCP, 7174), CAGUID: 0x505400fffe000002, QPN: 0x11,
		ResponderResources: 1, InitiatorDepth: 1, RemoteTimeout: 20, LocalTimeout: 20, StartPSN: 0x85d452, RetryCount: 7, RNRRetryCount: RNRForever,
		PKey: roce.DefaultPKey, PathMTU: MTU1024, MaxCMRetries: MaxCMRetries,
		Primary: Path{
			LocalLID: PermissiveLID, RemoteLID: PermissiveLID, LocalGID: GIDOf(client), RemoteGID: GIDOf(server),
			// rdma_cm derives it from the ports.
			FlowLabel: (41977*31 + 7174) & 0xfffff, HopLimit: 64, ACKTimeout: 19,
		},
	}
	private := IPHeader{Source: netip.AddrPortFrom(client, 41977), Destination: server}
	private.EncodeTo(want.PrivateData[:])
	if diff := cmp.Diff(want, m, cmp.Comparer(func(a, b GID) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var got IPHeader
	if err := got.Decode(m.(*REQ).PrivateData[:]); err != nil || got != private {
		t.Errorf("private data of %v, %v; want %v", got, err, private)
	}
}

// flag is how tshark shows a single bit.
func flag(b bool) string {
	if b {
		return "0x01"
	}
	return "0x00"
}

// fields returns what tshark should show for a message. tshark 4.0 does not
// read MRA, SIDR, LAP and APR, which TestLayouts checks, and reads the flow
// label and the packet rate of a REQ from other bits.
func fields(version byte, h *Header, m Message) map[string]string {
	row := map[string]string{}
	set := func(name, format string, v any) { row["infiniband."+name] = fmt.Sprintf(format, v) }
	set("mad.mgmtclass", "0x%02x", h.Class)
	set("mad.classversion", "0x%02x", h.ClassVersion)
	set("mad.method", "0x%02x", h.Method)
	set("mad.status", "0x%04x", h.Status)
	set("mad.transactionid", "0x%016x", h.Transaction)
	set("mad.attributeid", "0x%04x", uint16(h.Attribute))
	set("mad.attributemodifier", "0x%08x", h.Modifier)
	switch m := m.(type) {
	case *REQ:
		protocol, port, ip := m.Service.IP()
		set("cm.req.serviceid", "%v", m.Service)
		set("cm.req", "0x%08x", m.LocalID)
		if ip {
			set("cm.req.serviceid.protocol", "0x%02x", protocol)
			set("cm.req.serviceid.dport", "0x%04x", port)
		}
		set("cm.req.localcaguid", "0x%016x", m.CAGUID)
		set("cm.req.localqkey", "0x%08x", m.QKey)
		set("cm.req.localqpn", "0x%06x", m.QPN)
		set("cm.req.responderres", "0x%02x", m.ResponderResources)
		set("cm.req.localeecn", "0x%06x", m.LocalEECN)
		set("cm.req.initdepth", "0x%02x", m.InitiatorDepth)
		set("cm.req.remoteeecn", "0x%06x", m.RemoteEECN)
		set("cm.req.remoteresptout", "0x%02x", uint8(m.RemoteTimeout))
		set("cm.req.transpsvctype", "0x%02x", uint8(m.Transport))
		set("cm.req.e2eflowctrl", "%s", flag(m.FlowControl))
		set("cm.req.startpsn", "0x%06x", m.StartPSN)
		set("cm.req.localresptout", "0x%02x", uint8(m.LocalTimeout))
		set("cm.req.retrcount", "0x%02x", m.RetryCount)
		set("cm.req.pkey", "0x%04x", m.PKey)
		set("cm.req.pppmtu", "0x%02x", uint8(m.PathMTU))
		set("cm.req.rdcexist", "%s", flag(m.RDCExists))
		set("cm.req.rnrretrcount", "0x%02x", m.RNRRetryCount)
		set("cm.req.maxcmretr", "0x%02x", m.MaxCMRetries)
		set("cm.req.srq", "%s", flag(m.SRQ))
		set("cm.req.ext_transport", "0x%02x", m.ExtendedTransport)
		for name, p := range map[string]*Path{"prim": &m.Primary, "alt": &m.Alternate} {
			set("cm.req."+name+"_locallid", "%d", p.LocalLID)
			set("cm.req."+name+"_remotelid", "%d", p.RemoteLID)
			set("cm.req."+name+"_tfcclass", "0x%02x", p.TrafficClass)
			set("cm.req."+name+"_hoplim", "0x%02x", p.HopLimit)
			set("cm.req."+name+"_sl", "0x%02x", p.SL)
			set("cm.req."+name+"_subnetlocal", "%s", flag(p.SubnetLocal))
			set("cm.req."+name+"_localacktout", "0x%02x", uint8(p.ACKTimeout))
		}
		set("cm.req.alt_localgid", "%x", m.Alternate.LocalGID[:])
		set("cm.req.alt_remotegid", "%x", m.Alternate.RemoteGID[:])
		if version == 4 { // of the packet
			set("cm.req.prim_localgid_ipv4", "%v", netip.AddrFrom4([4]byte(m.Primary.LocalGID[12:])))
			set("cm.req.prim_remotegid_ipv4", "%v", netip.AddrFrom4([4]byte(m.Primary.RemoteGID[12:])))
		} else {
			set("cm.req.prim_localgid", "%v", netip.AddrFrom16(m.Primary.LocalGID))
			set("cm.req.prim_remotegid", "%v", netip.AddrFrom16(m.Primary.RemoteGID))
		}
		var x IPHeader
		if ip && x.Decode(m.PrivateData[:]) == nil {
			set("cm.req.ip_cm.sport", "0x%04x", x.Source.Port())
			version := "4"
			if !x.Destination.Is4() {
				version = "6"
			}
			set("cm.req.ip_cm.ipv", "0x%02s", version)
			set("cm.req.ip_cm.sip"+version, "%v", x.Source.Addr())
			set("cm.req.ip_cm.dip"+version, "%v", x.Destination)
			set("cm.req.ip_cm.private", "%x", m.PrivateData[IPHeaderLen:])
		}
	case *REP:
		set("cm.rep", "0x%08x", m.LocalID)
		set("cm.rep.remotecommid", "0x%08x", m.RemoteID)
		set("cm.rep.localqkey", "0x%08x", m.QKey)
		set("cm.rep.localqpn", "0x%06x", m.QPN)
		set("cm.rep.localeecn", "0x%06x", m.LocalEECN)
		set("cm.rep.startpsn", "0x%06x", m.StartPSN)
		set("cm.rep.respres", "0x%02x", m.ResponderResources)
		set("cm.rep.initdepth", "0x%02x", m.InitiatorDepth)
		set("cm.rep.tgtackdelay", "0x%02x", uint8(m.ACKDelay))
		set("cm.rep.failoveracc", "0x%02x", uint8(m.Failover))
		set("cm.rep.e2eflowctrl", "%s", flag(m.FlowControl))
		set("cm.rep.rnrretrcount", "0x%02x", m.RNRRetryCount)
		set("cm.rep.srq", "%s", flag(m.SRQ))
		set("cm.rep.localcaguid", "0x%016x", m.CAGUID)
		set("cm.rep.private", "%x", m.PrivateData[:])
	case *RTU:
		set("cm.rtu.localcommid", "0x%08x", m.LocalID)
		set("cm.rtu.remotecommid", "0x%08x", m.RemoteID)
		set("cm.rtu.private", "%x", m.PrivateData[:])
	case *REJ:
		set("cm.rej.localcommid", "0x%08x", m.LocalID)
		set("cm.rej.remotecommid", "0x%08x", m.RemoteID)
		set("cm.rej.msgrej", "0x%02x", uint8(m.Subject))
		set("cm.rej.rejinfolen", "0x%02x", m.InfoLen)
		set("cm.rej.reason", "0x%04x", uint16(m.Reason))
		set("cm.rej.ari", "%x", m.Info[:])
		set("cm.rej.private", "%x", m.PrivateData[:])
	case *DREQ:
		set("cm.dreq.localcommid", "0x%08x", m.LocalID)
		set("cm.dreq.remotecommid", "0x%08x", m.RemoteID)
		set("cm.req.remoteqpneecn", "0x%06x", m.RemoteQPN)
		set("cm.dreq.private", "%x", m.PrivateData[:])
	case *DREP:
		set("cm.drsp.localcommid", "0x%08x", m.LocalID)
		set("cm.drsp.remotecommid", "0x%08x", m.RemoteID)
		set("cm.drsp.private", "%x", m.PrivateData[:])
	}
	return row
}

// TestTsharkAgrees: tshark reads every field that it knows as we do, in Linux's
// messages and in ours, and reports no errors.
func TestTsharkAgrees(t *testing.T) {
	all := [][]byte{}
	for _, name := range captures {
		all = append(all, mads(t, name)...)
	}
	all = append(all, made(t)...)
	names := map[string]bool{}
	for a := range attributeNames {
		for _, version := range []byte{4, 6} {
			for name := range fields(version, &Header{}, NewMessage(a)) {
				names[name] = true
			}
		}
	}
	for _, b := range all {
		h, m, err := Parse(mad(b))
		if err != nil {
			t.Fatal(err)
		}
		for name := range fields(b[ethernet]>>4, &h, m) {
			names[name] = true
		}
	}
	var columns []string
	for name := range names {
		columns = append(columns, name)
	}
	for i, row := range oracle.Tshark(t, "", all, columns...) {
		h, m, err := Parse(mad(all[i]))
		if err != nil {
			t.Fatal(err)
		}
		want := fields(all[i][ethernet]>>4, &h, m)
		for j, name := range columns {
			w, ok := want[name]
			if strings.HasPrefix(name, "infiniband.cm.req.remoteqpneecn") && h.Attribute == AttributeREQ {
				continue // tshark gives the name to two fields
			}
			if (ok || row[j] != "") && w != row[j] {
				t.Errorf("frame %d, a %v: %s is %q, tshark says %q", i, h.Attribute, name, w, row[j])
			}
		}
	}
}

// mad returns the datagram in a frame.
func mad(b []byte) []byte {
	if binary.BigEndian.Uint16(b[12:]) == 0x86dd {
		return b[before+20 : before+20+MADLen]
	}
	return b[before : before+MADLen]
}

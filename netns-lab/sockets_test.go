package netnslab

import "testing"

func TestParseSockets_AddsUpBothVersionsOfIP(t *testing.T) {
	const snmp = `Ip: Forwarding DefaultTTL InReceives
Ip: 1 64 500
Tcp: RtoAlgorithm InCsumErrors
Tcp: 1 99
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 1000 20 3 7 300 8 4 9 50
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
UdpLite: 1 1 1 1 1 1 1 1 1
`
	const snmp6 = "Ip6InReceives                   \t500\nUdp6NoPorts                     \t6\nUdp6RcvbufErrors                \t7000\nUdp6InCsumErrors \t1\nUdpLite6RcvbufErrors \t1\n"
	for _, c := range []struct {
		snmp, snmp6 string
		want        Sockets
	}{
		{snmp, snmp6, Sockets{Full: 7300, Memory: 50, Unopened: 26, Checksum: 5}},
		{snmp, "", Sockets{Full: 300, Memory: 50, Unopened: 20, Checksum: 4}},
		// A kernel without the counters of later ones.
		{"Udp: InDatagrams NoPorts InErrors\nUdp: 5 6 7\n", "", Sockets{Unopened: 6}},
		{"Udp: InDatagrams NoPorts\nUdp: 5\n", "Udp6NoPorts\n", Sockets{}},
		{"", "", Sockets{}},
	} {
		if got := ParseSockets(c.snmp, c.snmp6); got != c.want {
			t.Errorf("%+v, want %+v, of\n%s%s", got, c.want, c.snmp, c.snmp6)
		}
	}
}

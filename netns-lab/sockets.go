package netnslab

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Sockets are a host kernel's counters of received datagrams that no program got,
// since the host was made, over IPv4 and IPv6 (RFC 4113; Linux, net/ipv4/udp.c).
type Sockets struct {
	Full     uint64 // found the receive buffer of their socket full
	Memory   uint64 // found all UDP sockets together at their limit, net.ipv4.udp_mem
	Unopened uint64 // went to a port without a socket
	Checksum uint64 // had a wrong checksum
}

// Sockets returns the counters of a host's sockets.
func (l *Lab) Sockets(host string) (s Sockets, err error) {
	h, ok := l.info.Host(host)
	if !ok {
		return s, noHost(l.info, host)
	}
	err = onSparedThread(func() error {
		if err := joinNamespace(h.Namespace); err != nil {
			return err
		}
		v4, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		// Absent on a machine without IPv6.
		v6, _ := os.ReadFile("/proc/thread-self/net/snmp6")
		s = ParseSockets(string(v4), string(v6))
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("read the counters of %s's sockets: %w", host, err)
	}
	return s, nil
}

// ParseSockets parses /proc/net/snmp and /proc/net/snmp6. Counters that the kernel
// lacks are 0.
func ParseSockets(snmp, snmp6 string) (s Sockets) {
	counters := map[string]uint64{}
	var names []string
	for line := range strings.Lines(snmp) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "Udp:" {
			continue
		}
		if names == nil { // a line of names precedes its line of values
			names = fields
			continue
		}
		for i, v := range fields[1:min(len(fields), len(names))] {
			counters[names[i+1]], _ = strconv.ParseUint(v, 10, 64)
		}
	}
	for line := range strings.Lines(snmp6) {
		if f := strings.Fields(line); len(f) == 2 && strings.HasPrefix(f[0], "Udp6") {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			counters[strings.TrimPrefix(f[0], "Udp6")] += n
		}
	}
	return Sockets{Full: counters["RcvbufErrors"], Memory: counters["MemErrors"], Unopened: counters["NoPorts"], Checksum: counters["InCsumErrors"]}
}

package testlab

import "encoding/json"

// Iperf is the part of the output of iperf3 -J that the tests use.
type Iperf struct {
	Error string `json:"error"`
	End   struct {
		Sent     IperfSum `json:"sum_sent"`
		Received IperfSum `json:"sum_received"`
		Sum      IperfSum `json:"sum"`
		Streams  []struct {
			UDP IperfSum `json:"udp"`
		} `json:"streams"`
	} `json:"end"`
}

// IperfSum is the sum over all streams of one side.
type IperfSum struct {
	Bytes       float64 `json:"bytes"`
	Bits        float64 `json:"bits_per_second"`
	Retransmits int     `json:"retransmits"`
	Lost        float64 `json:"lost_packets"`
	Packets     float64 `json:"packets"`
	LostPercent float64 `json:"lost_percent"`
}

// Iperf3 runs a client in one host against a fresh server in another.
func (l *Lab) Iperf3(client, server, address string, flags ...string) Iperf {
	l.T.Helper()
	r := l.TryIperf3(client, server, address, flags...)
	if r.Error != "" {
		l.T.Fatalf("iperf3 %v: %s", flags, r.Error)
	}
	return r
}

// TryIperf3 is like iperf3, for networks that may lose a packet of the
// handshake that iperf3 does not retransmit; the result's Error then says so.
// Client and server have a higher priority than other programs; otherwise the
// server's socket overflows on a busy machine.
func (l *Lab) TryIperf3(client, server, address string, flags ...string) (r Iperf) {
	l.T.Helper()
	s := l.StartServer(server, "nice", "-n", "-15", "iperf3", "-s", "-1")
	defer func() { _ = s.Process.Kill(); _ = s.Wait() }()
	l.WaitListening(server, "5201")
	args := append([]string{"exec", "-l", l.Name, client, "--", "nice", "-n", "-15", "iperf3", "-c", address, "-J"}, flags...)
	out, said, _ := l.Run(args...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		l.T.Fatalf("iperf3 %v: %v\n%s%s", flags, err, out, said)
	}
	return r
}

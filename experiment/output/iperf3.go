package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/weftlab/weft/experiment/table"
)

// stream is a row of the table iperf3. Fields that one side of a stream does not know are
// unknown.
type stream struct {
	source
	Protocol    string  `json:"protocol"`  // tcp, udp or sctp
	Direction   string  `json:"direction"` // whether the program sent or received
	Stream      string  `json:"stream"`    // its socket's number
	Seconds     float64 `json:"duration_s"`
	Sent        float64 `json:"sent_bytes"`
	Received    float64 `json:"received_bytes"`
	SentRate    float64 `json:"sent_bps"`
	Goodput     float64 `json:"goodput_bps"` // as measured by the receiver
	Retransmits float64 `json:"retransmits"`
	RTTMin      float64 `json:"rtt_min_us"` // of the sender's kernel
	RTTMean     float64 `json:"rtt_mean_us"`
	RTTMax      float64 `json:"rtt_max_us"`
	WindowMax   float64 `json:"cwnd_max_bytes"`
	Jitter      float64 `json:"jitter_ms"` // UDP only (RFC 1889), as are all fields below
	Packets     float64 `json:"packets"`
	Lost        float64 `json:"lost_packets"`
	LostShare   float64 `json:"lost_share"`
}

// interval is a row of the table iperf3-intervals.
type interval struct {
	source
	Protocol    string  `json:"protocol"`
	Direction   string  `json:"direction"`
	Stream      string  `json:"stream"`
	Time        float64 `json:"time_s"` // the end of the interval, from the start of the stream
	Length      float64 `json:"length_s"`
	Bytes       float64 `json:"transferred_bytes"`
	Rate        float64 `json:"rate_bps"`
	Retransmits float64 `json:"retransmits"`
	Window      float64 `json:"cwnd_bytes"`
	RTT         float64 `json:"rtt_us"`
	Jitter      float64 `json:"jitter_ms"`
	Packets     float64 `json:"packets"`
	Lost        float64 `json:"lost_packets"`
	Omitted     bool    `json:"omitted"` // iperf3 --omit
}

// iperf3Output is the part of the output of iperf3 -J that is read (cJSON; iperf3's units:
// seconds, bytes, microseconds for round-trip times).
type iperf3Output struct {
	Error string `json:"error"`
	Start struct {
		Test struct {
			Protocol string  `json:"protocol"`
			Block    float64 `json:"blksize"`
		} `json:"test_start"`
	} `json:"start"`
	Intervals []struct {
		Streams []iperf3Side `json:"streams"`
	} `json:"intervals"`
	End struct {
		Streams []struct {
			Sender   *iperf3Side `json:"sender"`
			Receiver *iperf3Side `json:"receiver"`
			UDP      *iperf3Side `json:"udp"`
		} `json:"streams"`
		Received iperf3Side `json:"sum_received"`
	} `json:"end"`
}

// iperf3Side is one side of a stream, or an interval of it.
type iperf3Side struct {
	Socket      int      `json:"socket"`
	End         float64  `json:"end"`
	Seconds     float64  `json:"seconds"`
	Bytes       float64  `json:"bytes"`
	Rate        float64  `json:"bits_per_second"`
	Retransmits *float64 `json:"retransmits"`
	Window      *float64 `json:"snd_cwnd"`
	WindowMax   *float64 `json:"max_snd_cwnd"`
	RTT         *float64 `json:"rtt"`
	RTTMin      *float64 `json:"min_rtt"`
	RTTMean     *float64 `json:"mean_rtt"`
	RTTMax      *float64 `json:"max_rtt"`
	Jitter      *float64 `json:"jitter_ms"`
	Packets     *float64 `json:"packets"`
	Lost        *float64 `json:"lost_packets"`
	Omitted     bool     `json:"omitted"`
	Sends       bool     `json:"sender"` // the program itself is the sender
}

// numberOrUnknown returns a number, or Unknown if it is missing.
func numberOrUnknown(x *float64) float64 {
	if x == nil {
		return table.Unknown
	}
	return *x
}

// positiveOrUnknown returns a number, or Unknown if it is missing or 0.
func positiveOrUnknown(x *float64) float64 {
	if x == nil || *x == 0 {
		return table.Unknown
	}
	return *x
}

func directionName(sends bool) string {
	if sends {
		return "sent"
	}
	return "received"
}

// readIperf3 reads the output of iperf3 -J; a server prints its tests one after the other.
func readIperf3(s source, text []byte) (table.Bundle, error) {
	if len(bytes.TrimSpace(text)) > 0 && bytes.TrimSpace(text)[0] != '{' {
		return nil, errors.New("it is not JSON: give iperf3 the option -J")
	}
	var streams []stream
	var intervals []interval
	for in := json.NewDecoder(bytes.NewReader(text)); ; {
		var out iperf3Output
		if err := in.Decode(&out); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("iperf3's JSON: %w", err)
		}
		if len(out.End.Streams) == 0 && out.Error != "" {
			if len(streams) > 0 && strings.HasPrefix(out.Error, "interrupt") {
				break // a server that was stopped while it waited for another test
			}
			return nil, errors.New(out.Error)
		}
		a, b := out.streamsAndIntervals(s)
		streams, intervals = append(streams, a...), append(intervals, b...)
	}
	if len(streams) == 0 {
		return nil, errNothing
	}
	return table.Bundle{table.Of(Iperf3, streams), table.Of(Iperf3Intervals, intervals)}, nil
}

// streamsAndIntervals returns the rows of one test.
func (d *iperf3Output) streamsAndIntervals(s source) (streams []stream, intervals []interval) {
	protocol := strings.ToLower(d.Start.Test.Protocol)
	unknown := table.Unknown
	for _, e := range d.End.Streams {
		r := stream{
			source: s, Protocol: protocol, Sent: unknown, Received: unknown, SentRate: unknown, Goodput: unknown, Retransmits: unknown,
			RTTMin: unknown, RTTMean: unknown, RTTMax: unknown, WindowMax: unknown, Jitter: unknown, Packets: unknown, Lost: unknown, LostShare: unknown,
		}
		if x := e.Sender; x != nil {
			r.Direction, r.Stream, r.Seconds = directionName(x.Sends), strconv.Itoa(x.Socket), x.Seconds
			r.Retransmits, r.WindowMax = numberOrUnknown(x.Retransmits), positiveOrUnknown(x.WindowMax)
			r.RTTMin, r.RTTMean, r.RTTMax = positiveOrUnknown(x.RTTMin), positiveOrUnknown(x.RTTMean), positiveOrUnknown(x.RTTMax)
			if x.Sends || x.Bytes > 0 { // a server does not know what its client has sent
				r.Sent, r.SentRate = x.Bytes, x.Rate
			}
		}
		if x := e.Receiver; x != nil && (e.Sender == nil || !e.Sender.Sends || x.Bytes > 0) {
			r.Received, r.Goodput = x.Bytes, x.Rate
		}
		if x := e.UDP; x != nil {
			r.Direction, r.Stream, r.Seconds = directionName(x.Sends), strconv.Itoa(x.Socket), x.Seconds
			if x.Bytes > 0 {
				r.Sent, r.SentRate = x.Bytes, x.Rate
			}
			d.addDatagrams(&r, x)
		}
		streams = append(streams, r)
	}
	for _, i := range d.Intervals {
		for _, x := range i.Streams {
			intervals = append(intervals, interval{
				source: s, Protocol: protocol, Direction: directionName(x.Sends), Stream: strconv.Itoa(x.Socket), Time: x.End, Length: x.Seconds, Bytes: x.Bytes, Rate: x.Rate,
				Retransmits: numberOrUnknown(x.Retransmits), Window: numberOrUnknown(x.Window), RTT: numberOrUnknown(x.RTT), Jitter: numberOrUnknown(x.Jitter), Packets: numberOrUnknown(x.Packets),
				Lost: numberOrUnknown(x.Lost), Omitted: x.Omitted,
			})
		}
	}
	return streams, intervals
}

// addDatagrams fills in what is known about a UDP stream. iperf3 reports received bytes only
// for the sum of all streams, but all datagrams have the same length.
func (d *iperf3Output) addDatagrams(r *stream, x *iperf3Side) {
	r.Jitter, r.Packets, r.Lost = numberOrUnknown(x.Jitter), numberOrUnknown(x.Packets), numberOrUnknown(x.Lost)
	if x.Packets == nil || x.Lost == nil || *x.Packets == 0 {
		return
	}
	r.LostShare = *x.Lost / *x.Packets
	r.Received = (*x.Packets - *x.Lost) * d.Start.Test.Block
	seconds := x.Seconds
	if d.End.Received.Seconds > 0 {
		seconds = d.End.Received.Seconds
	}
	if seconds > 0 {
		r.Goodput = r.Received * 8 / seconds
	}
}

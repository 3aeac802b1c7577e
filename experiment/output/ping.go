package output

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"

	"github.com/weftlab/weft/experiment/table"
)

// reply is a row of the table ping: a request, and the first reply to it.
type reply struct {
	source
	Sequence int     `json:"seq"`
	RTT      float64 `json:"rtt_ms"` // unknown if lost
	Lost     bool    `json:"lost"`
}

var (
	pingReply   = regexp.MustCompile(`(?m)\bseq=(\d+) .*\btime[=<]([0-9.]+) ms`)
	pingReplies = regexp.MustCompile(`(?m)\bicmp_seq=(\d+) .*\btime[=<]([0-9.]+) ms`)
	pingSum     = regexp.MustCompile(`(?m)^(\d+) packets transmitted`)
)

// readPing reads the output of ping. Requests without a reply are lost; if the summary
// is missing, this is known only of requests before the last reply.
func readPing(s source, text []byte) (table.Bundle, error) {
	lines := pingReplies.FindAllSubmatch(text, -1)
	first := 1
	if lines == nil {
		lines, first = pingReply.FindAllSubmatch(text, -1), 0 // Busybox counts from 0
	}
	rtt := map[int]float64{}
	last, high := first-1, 0
	for _, l := range lines {
		n, _ := strconv.Atoi(string(l[1]))
		// The sequence number has 16 bits, and replies are not far out of order.
		n += high
		switch {
		case n < last-1<<15:
			n, high = n+1<<16, high+1<<16
		case n > last+1<<15 && n >= 1<<16:
			n -= 1 << 16
		}
		x, err := strconv.ParseFloat(string(l[2]), 64)
		if err != nil {
			return nil, err
		}
		if _, again := rtt[n]; !again { // a duplicate reply (DUP!)
			rtt[n] = x
		}
		last = max(last, n)
	}
	sum := pingSum.FindSubmatch(text)
	switch {
	case sum == nil && lines == nil:
		return nil, errNothing
	case sum != nil && lines == nil && !bytes.Contains(text, []byte(", 0 received")):
		return nil, errQuiet
	case sum != nil:
		n, _ := strconv.Atoi(string(sum[1]))
		last = max(last, first+n-1)
	}
	var rows []reply
	for n := first; n <= last; n++ {
		x, ok := rtt[n]
		if !ok {
			x = table.Unknown
		}
		rows = append(rows, reply{s, n, x, !ok})
	}
	return table.Bundle{table.Of(Ping, rows)}, nil
}

// errQuiet means that ping printed no replies.
var errQuiet = errors.New("ping does not print single replies: leave out -q and -f")

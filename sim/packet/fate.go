package packet

// Fate is what happened to a packet: nothing, a mark, or the reason for a drop.
// Counters, captures and the trace use the same list.
type Fate uint8

// The fates. Those from QueueFull to NoReceiver are drops. Credit is behind them so that
// the others keep the numbers that traces are made of.
const (
	Fine         Fate = iota // nothing special
	Marked                   // CE set by a congestion point
	Trimmed                  // cut down to its headers
	Returned                 // cut down to its headers and sent back to where it came from
	Xoff                     // a frame of a port\'s own that asks its peer to hold off
	Xon                      // a frame of a port\'s own that ends that
	QueueFull                // the egress queue's limit or threshold
	BufferFull               // the shared buffer, or what its port may take of it
	HeadroomFull             // the headroom of a lossless class
	HeaderFull               // the queue of trimmed packets
	Watchdog                 // a pause watchdog emptied the queue
	EarlyDrop                // a marking queue's drop of what is not ECN-capable
	LinkLoss                 // random loss of a link
	LinkMatch                // scripted loss of a link
	LinkDown                 // the link was down, or went down under way
	BadFCS                   // damaged on a link, found by the receiver
	TooBig                   // longer than the link's MTU
	TTLExpired               // a router found a TTL of 1 or less
	NoRoute                  // no way to the destination
	Malformed                // not a frame: shorter than its headers
	HostRefused              // the destination's device did not take it (host interface down)
	NoReceiver               // the destination has no device and no modelled sink
	Credit                   // not an end: a frame of a port's own that says what its peer may send
	FateCount    = iota
)

var fateNames = [FateCount]string{
	"fine", "marked", "trimmed", "returned", "xoff", "xon", "queue-full", "buffer-full", "headroom-full", "header-full", "watchdog",
	"early-drop", "link-loss", "link-match", "link-down", "bad-fcs", "too-big", "ttl-expired", "no-route", "malformed", "host-refused", "no-receiver",
	"credit",
}

var fateTexts = [FateCount]string{
	"", "marked CE", "trimmed", "trimmed and returned to the sender", "asks to hold off", "lets go on", "dropped: the queue's limit is reached",
	"dropped: the shared buffer's limit is reached", "dropped: the headroom of its lossless class is full",
	"dropped: the queue of trimmed packets is full", "dropped by the pause watchdog",
	"dropped early: the queue would have marked it, but it is not ECN-capable",
	"lost: random loss of the link", "lost: the link's drop-match rule", "lost: the link is down",
	"dropped: bad FCS", "dropped: longer than the link's MTU", "dropped: its TTL has expired", "dropped: no way to the destination",
	"dropped: malformed", "dropped: the host's device refused it", "dropped: nobody receives it",
	"says what may be sent",
}

// String is the name that counters use, such as "queue-full".
func (f Fate) String() string { return fateNames[f] }

// Text says what happened in a few words, for a reader of a capture.
func (f Fate) Text() string { return fateTexts[f] }

// Dropped tells whether the packet ended here.
func (f Fate) Dropped() bool { return f-QueueFull <= NoReceiver-QueueFull }

package packet

// Fate is what befell a packet: nothing, a mark, or the reason for a drop.
// Counters, captures and the trace use the same list.
type Fate uint8

// The fates. Those from QueueFull on are drops.
const (
	Fine        Fate = iota // nothing special
	Marked                  // CE set by a congestion point
	QueueFull               // the egress queue's byte limit
	EarlyDrop               // a marking queue's drop of what is not ECN-capable
	LinkLoss                // random loss of a link
	LinkMatch               // scripted loss of a link
	LinkDown                // the link was down, or went down under way
	BadFCS                  // damaged on a link, found by the receiver
	TooBig                  // longer than the link's MTU
	NoRoute                 // no way to the destination
	Malformed               // not a frame: shorter than its headers
	HostRefused             // the destination's device did not take it (host interface down)
	NoReceiver              // the destination has no device and no modelled sink
	FateCount   = iota
)

var fateNames = [FateCount]string{
	"fine", "marked", "queue-full", "early-drop", "link-loss", "link-match", "link-down",
	"bad-fcs", "too-big", "no-route", "malformed", "host-refused", "no-receiver",
}

var fateTexts = [FateCount]string{
	"", "marked CE", "dropped: the queue's limit is reached", "dropped early: the queue would have marked it, but it is not ECN-capable",
	"lost: random loss of the link", "lost: the link's drop-match rule", "lost: the link is down",
	"dropped: bad FCS", "dropped: longer than the link's MTU", "dropped: no way to the destination",
	"dropped: malformed", "dropped: the host's device refused it", "dropped: nobody receives it",
}

// String is the name that counters use, such as "queue-full".
func (f Fate) String() string { return fateNames[f] }

// Text says what happened in a few words, for a reader of a capture.
func (f Fate) Text() string { return fateTexts[f] }

// Dropped tells whether the packet ended here.
func (f Fate) Dropped() bool { return f >= QueueFull }

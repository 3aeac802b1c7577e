package labfile

import (
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/pfc"
)

// Credits is the credit that a class of a switch grants to its senders.
type Credits struct {
	Buffer *units.Bytes `yaml:"buffer,omitempty" jsonschema_description:"buffer of each port for queued packets that arrived through it; required except with a per-port buffer, where it defaults to the port's share"`
	Update *units.Bytes `yaml:"update,omitempty" jsonschema_description:"bytes that must leave before the sender is told at once; default a quarter of the buffer"`
	Period *units.Time  `yaml:"period,omitempty" jsonschema_description:"how often a sender reports what it has sent, and gets an answer, while some of its credit is outstanding; default the time of 65536 bytes on the link"`
}

// The types here describe the QoS and the buffers of a switch as a lab file does. All keys are
// pointers or lists: keys that a node leaves out are taken from its kind.

// Switch holds the keys of QoS and buffers of a node.
type Switch struct {
	Buffer     *OrNone[Buffer] `yaml:"buffer,omitempty" jsonschema_description:"switch: memory shared by all its ports; default unlimited"`
	Pause      *OrNone[PFC]    `yaml:"pause,omitempty" jsonschema_description:"switch: global PAUSE (IEEE 802.3 annex 31B) of its ports, in place of PFC by class; default none"`
	CutThrough *bool           `yaml:"cut-through,omitempty" jsonschema_description:"switch: whether it forwards a packet as soon as the header has arrived; default false"`
}

// Buffer is the memory that the ports of a switch share.
type Buffer struct {
	Preset *BufferPreset `yaml:"preset,omitempty" jsonschema_description:"sizes and thresholds of a known buffer"`
	Size   *units.Bytes  `yaml:"size,omitempty" jsonschema_description:"total size; with per-port, the size for each class at each port; default the preset's"`
	Alpha  *Alpha        `yaml:"alpha,omitempty" jsonschema_description:"alpha of classes that do not set one; default the preset's, or 1"`
}

func (b *Buffer) byName() any { b.Preset = new(BufferPreset); return b.Preset }

// Class is a traffic class.
type Class struct {
	DSCP     yamlfile.OneOrMore[DSCPRange] `yaml:"dscp,omitempty" jsonschema_description:"DSCPs of its IP packets: numbers and ranges, such as [26, 32-39]"`
	PCP      yamlfile.OneOrMore[PCPRange]  `yaml:"pcp,omitempty" jsonschema_description:"802.1Q priority code points of its tagged packets that are not IP"`
	Priority *Priority                     `yaml:"priority,omitempty" jsonschema_description:"its queue, and the class that PFC pauses; required except for the class default, which has 0"`
	Weight   *Weight                       `yaml:"weight,omitempty" jsonschema_description:"its share among classes with a weight (DWRR); default strict priority"`
	Order    *Order                        `yaml:"order,omitempty" jsonschema_description:"packets leave in the order of arrival, or flows take turns; default fifo"`
	Limit    *units.Bytes                  `yaml:"limit,omitempty" jsonschema_description:"maximum queue length at a port in bytes"`
	Reserve  *units.Bytes                  `yaml:"reserve,omitempty" jsonschema_description:"switch: part of the buffer reserved for its queue at each port; default 0"`
	Alpha    *Alpha                        `yaml:"alpha,omitempty" jsonschema_description:"switch: its queue may take alpha times the free part of the buffer, or none; default the buffer's, none with pfc or credits"`
	Mark     *Mark                         `yaml:"mark,omitempty" jsonschema_description:"switch: marking of packets (ECN); default the mark of queue"`
	Ingress  *Ingress                      `yaml:"ingress,omitempty" jsonschema_description:"switch: part of the buffer that packets from one ingress port may take"`
	PFC      *OrNone[PFC]                  `yaml:"pfc,omitempty" jsonschema_description:"switch: priority flow control, which makes the class lossless; default none"`
	Credits  *OrNone[Credits]              `yaml:"credits,omitempty" jsonschema_description:"switch: credits as in InfiniBand in place of pfc, which make the class lossless without headroom; default none"`
	Trim     *OrNone[Trim]                 `yaml:"trim,omitempty" jsonschema_description:"switch: trimming of packets to their headers instead of drops; default none"`
}

// Ingress is the part of the buffer that packets of a class from one port may take.
type Ingress struct {
	Reserve *units.Bytes `yaml:"reserve,omitempty" jsonschema_description:"part of the buffer reserved for each port; default 0"`
	Limit   *units.Bytes `yaml:"limit,omitempty" jsonschema_description:"maximum beyond the reserve; default none"`
	Alpha   *Alpha       `yaml:"alpha,omitempty" jsonschema_description:"factor of the free part of the buffer, or none; default none"`
}

// PFC is how a class, or with PAUSE a port, pauses its senders.
type PFC struct {
	Xoff     *units.Bytes `yaml:"xoff,omitempty" jsonschema_description:"a pause begins when the queued bytes from one ingress port reach this"`
	Xon      *units.Bytes `yaml:"xon,omitempty" jsonschema_description:"a pause ends when they have fallen to this; default xoff less offset"`
	Alpha    *Alpha       `yaml:"alpha,omitempty" jsonschema_description:"instead of xoff: a pause begins at alpha times the free part of the buffer; default the buffer's"`
	Offset   *units.Bytes `yaml:"offset,omitempty" jsonschema_description:"a pause ends this far below the threshold at which it begins; default two packets of the MTU"`
	Headroom *units.Bytes `yaml:"headroom,omitempty" jsonschema_description:"part of the buffer reserved at each port for packets that arrive before a pause takes effect; default from the link's rate, delay and MTU"`
	Quanta   *Quanta      `yaml:"quanta,omitempty" jsonschema_description:"pause time of a pause frame, in units of 512 bit times; default 65535"`
	Refresh  *units.Time  `yaml:"refresh,omitempty" jsonschema_description:"interval between pause frames; default half the pause time"`
	Watchdog *Watchdog    `yaml:"watchdog,omitempty" jsonschema_description:"ends pauses that last too long; default none"`
}

// Watchdog ends pauses that last too long.
type Watchdog struct {
	Detect  *units.Time `yaml:"detect,omitempty" jsonschema_description:"how long a queue may stay paused; default 200ms"`
	Restore *units.Time `yaml:"restore,omitempty" jsonschema_description:"time without a pause request from the peer before the queue recovers; default 200ms"`
	Action  *pfc.Action `yaml:"action,omitempty" jsonschema_description:"what happens to its packets in between; default drop"`
}

// Trim says how packets are trimmed to their headers.
type Trim struct {
	Preset    *TrimPreset     `yaml:"preset,omitempty" jsonschema_description:"trimming as in NDP or Ultra Ethernet; default uec"`
	Keep      *units.Bytes    `yaml:"keep,omitempty" jsonschema_description:"bytes kept behind the IP header; default 24B, ndp 26B"`
	DSCP      *DSCP           `yaml:"dscp,omitempty" jsonschema_description:"DSCP of trimmed packets, which selects their class; required"`
	Tail      *units.Fraction `yaml:"tail,omitempty" jsonschema_description:"how often the last packet of the queue is trimmed instead of the arriving one; default 0%, ndp 50%"`
	Return    *bool           `yaml:"return,omitempty" jsonschema_description:"whether trimmed packets that find no room are returned to their sender; default false, ndp true"`
	FixLength *bool           `yaml:"fix-length,omitempty" jsonschema_description:"whether the length in the IP header is set to the trimmed length; default false"`
}

func (t *Trim) byName() any { t.Preset = new(TrimPreset); return t.Preset }

// JoinBase returns a switch's settings with missing keys taken from base.
func (f Switch) JoinBase(r *yamlfile.Reader, base Switch) Switch {
	joined := joinUnder(r, &f, &base)
	joined.Buffer = underNone(r, f.Buffer, base.Buffer, func(a, b *Buffer) *Buffer { return joinUnder(r, a, b) })
	joined.Pause = underNone(r, f.Pause, base.Pause, func(a, b *PFC) *PFC { return a.joinBase(r, b) })
	return *joined
}

// JoinBase returns a class with missing keys taken from base.
func (f Class) JoinBase(r *yamlfile.Reader, base Class) Class {
	joined := joinUnder(r, &f, &base)
	joined.Ingress = joinUnder(r, f.Ingress, base.Ingress)
	joined.PFC = underNone(r, f.PFC, base.PFC, func(a, b *PFC) *PFC { return a.joinBase(r, b) })
	joined.Credits = underNone(r, f.Credits, base.Credits, func(a, b *Credits) *Credits { return joinUnder(r, a, b) })
	joined.Trim = underNone(r, f.Trim, base.Trim, func(a, b *Trim) *Trim { return joinUnder(r, a, b) })
	return *joined
}

func (f *PFC) joinBase(r *yamlfile.Reader, base *PFC) *PFC {
	joined := joinUnder(r, f, base)
	joined.Watchdog = joinUnder(r, f.Watchdog, base.Watchdog)
	// The two forms of a threshold exclude each other: if the node sets one,
	// the kind's setting of the other is discarded.
	switch {
	case f.Xoff != nil && f.Alpha == nil:
		joined.Alpha = nil
	case f.Alpha != nil && f.Xoff == nil:
		joined.Xoff, joined.Xon = nil, f.Xon
	}
	switch {
	case f.Xon != nil && f.Offset == nil:
		joined.Offset = nil
	case f.Offset != nil && f.Xon == nil:
		joined.Xon = nil
	}
	return joined
}

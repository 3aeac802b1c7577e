// Package pull clocks the traffic towards an EQDS host (Olteanu et al., NSDI 2022, §5). It has
// the active-sender list, and the pacer that gives the sender at its head one MTU of credit
// every MTU-time of the host's link, or several in as many MTU-times (Config.Credit). It is
// pure: it is given the time, and says when to call it again.
package pull

import (
	"errors"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config holds the settings of a pacer for its host's link.
type Config struct {
	Line units.Rate // above 0
	// MTU is the largest frame of a tunnel, Ethernet header to payload: the unit of credit.
	MTU units.Bytes
	// Share is the share of the line at which PULLs ask for data, above 0. The paper does not
	// give one; its authors' simulator has 0.99.
	Share units.Fraction
	// Credit is the most MTUs that one PULL gives, 1 to MaxCredit: 1 in the paper. With more
	// there are fewer PULLs, and packets come in bursts of that many. Ultra Ethernet's default
	// is 4 packets of 4 KB (its simulator, htsim: _mtus_per_pull).
	Credit int
	// Policy says which sender is next; nil means Fair.
	Policy Policy
}

// DefaultShare is the Share of the authors' simulator.
const DefaultShare units.Fraction = 0.99

// MaxCredit is the most MTUs that a PULL can give.
const MaxCredit = 64

// Check returns an error if settings are wrong. It joins a registry.RangeError for each.
func (c *Config) Check() error {
	var check registry.Check
	if c.Line <= 0 {
		check.AddError(errors.New("EQDS needs the rate of the port's link, at which PULLs are paced; give the link a rate"))
	}
	if c.MTU <= 0 {
		check.AddRange("mtu", c.MTU, "the largest frame of a tunnel, such as 1550")
	}
	check.CheckShare("pull-share", c.Share, 0.01, 1)
	check.CheckNumber("credit-per-pull", c.Credit, 1, MaxCredit)
	return check.Err()
}

// PullInterval returns the time between two PULLs that give an MTU each.
func (c *Config) PullInterval() units.Time {
	return units.Time(float64(c.Line.TimeOf(packet.OnWire(c.MTU))) / float64(c.Share))
}

// Sender is an incoming tunnel as the pacer sees it. It is embedded in its owner, and joins
// once for each incarnation. Numbers are in MTUs and wrap around.
type Sender[O any] struct {
	Owner     O
	Class     uint8 // for the policy
	pull      uint16
	target    uint16
	maxDemand uint16 // how much it may want beyond pull
	given     uint16 // with the last PULL
	taken     uint16 // since it last entered the list
	held      bool
	index     int32 // in the list plus 1; 0 if not active
	rank      uint64
	order     uint64
	last      uint64 // the policy's
}

// PullNumber returns the highest pull number that was sent.
func (s *Sender[O]) PullNumber() uint16 { return s.pull }

// LastGrant returns the number of MTUs that the last PULL gave; 0 before the first.
func (s *Sender[O]) LastGrant() int { return int(s.given) }

// WantedMTUs returns the number of MTUs that the sender still wants.
func (s *Sender[O]) WantedMTUs() int { return int(s.target - s.pull) }

// IsActive reports whether the sender is in the active-sender list.
func (s *Sender[O]) IsActive() bool { return s.index > 0 }

// Pacer is the active-sender list of a host with its clock.
type Pacer[O any] struct {
	config  *Config
	every   units.Time
	credit  uint16 // the most that a PULL gives
	heap    []*Sender[O]
	joined  uint64
	virtual uint64 // rank of the sender that was served last
	demand  int64  // of the senders in the list, in MTUs
	next    units.Time
}

// New returns a pacer. c must have passed Check and is shared, not copied.
func New[O any](c *Config) *Pacer[O] {
	p := new(Pacer[O])
	p.SetLineRate(c)
	return p
}

// SetLineRate changes the rate of the link.
func (p *Pacer[O]) SetLineRate(c *Config) {
	p.config, p.every, p.credit = c, c.PullInterval(), uint16(c.Credit)
}

// PullInterval returns the time between two PULLs that give an MTU each.
func (p *Pacer[O]) PullInterval() units.Time { return p.every }

// Len returns the number of senders in the list.
func (p *Pacer[O]) Len() int { return len(p.heap) }

// JoinSender resets a sender and adds it to the pacer: its pull number is 0, and it wants nothing.
// limit is the most MTUs that it may ask for beyond its pull number.
func (p *Pacer[O]) JoinSender(s *Sender[O], owner O, class uint8, limit uint16) {
	p.RemoveSender(s)
	*s = Sender[O]{Owner: owner, Class: class, maxDemand: limit}
}

// RemoveSender removes a sender, which then wants nothing.
func (p *Pacer[O]) RemoveSender(s *Sender[O]) {
	p.removeSender(s)
	s.target = s.pull
}

// RaiseTarget handles the pull target of a packet. Older targets change nothing, and those beyond the
// sender's limit are cut to it.
func (p *Pacer[O]) RaiseTarget(s *Sender[O], target uint16) {
	if more := int16(target - s.target); more <= 0 {
		return
	}
	if int16(target-s.pull) > int16(s.maxDemand) {
		target = s.pull + s.maxDemand
	}
	if s.index > 0 {
		p.demand += int64(target - s.target)
	}
	s.target = target
	p.addSender(s)
}

// HoldSender keeps a sender out of the list, whatever it wants, until ReleaseSender.
func (p *Pacer[O]) HoldSender(s *Sender[O]) {
	p.removeSender(s)
	s.held = true
}

// ReleaseSender ends a Hold.
func (p *Pacer[O]) ReleaseSender(s *Sender[O]) {
	s.held = false
	p.addSender(s)
}

// IsHeld reports whether a sender is kept out of the list.
func (s *Sender[O]) IsHeld() bool { return s.held }

// NextPull returns when the next PULL may leave, or units.Never if no sender wants one. A time
// before now means now.
func (p *Pacer[O]) NextPull() units.Time {
	if len(p.heap) == 0 {
		return units.Never
	}
	return p.next
}

// HeadSender returns the sender that Next would take, or nil if no PULL is due.
func (p *Pacer[O]) HeadSender(now units.Time) *Sender[O] {
	if p.NextPull() > now {
		return nil
	}
	return p.heap[0]
}

// Next takes the sender at the head of the list and raises its pull number by what it is LastGrant.
// It returns nil if no PULL is due. The sender goes back to the tail if it wants more.
//
// Credit is paced: the next PULL leaves after as many MTU-times as this one gave MTUs. If no
// sender wants more, it leaves no earlier than a full PULL would allow. Otherwise a sender as
// fast as the link would be given each MTU separately, as soon as it asks for it.
func (p *Pacer[O]) Next(now units.Time) *Sender[O] {
	s := p.HeadSender(now)
	if s == nil {
		return nil
	}
	p.virtual = s.rank
	p.removeSender(s)
	s.given = min(p.credit, uint16(s.WantedMTUs()))
	s.pull += s.given
	s.taken += s.given
	p.addSender(s)
	wait := s.given
	if len(p.heap) == 0 {
		// Half of what a sender may want is in flight meanwhile.
		wait = max(wait, min(p.credit, s.maxDemand/2))
	}
	p.next = now + units.Time(wait)*p.every
	return s
}

// ChargeFrame records that a frame of n bytes that no PULL asked for has used the link: the next PULL
// leaves that much later. The paper does not count such frames. Its share of the link leaves 1%
// for control packets, which is not enough if short packets are acknowledged.
func (p *Pacer[O]) ChargeFrame(now units.Time, n units.Bytes) {
	p.next = max(p.next, now) + p.config.Line.TimeOf(packet.OnWire(n))
}

// BusyTime returns the least time that the link takes to receive what is still to be asked for.
func (p *Pacer[O]) BusyTime() units.Time { return units.Time(p.demand) * p.every }

// addSender puts a sender into its place in the list if it wants something and is not there yet.
func (p *Pacer[O]) addSender(s *Sender[O]) {
	if s.index > 0 || s.held || s.pull == s.target {
		return
	}
	p.joined++
	s.order, s.rank = p.joined, 0
	if p.config.Policy != nil {
		s.rank = p.config.Policy.Rank(s.Class, p.virtual, int(s.taken), &s.last)
	}
	s.taken = 0
	p.demand += int64(s.WantedMTUs())
	p.pushSender(s)
}

// removeSender removes a sender from the list, if it is there.
func (p *Pacer[O]) removeSender(s *Sender[O]) {
	if s.index == 0 {
		return
	}
	p.demand -= int64(s.WantedMTUs())
	p.popSender(s)
}

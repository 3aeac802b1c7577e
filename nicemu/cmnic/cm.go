package cmnic

import (
	"fmt"
	"net/netip"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

// Config is the configuration for all connections of a CM.
type Config struct {
	CAGUID          uint64      // of the channel adapter; with a communication ID it names a connection
	FirstID         msg.CommID  // first communication ID; 0 is skipped
	ResponseTimeout msg.Timeout // time for a CM to answer: this one and, as requested, the other
	MaxRetries      uint8       // how often a message is repeated, 0 to msg.MaxCMRetries
	PacketLifetime  msg.Timeout // the longest time that a packet is under way; up to 30
	ACKDelay        msg.Timeout // the longest time that the adapter takes to acknowledge a packet
	IRN             bool        // the adapter's reliable connections have IRN, and need peers that have it
}

// DefaultConfig has the values that rdma_cm and rdma_rxe of Linux 6.1 use: a
// REQ is repeated 15 times, every 6.4 s.
func DefaultConfig(guid uint64) Config {
	return Config{CAGUID: guid, FirstID: 1, ResponseTimeout: 20, MaxRetries: msg.MaxCMRetries, PacketLifetime: 18, ACKDelay: 15}
}

func (c *Config) checkConfig() error {
	switch {
	case c.ResponseTimeout > msg.MaxTimeout:
		return fmt.Errorf("cm: a response timeout of %d: it can be 0 to %d", c.ResponseTimeout, msg.MaxTimeout)
	case c.MaxRetries > msg.MaxCMRetries:
		return fmt.Errorf("cm: %d retries: there can be 0 to %d", c.MaxRetries, msg.MaxCMRetries)
	case c.PacketLifetime >= msg.MaxTimeout:
		return fmt.Errorf("cm: a packet lifetime of %d: it can be 0 to %d", c.PacketLifetime, msg.MaxTimeout-1)
	case c.ACKDelay > msg.MaxTimeout:
		return fmt.Errorf("cm: an ACK delay of %d: it can be 0 to %d", c.ACKDelay, msg.MaxTimeout)
	}
	return nil
}

// roundTrip returns the longest time that a packet and its answer are under way.
func (c *Config) roundTrip() units.Time { return (c.PacketLifetime + 1).Time() }

// CM is a connection manager. Its methods must not be called concurrently.
type CM struct {
	config       Config
	counters     Counters
	nextID       msg.CommID
	nextListener ListenID

	conns     map[msg.CommID]*conn // by our ID
	peers     map[peer]*conn       // by the other side's
	queues    map[queue]*conn      // by its queue pair
	resolving map[asker]*conn      // datagram services that others resolve
	services  map[service]*listener
	listeners map[ListenID]*listener
	timers    timers

	sends  []Send
	events []Event
}

// peer identifies a connection as the other side does. Its channel adapter's GUID is the one in the
// REQ or REP.
type peer struct {
	guid uint64
	id   msg.CommID
}

// queue identifies a queue pair of another channel adapter.
type queue struct {
	guid uint64
	qpn  uint32
}

// New makes a CM without listeners and connections. It returns an error if the configuration is out
// of range.
func New(config Config) (*CM, error) {
	if err := config.checkConfig(); err != nil {
		return nil, err
	}
	return &CM{
		config: config, nextID: config.FirstID,
		conns: map[msg.CommID]*conn{}, peers: map[peer]*conn{}, queues: map[queue]*conn{}, resolving: map[asker]*conn{},
		services: map[service]*listener{}, listeners: map[ListenID]*listener{},
	}, nil
}

// Send is a message to send: a datagram from queue pair 1 to queue pair 1.
type Send struct {
	From, To     netip.Addr
	TrafficClass uint8
	Transaction  uint64
	Message      msg.Message // may be sent again later: do not modify
}

// EncodeTo writes the datagram, msg.MADLen bytes.
func (s *Send) EncodeTo(b []byte) { msg.PutMAD(b, s.Transaction, s.Message) }

// TakeOutput returns the messages and events since the last call, each in order. The slices are the
// caller's.
func (c *CM) TakeOutput() (sends []Send, events []Event) {
	sends, events = c.sends, c.events
	c.sends, c.events = nil, nil
	return sends, events
}

// Counters returns the message counts so far.
func (c *CM) Counters() Counters { return c.counters }

// State returns the state of a connection, or Idle if there is none.
func (c *CM) State(id msg.CommID) State {
	if x := c.conns[id]; x != nil {
		return x.state
	}
	return Idle
}

// Len returns the number of known connections, in any state.
func (c *CM) Len() int { return len(c.conns) }

func (c *CM) addEvent(x *conn, e Event) {
	if x.silent {
		return
	}
	e.ID = x.id
	c.events = append(c.events, e)
}

// newID returns an unused communication ID.
func (c *CM) newID() msg.CommID {
	for {
		id := c.nextID
		c.nextID++
		if id != 0 && c.conns[id] == nil {
			return id
		}
	}
}

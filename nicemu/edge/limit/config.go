// Package limit is an edge service that limits the rate of each flow of ordinary traffic: every
// flow has a separate queue and rate control, and packets that may be sent take turns. It is the
// reaction point for flows of programs, as a NIC is for its queue pairs.
package limit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config are the parameters. Either Control or Rate is set.
type Config struct {
	Control cc.Choice   `yaml:"cc,omitempty" json:"cc,omitzero" jsonschema_description:"rate control of each flow: its name, or {name: {settings}}"`
	Rate    units.Rate  `yaml:"rate,omitempty" json:"rate,omitempty" jsonschema_description:"rate of each flow on the wire, instead of a rate control"`
	Flows   int         `yaml:"flows,omitempty" json:"flows" jsonschema_description:"maximum number of flows told apart; further flows share one queue and one rate; default 65536"`
	Age     units.Time  `yaml:"age,omitempty" json:"age" jsonschema_description:"idle time after which a flow is forgotten; default 1s"`
	Queue   units.Bytes `yaml:"queue,omitempty" json:"queue,omitempty" jsonschema_description:"maximum queue of a flow, beyond which packets are dropped; default what is still free in the queue of the host's class"`
}

// Limits of the parameters.
const (
	defaultFlows = 65536
	maxFlows     = 1 << 20
	defaultAge   = units.Second
	minQueue     = 10 * units.KB // one jumbo frame
)

func init() {
	edge.Services.Register("limit", edge.Kind{
		Summary:  "limits the rate of each flow of programs and modelled traffic, by a rate control or to a fixed rate",
		Settings: func(string, units.Rate) edge.Settings { return &Config{Flows: defaultFlows, Age: defaultAge} },
		Gauges: []gauge.Gauge{
			{Name: "flows", Help: "flows told apart", Brief: true},
			{Name: "waiting_flows", Help: "flows with waiting packets", Brief: true},
			{Name: "waiting", Unit: gauge.Bytes, Help: "waiting frames", Brief: true},
			{Name: "forgotten_flows", Help: "flows forgotten because they were idle, or others needed their place"},
			{Name: "table_full", Help: "packets of flows that shared a queue because there were too many flows"},
			{Name: "messages", Help: "messages received by a rate control"},
			{Name: "messages_ignored", Help: "messages about unknown flows"},
			{Name: "dropped", Help: "packets dropped for lack of room", Brief: true},
		},
	})
}

// Validate implements edge.Settings.
func (c *Config) Validate(line units.Rate) error {
	var check registry.Check
	switch {
	case c.Control.Settings != nil && c.Rate != 0:
		check.AddError(errors.New("a flow has one rate: write cc or rate, not both"))
	case c.Control.Settings == nil && c.Rate == 0:
		check.AddError(errors.New("the flows have no rate: write cc with a rate control, or rate, such as rate: 100Mbps"))
	case c.Control.Settings == nil:
		check.CheckRate("rate", c.Rate, line, "100Mbps")
	default:
		if why := unmetNeed(cc.TraitsOf(c.Control)); why != "" {
			check.AddUnfit("cc", c.Control.Name+" needs "+why, fmt.Sprintf("it can be the cc of a nic; here choose one that receives messages of switches (%s), or write rate: 100Mbps", strings.Join(messageControls(), ", ")))
		}
	}
	check.CheckNumber("flows", c.Flows, 1, maxFlows)
	check.CheckTime("age", c.Age, units.Picosecond)
	if c.Queue != 0 && c.Queue < minQueue {
		check.AddRange("queue", c.Queue, "%v or more, so that each packet fits into it", minQueue)
	}
	return check.Err()
}

// unmetNeed returns what a rate control needs that ordinary flows do not have; "" if nothing.
func unmetNeed(t cc.Traits) string {
	switch {
	case t.NeedsAcks:
		return "acknowledgements, which ordinary flows exchange between the programs"
	case t.Marks == cc.AnswerCNP:
		return "CNPs, with which NICs answer only marks of RoCEv2 packets"
	case t.Marks == cc.AnswerEcho:
		return "marks that acknowledgements echo, which ordinary flows exchange between the programs"
	case t.Telemetry > 0:
		return "telemetry, for which only RoCEv2 packets have room"
	}
	return ""
}

// messageControls returns the names of the rate controls that hear messages.
func messageControls() (names []string) {
	for _, name := range cc.Methods.Names() {
		if m, _ := cc.Methods.Find(name); m.Feedback != nil {
			names = append(names, name)
		}
	}
	return names
}

// MessageProtocol implements edge.MessageReceiver.
func (c *Config) MessageProtocol() *packet.MessageProtocol {
	return cc.Methods.Kind(c.Control.Name).Feedback
}

// New implements edge.Settings.
func (c *Config) New(env edge.Env) edge.Service { return newLimiter(c, env) }

// fixed is the rate control of a fixed rate.
type fixed struct {
	cc.NopControl
	rate units.Rate
}

func (f *fixed) Rate() units.Rate { return f.rate }

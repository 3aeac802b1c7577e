package cell

import (
	"fmt"
	"slices"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/recording"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/output"
	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/observe/pauses"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// The tables of a run, apart from those of its series and programs. Their columns are those
// of the files that weft sim writes, and the counters of its report.
const (
	RunTable    = experiment.RunTable       // one row: emulated_s, trace, and where all packets went
	Ports       = "ports"                   // a row for each port: counters
	Classes     = "classes"                 // a row for each class of a port: counters, pauses
	Pauses      = "pauses"                  // a row for each pause of a class of a port by its peer: weft sim --pause-records
	Streams     = "streams"                 // a row for each flow of UDP packets: weft sim --stream-records
	Transfers   = experiment.TransfersTable // a row for each RDMA transfer: weft sim --transfer-records
	Flows       = experiment.FlowsTable     // a row for each flow of patterns: weft sim --flow-records
	Groups      = "groups"                  // a row for each group of such flows: request, burst, iteration
	NICs        = "nics"                    // a row for each counter of each NIC
	QueueSeries = "queue-series"
	FlowSeries  = "flow-series"
)

// Counted is a boolean column of flows and groups: whether they were created in the lab's
// measurement window.
const Counted = "counted"

// TableNames returns the names of all tables that a run in virtual time can produce.
func TableNames() []string {
	return []string{RunTable, Ports, Classes, Pauses, Streams, Transfers, Flows, Groups, NICs, QueueSeries, FlowSeries}
}

// EmptyTable returns a table without rows, for its columns; nil for an unknown name. A series has
// all columns that it can have in any lab.
func EmptyTable(name string) *table.Table {
	switch name {
	case RunTable:
		return table.Of[runRow](name, nil)
	case Ports:
		return table.Of[port](name, nil)
	case Classes:
		return table.Of[class](name, nil)
	case Pauses:
		return table.Of[pauses.Record](name, nil)
	case Streams:
		return table.Of[workload.Result](name, nil)
	case Transfers:
		return table.Of[workload.TransferResult](name, nil)
	case Flows:
		return NewFlowTable(records.Names{}).Tables()[0]
	case Groups:
		return NewFlowTable(records.Names{}).Tables()[1]
	case NICs:
		return table.Of[counter](name, nil)
	case QueueSeries:
		return emptySeries(name, recording.QueueColumns())
	case FlowSeries:
		return emptySeries(name, recording.FlowColumns())
	case experiment.LatenessTable:
		return table.Of[lateness](name, nil)
	}
	return nil
}

func emptySeries(name string, columns []string) *table.Table {
	t := &table.Table{Name: name}
	for _, c := range columns {
		if slices.Contains(textColumns, c) {
			t.Columns = append(t.Columns, table.Column{Name: c, Texts: []string{}})
		} else {
			t.Columns = append(t.Columns, table.Column{Name: c, Numbers: []float64{}})
		}
	}
	return t
}

// runRow is the row of the table run.
type runRow struct {
	Emulated   float64 `json:"emulated_s"`
	Trace      string  `json:"trace"`
	Seed       uint64  `json:"seed"`
	Deadlocks  int     `json:"deadlocks"`
	Entered    uint64  `json:"entered_packets"`
	Originated uint64  `json:"originated_packets"`
	Delivered  uint64  `json:"delivered_packets"`
	Consumed   uint64  `json:"consumed_packets"`
	Dropped    uint64  `json:"dropped_packets"`
	Marked     uint64  `json:"marked_packets"`
	Trimmed    uint64  `json:"trimmed_packets"`
	Held       uint64  `json:"held_packets"`
	Growth     float64 `json:"backlog_growth_share"` // see FlowTable.backlogGrowth
}

// port is a row of the table of ports.
type port struct {
	Name      string  `json:"port"`
	Node      string  `json:"node"`
	Peer      string  `json:"peer"`
	Kind      string  `json:"kind"`
	QueueMax  int64   `json:"queue_max_bytes"`
	QueueMean float64 `json:"queue_mean_bytes"`
	RxPackets uint64  `json:"rx_packets"`
	RxBytes   uint64  `json:"rx_bytes"`
	TxPackets uint64  `json:"tx_packets"`
	TxBytes   uint64  `json:"tx_bytes"`
	TxRate    float64 `json:"tx_bps"`
	Use       float64 `json:"use_share"` // of the link's rate, by frames without FCS, preamble and gap
	Dropped   uint64  `json:"dropped_packets"`
	Marked    uint64  `json:"marked_packets"`
	Trimmed   uint64  `json:"trimmed_packets"`
}

// class is a row of the table of classes.
type class struct {
	Port      string  `json:"port"`
	Node      string  `json:"node"`
	Class     string  `json:"class"`
	QueueMax  int64   `json:"queue_max_bytes"`
	QueueMean float64 `json:"queue_mean_bytes"`
	TxPackets uint64  `json:"tx_packets"`
	TxBytes   uint64  `json:"tx_bytes"`
	Marked    uint64  `json:"marked_packets"`
	Trimmed   uint64  `json:"trimmed_packets"`
	Dropped   uint64  `json:"dropped_packets"`

	Paused        float64 `json:"paused_s"`     // by the peer
	PausedCount   uint64  `json:"paused_count"` // pauses that have begun
	PauseFramesRx uint64  `json:"pause_rx_frames"`
	PauseIgnored  uint64  `json:"pause_ignored_frames"`
	Pausing       float64 `json:"pausing_s"` // the peer
	PausingCount  uint64  `json:"pausing_count"`
	PauseFramesTx uint64  `json:"pause_tx_frames"`

	IngressMax int64  `json:"ingress_max_bytes"`
	NoHeadroom uint64 `json:"headroom_refused_packets"`
}

// counter is a row of the table of NICs.
type counter struct {
	NIC     string `json:"nic"`
	Node    string `json:"node"`
	Counter string `json:"counter"`
	Value   uint64 `json:"value"`
}

// lateness is the row of the table lateness. Times are emulated, except for those of the
// machine.
type lateness struct {
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	P999       float64 `json:"p999_us"`
	Max        float64 `json:"max_us"`
	Deliveries uint64  `json:"deliveries"` // deliveries to real hosts
	Late       uint64  `json:"late"`       // deliveries later than the lab's limit
	LateShare  float64 `json:"late_share"`
	Kept       bool    `json:"kept"`
	Stood      float64 `json:"stood_s"`  // how long emulated time stood still
	Absent     float64 `json:"absent_s"` // how long the engine did not run, in real time
	Dilation   int     `json:"dilation"`
	CPU        float64 `json:"cpu_cores"`
	EngineCPU  float64 `json:"engine_cpu_cores"`
	Realtime   bool    `json:"realtime"` // the engine had SCHED_FIFO
	Try        int     `json:"try"`      // the number of the cell's run that counts, from 1
	Verdict    string  `json:"verdict"`
}

// LatenessTable returns the table that says how well the machine kept up with a run. Try is
// the number of the run, from 1.
func LatenessTable(t *report.Timing, try int) *table.Table {
	us := func(x units.Time) float64 { return x.Seconds() * 1e6 }
	l := &t.Lateness
	return table.Of(experiment.LatenessTable, []lateness{{
		P50: us(l.P50), P99: us(l.P99), P999: us(l.P999), Max: us(l.Max), Deliveries: l.Count, Late: l.Beyond, LateShare: float64(l.Share),
		Kept: t.Kept(), Stood: t.Stood.Seconds(), Absent: t.Absent.Seconds(), Dilation: t.Dilation, CPU: t.CPU, EngineCPU: t.Engine,
		Realtime: t.Realtime, Try: try, Verdict: t.Verdict(),
	}})
}

// ProgramTables returns the empty tables that a cell has because it, or another cell of its
// experiment, runs real programs; r may be nil.
func ProgramTables(r *experiment.Real) (table.Bundle, error) {
	if r == nil {
		return nil, nil
	}
	b, err := output.EmptyTables(r.Programs)
	return append(b, EmptyTable(experiment.LatenessTable)), err
}

// RunTables returns the tables of a run that has ended, with the pauses of its ports, except
// those of flows of patterns, which flows has. Tables without rows are included.
func RunTables(fb *fabric.Fabric, stops []pauses.Record, flows *FlowTable) table.Bundle {
	now, a := fb.Now(), fb.Accounts()
	var ports []port
	var classes []class
	for _, s := range fb.Status() {
		p := port{
			Name: s.Name, Node: s.Node, Peer: s.Peer, Kind: s.Kind, QueueMax: int64(s.QueueMax), QueueMean: s.QueueMean,
			RxPackets: s.RxPackets, RxBytes: s.RxBytes, TxPackets: s.TxPackets, TxBytes: s.TxBytes, Dropped: s.Dropped, Marked: s.Marked, Trimmed: s.Trimmed,
		}
		if now > 0 {
			p.TxRate = float64(s.TxBytes) * 8 / now.Seconds()
		}
		if s.Link != nil && s.Link.Rate > 0 {
			p.Use = p.TxRate / float64(s.Link.Rate)
		}
		ports = append(ports, p)
		for _, c := range s.Classes {
			classes = append(classes, class{
				Port: s.Name, Node: s.Node, Class: c.Name, QueueMax: int64(c.QueueMax), QueueMean: c.QueueMean, TxPackets: c.TxPackets, TxBytes: c.TxBytes,
				Marked: c.Marked, Trimmed: c.Trimmed, Dropped: c.Dropped,
				Paused: c.PausedTime.Seconds(), PausedCount: c.PausedCount, PauseFramesRx: c.PauseFramesRx, PauseIgnored: c.PauseIgnored,
				Pausing: c.PausingTime.Seconds(), PausingCount: c.PausingCount, PauseFramesTx: c.PauseFramesTx,
				IngressMax: int64(c.IngressMax), NoHeadroom: c.NoHeadroom,
			})
		}
	}
	var counters []counter
	for _, n := range fb.NICs() {
		for i, info := range nicemu.CounterInfos() {
			counters = append(counters, counter{n.Name, n.Node, info.Name, n.Counters[i]})
		}
		if l := n.Layer; l != nil {
			for _, w := range l.Work {
				counters = append(counters, counter{n.Name, n.Node, l.Name + "_" + w.Name, w.Count})
			}
		}
	}
	return table.Bundle{
		table.Of(RunTable, []runRow{{
			Emulated: now.Seconds(), Trace: fmt.Sprintf("%016x", fb.Trace()), Seed: fb.Plan.Seed, Deadlocks: len(fb.Deadlocks()), Entered: a.Entered, Originated: a.Originated,
			Delivered: a.Delivered, Consumed: a.Consumed, Dropped: a.Dropped, Marked: a.Marked, Trimmed: a.Trimmed, Held: a.Held, Growth: flows.backlogGrowth(fb.Plan, now),
		}}),
		table.Of(Ports, ports), table.Of(Classes, classes), table.Of(Pauses, stops), table.Of(Streams, fb.Results()), table.Of(Transfers, fb.Transfers()), table.Of(NICs, counters),
	}
}

package recording

import (
	"io"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
)

// Series says which queues are sampled, and how often.
type Series struct {
	Ports  []plan.End
	Every  units.Time
	Length units.Time // of the run; 0 if not known
	Wall   bool       // under the wall clock
}

// Check validates a series of a plan before the run. The error names the fix.
func (s Series) Check(p *plan.Plan) error {
	length := s.Length
	if length == 0 && !s.Wall {
		length = lengthOf(p)
	}
	return series.CheckQueues(len(sourcesOf(p, s.Ports)), s.Every, length, s.Wall)
}

// lengthOf returns when the last of a plan's flows ends, 0 if that is not known.
func lengthOf(p *plan.Plan) (end units.Time) {
	for i := range p.Flows {
		f := &p.Flows[i]
		if f.For == 0 {
			return 0
		}
		end = max(end, f.At+f.For)
	}
	return end
}

// sourcesOf lists the queues of ports: each port, then its classes if it has several.
func sourcesOf(p *plan.Plan, ports []plan.End) (sources []series.Source) {
	for _, e := range ports {
		name := p.PortName(e.Node, e.Port)
		sources = append(sources, series.Source{Port: name})
		for _, c := range classesOf(p, e) {
			sources = append(sources, series.Source{Port: name, Class: c})
		}
	}
	return sources
}

// classesOf names the classes of a port that has several, by rising priority
// as in status.Port.
func classesOf(p *plan.Plan, e plan.End) (names []string) {
	if c := p.Nodes[e.Node].Ports[e.Port].Classes; len(c) > 1 {
		for i := range c {
			names = append(names, c[i].Name)
		}
	}
	return names
}

// RecordQueues starts a series of queues at time zero; s has been checked. A goroutine writes
// it to w. In virtual time Run takes the samples, and waits for the writer if
// it must. In the wall clock the engines take them, and lose what cannot be
// written in time. fabric.Sampling does not change what the fabric does.
func RecordQueues(f *fabric.Fabric, s Series, w io.Writer) *Recording {
	sources := sourcesOf(f.Plan, s.Ports)
	ring := 1 << 12
	if s.Wall {
		// Room for the samples of one second, in case the disk is busy.
		ring = int(min(max(float64(len(sources))*float64(units.Second)/float64(s.Every), float64(ring)), 1<<20))
	}
	gauges, columns := queueGauges(f, s.Ports)
	recorder := series.New(series.Options{Sources: sources, Gauges: gauges, Wait: !s.Wall, Ring: ring})
	r := &Recording{Things: len(sources), recorder: recorder}
	return r.begin(f, s.Every, s.Wall, func(part fabric.Part) fabric.Sampler {
		p := &queues{fabric: f}
		var indices []int32
		at := int32(0)
		for k, e := range s.Ports {
			n := len(classesOf(f.Plan, e))
			if part.Has(e.Node) {
				p.ports, p.classes, p.columns = append(p.ports, e), append(p.classes, n), append(p.columns, columns[k])
				for c := range int32(1 + n) {
					indices = append(indices, at+c)
				}
			}
			at += int32(1 + n)
		}
		if len(indices) == 0 {
			return nil
		}
		p.Tap, p.readings = recorder.NewTap(indices), make([]series.Reading, len(indices))
		p.giveGauges(len(gauges))
		return p
	}, w)
}

// queues are the queues that one goroutine samples.
type queues struct {
	*series.Tap
	fabric   *fabric.Fabric
	ports    []plan.End
	classes  []int            // by port: how many are sampled
	readings []series.Reading // of one instant

	columns []portGauges // by port
	values  []float64    // of the gauges of one queue
}

// Sample implements fabric.Sampler.
func (p *queues) Sample(now units.Time, alone bool) {
	if now <= p.LastSample() {
		return
	}
	i := 0
	for k, e := range p.ports {
		gauges := p.readings[i].Gauges
		p.readings[i] = readPort(now, p.fabric.Port(e.Node, e.Port), alone)
		p.readings[i].Gauges = gauges
		i++
		n := p.classes[k]
		if n > 0 {
			p.readings[i-1] = readClasses(now, p.fabric.Port(e.Node, e.Port), p.readings[i-1], p.readings[i:i+n])
			i += n
		}
		p.readGauges(now, e, &p.columns[k], p.readings[i-1-n:i])
	}
	p.PutReadings(now, p.readings)
}

// readPort reads a port. Packets that were under way when a link went down are
// counted by the far half of the link, which another engine may be writing.
func readPort(now units.Time, p *port.Port, alone bool) series.Reading {
	c := p.Counters(now)
	_, queue := p.QueueLength(now)
	r := series.Reading{
		Queue: queue, QueueMax: p.TakeMaxQueue(now), TxBytes: c.TxBytes, RxBytes: c.RxBytes,
		Dropped: c.DroppedPackets(), Marked: c.Marked,
	}
	if l := p.Link(); l != nil && (alone || !l.CrossesEngines()) {
		r.Dropped += l.Counters().Cut
	}
	return r
}

// readClasses reads the classes of a port and returns the reading of the whole
// port with what they add: their trims, and the pause of the class that was
// paused longest.
func readClasses(now units.Time, p *port.Port, whole series.Reading, into []series.Reading) series.Reading {
	for i := range into {
		c := p.SampleClass(now, i)
		into[i] = series.Reading{
			Queue: c.Queue, QueueMax: c.QueueMax, TxBytes: c.TxBytes,
			Dropped: c.Dropped, Marked: c.Marked, Trimmed: c.Trimmed, Paused: c.Paused, Gauges: into[i].Gauges,
		}
		whole.Trimmed += c.Trimmed
		whole.Paused = max(whole.Paused, c.Paused)
	}
	return whole
}

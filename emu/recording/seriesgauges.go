package recording

import (
	"slices"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// portGauges says which columns of a series contain the gauges of a port's queues.
type portGauges struct {
	points [][]int // of the congestion point, by row: the port, or it and then its classes; nil if none has any
	edge   []int   // of the edge service, in the row of the port
}

// queueGauges returns the gauge columns of the queues of ports, and which of them belong
// to each port. The columns of congestion points come first, then those of edge services,
// ordered by the name that a point or a service has in the lab file, and then as it lists
// them.
func queueGauges(f *fabric.Fabric, ports []plan.End) (all []series.Gauge, columns []portGauges) {
	points, services := map[string][]gauge.Gauge{}, map[string][]gauge.Gauge{}
	for _, e := range ports {
		for _, c := range pointsOf(f.Plan, e) {
			points[c.Name] = congestion.KindOf(c).Gauges
		}
		if chosen, ok := edgeAt(f, e); ok {
			services[chosen.Name] = edge.Services.Kind(chosen.Name).Gauges
		}
	}
	columns = make([]portGauges, len(ports))
	all, ofPoint := columnsByName(series.OfPoint, points, 0)
	more, ofEdge := columnsByName(series.OfEdge, services, len(all))
	for i, e := range ports {
		points := pointsOf(f.Plan, e)
		for k, c := range points {
			if own := ofPoint[c.Name]; len(own) > 0 {
				if columns[i].points == nil {
					columns[i].points = make([][]int, len(points))
				}
				columns[i].points[k] = own
			}
		}
		if chosen, ok := edgeAt(f, e); ok {
			columns[i].edge = ofEdge[chosen.Name]
		}
	}
	return append(all, more...), columns
}

// columnsByName returns the gauge columns of some systems, which follow behind other
// columns, and by name which of them belong to each system.
func columnsByName(of series.Owner, systems map[string][]gauge.Gauge, behind int) (all []series.Gauge, columns map[string][]int) {
	names := make([]string, 0, len(systems))
	for name := range systems {
		names = append(names, name)
	}
	slices.Sort(names)
	lists := make([][]gauge.Gauge, len(names))
	for i, name := range names {
		lists[i] = systems[name]
	}
	all, places := series.GaugeColumns(of, lists)
	columns = map[string][]int{}
	for i, name := range names {
		for k := range places[i] {
			places[i][k] += behind
		}
		columns[name] = places[i]
	}
	return all, columns
}

// pointsOf returns the congestion points of a port's rows: the point of its one queue,
// or none for the port as a whole and then the points of its classes.
func pointsOf(p *plan.Plan, e plan.End) (points []congestion.Choice) {
	port := &p.Nodes[e.Node].Ports[e.Port]
	switch len(port.Classes) {
	case 0:
		return []congestion.Choice{port.Queue.Mark}
	case 1:
		return []congestion.Choice{port.Classes[0].Mark}
	}
	points = append(points, congestion.Choice{})
	for i := range port.Classes {
		points = append(points, port.Classes[i].Mark)
	}
	return points
}

// edgeAt returns which edge service is in front of a port, if there is one.
func edgeAt(f *fabric.Fabric, e plan.End) (chosen edge.Choice, ok bool) {
	if iface := f.Interface(e.Node, e.Port); iface != nil && iface.EdgeService() != nil {
		return f.Plan.Nodes[e.Node].Edge, true
	}
	return chosen, false
}

// giveGauges gives the readings room for that many gauges, all without a value.
func (p *queues) giveGauges(columns int) {
	values := make([]float64, columns*len(p.readings))
	for i := range values {
		values[i] = gauge.None
	}
	for i := range p.readings {
		p.readings[i].Gauges = values[i*columns : (i+1)*columns : (i+1)*columns]
	}
}

// readGauges reads the gauges of a port's rows: the port's row, then the rows of its
// classes.
func (p *queues) readGauges(now units.Time, e plan.End, c *portGauges, rows []series.Reading) {
	port := p.fabric.Port(e.Node, e.Port)
	for i, columns := range c.points {
		if len(columns) == 0 {
			continue
		}
		if classes := len(p.fabric.Plan.Nodes[e.Node].Ports[e.Port].Classes); classes == 0 {
			p.values = port.AppendGauges(now, p.values[:0])
		} else {
			p.values = port.ClassGauges(now, i+1-min(classes, 2), p.values[:0])
		}
		intoColumns(rows[i].Gauges, columns, p.values)
	}
	if len(c.edge) > 0 {
		p.values = p.fabric.Interface(e.Node, e.Port).EdgeService().AppendGauges(now, p.values[:0])
		intoColumns(rows[0].Gauges, c.edge, p.values)
	}
}

// intoColumns puts values into their columns.
func intoColumns(gauges []float64, columns []int, values []float64) {
	for i, column := range columns {
		gauges[column] = values[i]
	}
}

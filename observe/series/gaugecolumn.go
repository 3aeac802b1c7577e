package series

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weftlab/weft/sim/gauge"
)

// Owner is the kind of component that a gauge belongs to.
type Owner uint8

// The owners.
const (
	OfControl Owner = iota // the rate control of a flow
	OfPoint                // the congestion point of a queue
	OfEdge                 // the edge service in front of a port
)

// ownerPrefixes begin the column names of gauges, so that they cannot clash with other
// columns.
var ownerPrefixes = [...]string{OfControl: "cc_", OfPoint: "point_", OfEdge: "edge_"}

// unitSuffixes end the column names of gauges.
var unitSuffixes = map[gauge.Unit]string{
	gauge.Bytes: "_bytes", gauge.BitsPerSecond: "_bps", gauge.Seconds: "_s", gauge.Share: "_share", gauge.YesNo: "_yes",
}

// Gauge is a gauge with a column.
type Gauge struct {
	Of Owner
	gauge.Gauge
}

// ColumnName returns the name of its column, such as cc_rtt_s, point_mark_probability_share,
// edge_flows.
func (g Gauge) ColumnName() string { return ownerPrefixes[g.Of] + g.Name + unitSuffixes[g.Unit] }

// String returns its name, for people. The name distinguishes a gauge of an edge service
// from one of a port.
func (g Gauge) String() string {
	name := strings.ReplaceAll(g.Name, "_", " ")
	if g.Of == OfEdge {
		name = "edge " + name
	}
	return name
}

// columnsOf returns the column names of gauges.
func columnsOf(gauges []Gauge) (names []string) {
	for _, g := range gauges {
		names = append(names, g.ColumnName())
	}
	return names
}

// appendGauges appends the values of gauges, each after a comma; gauge.None is empty.
func appendGauges(b []byte, values []float64) []byte {
	for _, v := range values {
		if b = append(b, ','); !math.IsNaN(v) {
			b = strconv.AppendFloat(b, v, 'g', -1, 64)
		}
	}
	return b
}

// GaugeColumns returns the gauges of an owner that a file has columns for, without
// duplicates of name and unit, and the positions of each list's gauges among them.
func GaugeColumns(of Owner, lists [][]gauge.Gauge) (all []Gauge, places [][]int) {
	for _, list := range lists {
		own := make([]int, len(list))
		for k, g := range list {
			i := slices.IndexFunc(all, func(o Gauge) bool { return o.Name == g.Name && o.Unit == g.Unit })
			if i < 0 {
				i = len(all)
				all = append(all, Gauge{of, g})
			}
			own[k] = i
		}
		places = append(places, own)
	}
	return all, places
}

// gaugeOf is the inverse of ColumnName for the given owners; the gauge has no help text.
func gaugeOf(column string, owners ...Owner) (g Gauge, ok bool) {
	for _, of := range owners {
		name, found := strings.CutPrefix(column, ownerPrefixes[of])
		if !found {
			continue
		}
		g = Gauge{of, gauge.Gauge{Name: name}}
		for unit, suffix := range unitSuffixes {
			if short, is := strings.CutSuffix(name, suffix); is {
				g.Name, g.Unit = short, unit
			}
		}
		return g, true
	}
	return g, false
}

package figure

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// examples are figures as in papers, at least one of each kind.
func examples() map[string]*Figure {
	schemes := []string{"DCQCN", "HPCC", "TIMELY", "Swift"}
	return map[string]*Figure{
		"cdf":           exampleCDF(schemes),
		"ccdf":          exampleCCDF(schemes),
		"sizes-log":     exampleSizes(schemes, Log),
		"sizes-share":   exampleSizes(schemes, Share),
		"time":          exampleTime(),
		"steps":         exampleSteps(),
		"bars":          exampleBars(schemes),
		"heat":          exampleHeat(),
		"lines":         exampleLines(schemes),
		"points":        examplePoints(),
		"panels":        examplePanels(schemes),
		"right":         exampleRight(),
		"heat-large":    exampleLargeHeat(),
		"long-names":    exampleLongNames(),
		"bars-log":      exampleBarsLog(),
		"factor-points": exampleFactorPoints(schemes),
	}
}

func random(i int) *rand.Rand { return rand.New(rand.NewPCG(1, uint64(i))) }

// times are flow completion times of one kind.
func times(i int) (v Values) {
	r := random(i)
	for range 3000 {
		v = append(v, math.Exp(r.NormFloat64()*(1+0.2*float64(i)))*30e-6*(1+0.3*float64(i)))
	}
	return v
}

func exampleCDF(schemes []string) *Figure {
	p := Panel{Kind: CDF, X: Axis{Label: "flow completion time", Unit: Seconds, Scale: Log}, Y: Axis{Label: "CDF"}}
	for i, s := range schemes {
		p.Series = append(p.Series, Series{Name: s, X: times(i)})
	}
	x, y := Distribution(times(0), 12)
	for i := range x {
		x[i] *= 1.1
	}
	p.Series = append(p.Series, Series{Name: schemes[0], X: x, Y: y, Reference: ReadOff})
	return &Figure{Panels: []Panel{p}}
}

func exampleCCDF(schemes []string) *Figure {
	p := Panel{Kind: CCDF, X: Axis{Label: "flow completion time", Unit: Seconds}, Y: Axis{Label: "CCDF", Scale: Log}}
	for i, s := range schemes {
		x, y := Distribution(times(i), 500)
		p.Series = append(p.Series, Series{Name: s, X: x, Y: y})
	}
	return &Figure{Panels: []Panel{p}}
}

// webSearch are quantiles of flow sizes.
var webSearch = Values{6e3, 8e3, 11e3, 14e3, 17e3, 19e3, 25e3, 35e3, 50e3, 90e3, 200e3, 400e3, 700e3, 1.1e6, 1.6e6, 2.2e6, 3e6, 5e6, 9e6, 30e6}

func exampleSizes(schemes []string, scale Scale) *Figure {
	p := Panel{Kind: Lines, X: Axis{Label: "flow size", Unit: Bytes, Scale: scale}, Y: Axis{Label: "99th percentile slowdown"}}
	for i, s := range schemes {
		x := Series{Name: s}
		for k, size := range webSearch {
			y := 2 + float64(i) + 12*math.Exp(-math.Pow(float64(k)-9-float64(i), 2)/20)*(1+0.3*float64(i))
			x.X, x.Y = append(x.X, size), append(x.Y, y)
		}
		p.Series = append(p.Series, x)
		if i == 1 {
			paper := Series{Name: s, Reference: ReadOff}
			for k := 0; k < len(x.X); k += 2 {
				paper.X, paper.Y = append(paper.X, x.X[k]), append(paper.Y, x.Y[k]*1.08)
			}
			p.Series = append(p.Series, paper)
		}
	}
	return &Figure{Panels: []Panel{p}}
}

func exampleTime() *Figure {
	p := Panel{Kind: Time, X: Axis{Label: "time", Unit: Seconds}, Y: Axis{Label: "queue", Unit: Bytes}}
	for i, s := range []string{"K_{min} = 50 KB", "K_{min} = 200 KB"} {
		r, level := random(i), 0.0
		x := Series{Name: s}
		for k := range 4000 {
			level = 0.97*level + r.NormFloat64()*6e3
			x.X = append(x.X, float64(k)*2.5e-6)
			mean := 80e3*(1+float64(i)) + level
			if k > 2000 && k < 2300 {
				mean = math.NaN()
			}
			x.Y, x.Low, x.High = append(x.Y, mean), append(x.Low, mean-25e3), append(x.High, mean+25e3)
		}
		p.Series = append(p.Series, x)
	}
	return &Figure{Panels: []Panel{p}}
}

func exampleSteps() *Figure {
	p := Panel{Kind: Time, Steps: Before, X: Axis{Label: "time", Unit: Seconds}, Y: Axis{Label: "goodput", Unit: BitsPerSecond}}
	for i := range 4 {
		s := Series{Name: fmt.Sprint("flow ", i+1)}
		for k := 0; k <= 40; k++ {
			rate := math.NaN()
			if at := k / 5; at >= i && at < 8-i {
				rate = 40e9 / float64(min(at, 7-at)+1) * (1 + 0.03*random(i*100+k).NormFloat64())
			}
			s.X, s.Y = append(s.X, float64(k)*25e-3), append(s.Y, rate)
		}
		p.Series = append(p.Series, s)
	}
	return &Figure{Panels: []Panel{p}}
}

func exampleBars(schemes []string) *Figure {
	p := Panel{Kind: Bars, X: Axis{Names: []string{"web search", "Hadoop", "storage", "ML training"}}, Y: Axis{Label: "mean completion time", Unit: Seconds}}
	for i, s := range schemes {
		x := Series{Name: s}
		for k := range p.X.Names {
			v := 1e-3 * (1 + 0.4*float64(i) + 0.7*math.Sin(float64(k*3+i)))
			x.Y, x.Low, x.High = append(x.Y, v), append(x.Low, v*0.9), append(x.High, v*1.12)
		}
		p.Series = append(p.Series, x)
	}
	p.Series = append(p.Series, Series{Name: "HPCC", Y: Values{1.2e-3, 1.7e-3, math.NaN(), 2.2e-3}, Reference: ReadOff})
	return &Figure{Panels: []Panel{p}}
}

func exampleBarsLog() *Figure {
	p := Panel{Kind: Bars, X: Axis{Names: []string{"incast of 8", "incast of 64", "incast of 256"}}, Y: Axis{Label: "p99 queue", Unit: Bytes, Scale: Log}}
	p.Series = []Series{{Name: "queue", Y: Values{2e3, 90e3, 4e6}, Low: Values{1e3, 80e3, 3e6}, High: Values{4e3, 1e5, 6e6}}}
	return &Figure{Panels: []Panel{p}}
}

func exampleHeat() *Figure {
	p := Panel{Kind: Heat, X: Axis{Label: "load"}, Y: Axis{Label: "incast degree"}, Z: &Axis{Label: "p99 slowdown"}}
	for i := range 6 {
		p.X.Names = append(p.X.Names, fmt.Sprintf("%d%%", 30+10*i))
	}
	for i := range 5 {
		p.Y.Names = append(p.Y.Names, fmt.Sprint(8<<i))
		var row Values
		for k := range p.X.Names {
			row = append(row, 1.5+float64(i*k)*0.9+float64(k))
		}
		p.Matrix = append(p.Matrix, row)
	}
	p.Matrix[4][5] = math.NaN()
	return &Figure{Panels: []Panel{p}}
}

func exampleLargeHeat() *Figure {
	p := Panel{Kind: Heat, X: Axis{Label: "to host"}, Y: Axis{Label: "from host"}, Z: &Axis{Label: "traffic", Unit: Bytes, Scale: Log}}
	for i := range 48 {
		p.X.Names = append(p.X.Names, fmt.Sprint("h", i+1))
		p.Y.Names = append(p.Y.Names, fmt.Sprint("h", i+1))
		var row Values
		for k := range 48 {
			v := math.Exp(random(i*48+k).NormFloat64()*2) * 1e6 / (1 + math.Abs(float64(i-k))/8)
			if i == k {
				v = math.NaN()
			}
			row = append(row, v)
		}
		p.Matrix = append(p.Matrix, row)
	}
	return &Figure{Panels: []Panel{p}}
}

func exampleLines(schemes []string) *Figure {
	p := Panel{Kind: Lines, X: Axis{Label: "load", Unit: Ratio}, Y: Axis{Label: "goodput", Unit: BitsPerSecond}}
	for i, s := range schemes {
		x := Series{Name: s}
		for k := range 9 {
			load := 0.1 * float64(k+1)
			v := 100e9 * load * (1 - 0.08*float64(i)*load)
			x.X, x.Y, x.Low, x.High = append(x.X, load), append(x.Y, v), append(x.Low, v*0.95), append(x.High, v*1.04)
		}
		p.Series = append(p.Series, x)
	}
	return &Figure{Panels: []Panel{p}}
}

func examplePoints() *Figure {
	p := Panel{Kind: Points, X: Axis{Label: "flow size", Unit: Bytes, Scale: Log}, Y: Axis{Label: "slowdown", Scale: Log}}
	for i, s := range []string{"intra-rack", "inter-rack"} {
		x, r := Series{Name: s}, random(i)
		for range 300 {
			size := math.Exp(r.Float64()*9) * 1000
			x.X, x.Y = append(x.X, size), append(x.Y, 1+math.Exp(r.NormFloat64())*float64(i+1)*2e5/(size+1e5))
		}
		p.Series = append(p.Series, x)
	}
	return &Figure{Panels: []Panel{p}}
}

func exampleFactorPoints(schemes []string) *Figure {
	p := Panel{Kind: Points, X: Axis{Label: "topology", Names: []string{"dumbbell", "leaf-spine", "fat tree", "dragonfly"}}, Y: Axis{Label: "Jain's index", Min: At(0.6), Max: At(1)}}
	for i, s := range schemes {
		x := Series{Name: s}
		for k := range p.X.Names {
			v := 0.95 - 0.06*float64(i) - 0.02*float64(k)
			x.X, x.Y, x.Low, x.High = append(x.X, float64(k+1)), append(x.Y, v), append(x.Low, v-0.03), append(x.High, v+0.02)
		}
		p.Series = append(p.Series, x)
	}
	return &Figure{Panels: []Panel{p}}
}

func examplePanels(schemes []string) *Figure {
	f := &Figure{Width: TwoColumns, Columns: 3, ShareY: true}
	for i, load := range []string{"30%", "50%", "80%"} {
		p := exampleSizes(schemes, Share).Panels[0]
		p.Title = fmt.Sprintf("(%c) load %s", 'a'+i, load)
		for k := range p.Series {
			for n := range p.Series[k].Y {
				p.Series[k].Y[n] *= 1 + 0.5*float64(i)
			}
		}
		f.Panels = append(f.Panels, p)
	}
	return f
}

func exampleRight() *Figure {
	f := &Figure{Width: ColumnAndHalf, Legend: Right, Columns: 1, ShareX: true}
	for i, what := range []string{"p50 delay", "p99 delay"} {
		p := Panel{Kind: Lines, X: Axis{Label: "senders", Scale: Log}, Y: Axis{Label: what, Unit: Seconds}}
		for k := range 12 {
			s := Series{Name: fmt.Sprint("variant ", k+1)}
			for n := 2.0; n <= 256; n *= 2 {
				s.X, s.Y = append(s.X, n), append(s.Y, (1+float64(i)*2)*1e-6*(float64(k)+n/10))
			}
			p.Series = append(p.Series, s)
		}
		f.Panels = append(f.Panels, p)
	}
	return f
}

func exampleLongNames() *Figure {
	p := Panel{Kind: Bars, X: Axis{Names: []string{"leaf-spine with 16 spines and ECMP by entropy", "fat tree of 1024 hosts (k = 16)", "a_name_without_any_place_to_break_it"}},
		Y: Axis{Label: "mean time that the last response of a request takes over all requests", Unit: Seconds}}
	p.Series = []Series{
		{Name: "DCQCN with the parameters of the SIGCOMM 2015 paper and all switches marking by RED", Y: Values{1, 2, 3}},
		{Name: "HPCC with η = 0.95", Y: Values{2, 1, 2}},
	}
	return &Figure{Title: "A title that is far too long for the one column that it has to stand in", Panels: []Panel{p}}
}

// oddities are figures with unusual data.
func oddities() map[string]*Figure {
	nan := math.NaN()
	var twelve []Series
	for i := range 12 {
		twelve = append(twelve, Series{Name: fmt.Sprintf("variant %d of 12", i+1), X: times(i % 5)[:20+i]})
	}
	wide, names := Series{Name: "wide"}, []string(nil)
	for e := -7; e <= 3; e++ {
		wide.X, wide.Y = append(wide.X, math.Pow(10, float64(e))), append(wide.Y, math.Pow(10, float64(3*e)))
	}
	for i := range 40 {
		names = append(names, fmt.Sprintf("a host with a long name, number %d", i))
	}
	line := func(k Kind, s ...Series) *Figure {
		return &Figure{Panels: []Panel{{Kind: k, X: Axis{Label: "x", Unit: Seconds}, Y: Axis{Label: "y"}, Series: s}}}
	}
	decades := line(Lines, wide)
	decades.Panels[0].X.Scale, decades.Panels[0].Y.Scale = Log, Log
	empty := line(Lines, Series{Name: "a", X: Values{1, 2}, Y: Values{3, 4}}, Series{Name: "b"})
	empty.Panels = append(empty.Panels, Panel{Kind: Time, Series: []Series{{Name: "b", X: Values{1}, Y: Values{nan}}}},
		Panel{Kind: CDF, Series: []Series{{Name: "a", X: Values{}}}}, Panel{Kind: Heat, X: Axis{Names: []string{"a"}}, Y: Axis{Names: []string{"b"}}, Matrix: []Values{{nan}}})
	many := &Figure{Panels: []Panel{{Kind: Bars, X: Axis{Names: names}, Y: Axis{Label: "drops"}, Series: []Series{{Y: make(Values, 40)}}}}}
	for i := range names {
		many.Panels[0].Series[0].Y[i] = float64(i*i) * 1e6
	}
	zeroLog := line(CDF, Series{Name: "queue", X: Values{0, 0, 0, 1e-3, 2e-3, 0.5}})
	zeroLog.Panels[0].X.Scale = Log
	intervals := line(Lines, Series{Name: "an interval below 0", X: Values{1, 2, 3}, Y: Values{1, 2, 3}, Low: Values{-1, 0.5, nan}, High: Values{2, 3, nan}})
	intervals.Panels[0].Y.Scale = Log
	clipped := line(Time, Series{Name: "c", X: Values{0, 1, 2, 3}, Y: Values{0, 1e9, -1e9, 2}, Low: Values{-1, 1e8, -2e9, 1}, High: Values{1, 2e9, 1e8, 3}})
	clipped.Panels[0].Y.Min, clipped.Panels[0].Y.Max, clipped.Panels[0].X.Max = At(-5), At(5), At(2.5)
	return map[string]*Figure{
		"odd-12":        line(CDF, twelve...),
		"odd-decades":   decades,
		"odd-empty":     empty,
		"odd-one":       line(Lines, Series{X: Values{5e-6}, Y: Values{7}}),
		"odd-one-time":  line(Time, Series{X: Values{5e-6}, Y: Values{0}}),
		"odd-one-cdf":   line(CDF, Series{X: Values{5e-6}}),
		"odd-equal":     line(Lines, Series{Name: "3", X: Values{1, 2, 3}, Y: Values{3, 3, 3}}, Series{Name: "0", X: Values{1, 2, 3}, Y: Values{0, 0, 0}}),
		"odd-equal-cdf": line(CDF, Series{X: Values{2, 2, 2, 2}}),
		"odd-gaps":      line(Time, Series{X: Values{0, 1, 2, 3, 4, 5}, Y: Values{1, nan, 3, nan, 2, 1}, Low: Values{0.5, nan, 2, nan, 1, nan}, High: Values{2, nan, 4, nan, 3, nan}}),
		"odd-negative":  {Panels: []Panel{{Kind: Bars, X: Axis{Names: []string{"up", "down", "none", "gap"}}, Y: Axis{Label: "change", Unit: Ratio}, Series: []Series{{Y: Values{0.2, -0.4, 0, nan}}}}}},
		"odd-many":      many,
		"odd-huge":      line(Lines, Series{X: Values{1e-12, 3e-12}, Y: Values{1e300, -1e300}}),
		"odd-zero-log":  zeroLog,
		"odd-intervals": intervals,
		"odd-clipped":   clipped,
		"odd-heat":      {Panels: []Panel{{Kind: Heat, X: Axis{Names: names[:5]}, Y: Axis{Names: names[:3]}, Z: &Axis{Label: "change"}, Matrix: []Values{{-1, -2, 3, 4, 5}, {0, 0, 0, 0, nan}, {1, 1, 1, 1, 1}}}}},
	}
}

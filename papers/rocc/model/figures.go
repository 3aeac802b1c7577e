package main

import (
	"fmt"
	"math"
	"strconv"

	"github.com/weftlab/weft/protocols/rocc/loop"
	"github.com/weftlab/weft/view/figure"
)

// paperFigures returns the figures of §5, and ours of auto-tuning, by file name.
func paperFigures() map[string]*figure.Figure {
	return map[string]*figure.Figure{"fig5": drawFig5(), "fig6": drawFig6(), "fig7": drawFig7(), "tuned": drawTuned()}
}

// formatPair formats gains as the paper does.
func formatPair(s loop.Settings) string { return formatShort(s.Alpha) + ":" + formatShort(s.Beta) }

// formatShort formats a number with six digits at most, without trailing zeros.
func formatShort(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// divideGains returns the settings with both gains divided by a number.
func divideGains(s loop.Settings, by float64) loop.Settings {
	s.Alpha, s.Beta = s.Alpha/by, s.Beta/by
	return s
}

// drawFig5 draws the phase margin over the gains for N = 2 (§5.2, Fig. 5). A step up and to the
// right doubles both gains and so has the effect of twice as many flows.
func drawFig5() *figure.Figure {
	p := figure.Panel{Kind: figure.Heat, X: figure.Axis{Label: "gain α"}, Y: figure.Axis{Label: "gain β"}, Z: &figure.Axis{Label: "phase margin", Unit: "°"}}
	s := loop.AnalysisSettings()
	for alpha := 0.01875; alpha < 3; alpha *= 2 {
		p.X.Names = append(p.X.Names, formatShort(alpha))
	}
	for beta := 0.09375; beta < 13; beta *= 2 {
		p.Y.Names = append(p.Y.Names, formatShort(beta))
		var row figure.Values
		for alpha := 0.01875; alpha < 3; alpha *= 2 {
			s.Alpha, s.Beta = alpha, beta
			// Whole degrees fit into the cells of one column.
			row = append(row, math.Round(s.Loop(2).Margin()))
		}
		p.Matrix = append(p.Matrix, row)
	}
	return &figure.Figure{Panels: []figure.Panel{p}}
}

// drawFig6 draws the Bode diagram of 0.3:3 for 2 and for 10 flows (§5.2, Fig. 6). The phase does
// not depend on the number of flows, so its curves coincide.
func drawFig6() *figure.Figure {
	const from, to = 1e3, 1e5 // rad/s
	x := figure.Axis{Label: "frequency", Unit: "rad/s", Scale: figure.Log, Min: figure.At(from), Max: figure.At(to)}
	gain := figure.Panel{Kind: figure.Lines, X: x, Y: figure.Axis{Label: "magnitude", Unit: "dB", Min: figure.At(-30), Max: figure.At(50)}}
	phase := figure.Panel{Kind: figure.Lines, X: x, Y: figure.Axis{Label: "phase", Unit: "°", Min: figure.At(-320), Max: figure.At(-90)}}
	// Lines at 0 dB and at -180°, with a mark at each crossover, and a line from there to the
	// phase. They begin and end beyond the axes, where no marker is visible.
	zero := figure.Series{Name: "phase margin", X: figure.Values{from / 10}, Y: figure.Values{0}, Style: figure.Style{Colour: 5, Dash: 5, Marker: 4}}
	margin := figure.Series{Name: zero.Name, X: figure.Values{from / 10}, Y: figure.Values{-180}}
	for i, n := range []int{2, 10} {
		l := loop.AnalysisSettings().Loop(n)
		g := figure.Series{Name: fmt.Sprintf("N = %d", n), Style: figure.Style{Colour: i + 1, Dash: i + 1, Marker: i + 1}}
		p := g
		for k := range 201 {
			w := from * math.Pow(to/from, float64(k)/200)
			g.X, g.Y = append(g.X, w), append(g.Y, loop.Decibels(l.Gain(w)))
			p.X, p.Y = append(p.X, w), append(p.Y, l.Phase(w))
		}
		gain.Series, phase.Series = append(gain.Series, g), append(phase.Series, p)
		w := l.Crossover()
		zero.X, zero.Y = append(zero.X, w), append(zero.Y, 0)
		margin.X, margin.Y = append(margin.X, w, w, w), append(margin.Y, -180, l.Phase(w), -180)
	}
	zero.X, zero.Y = append(zero.X, to*10), append(zero.Y, 0)
	margin.X, margin.Y = append(margin.X, to*10), append(margin.Y, -180)
	gain.Series, phase.Series = append(gain.Series, zero), append(phase.Series, margin)
	return &figure.Figure{Columns: 1, ShareX: true, Height: 4, Panels: []figure.Panel{gain, phase}}
}

// halvedPairs returns the six pairs of Fig. 7, from 0.3:3.
func halvedPairs() (all []loop.Settings) {
	for by := 1.0; by <= 32; by *= 2 {
		all = append(all, divideGains(loop.AnalysisSettings(), by))
	}
	return all
}

// drawFig7 draws the phase margin and the bandwidth over the number of flows for the six pairs of
// fixed gains (§5.2, Fig. 7a and 7b).
func drawFig7() *figure.Figure {
	c := newCurves(2, 128)
	for _, s := range halvedPairs() {
		c.addCurves(formatPair(s), s, false)
	}
	return c.figureOf()
}

// drawTuned draws Fig. 7 for the auto-tuned controller with the gains of §6, and for the same gains
// when fixed. It extends beyond the 300 flows of §6.3.
func drawTuned() *figure.Figure {
	c := newCurves(1, 500)
	for _, v := range []struct {
		name string
		s    loop.Settings
	}{{"0.3:1.5 (40 Gb/s)", loop.Evaluation40G()}, {"0.45:2.25 (100 Gb/s)", loop.Evaluation100G()}} {
		c.addCurves(v.name+", auto-tuned", v.s, true)
		c.addCurves(v.name+", fixed", v.s, false)
	}
	return c.figureOf()
}

// settingsFigure draws the same for the user's settings.
func settingsFigure(s loop.Settings, flows int) *figure.Figure {
	c := newCurves(1, max(flows, 128))
	c.addCurves("auto-tuned from "+formatPair(s), s, true)
	c.addCurves("fixed "+formatPair(s), s, false)
	return c.figureOf()
}

// curves holds margins and bandwidths over the number of flows.
type curves struct {
	from, to          int
	margin, bandwidth figure.Panel
}

func newCurves(from, to int) *curves {
	x := figure.Axis{Label: "flows N", Scale: figure.Log, Min: figure.At(float64(from)), Max: figure.At(float64(to))}
	c := &curves{from: from, to: to}
	c.margin = figure.Panel{Title: "(a) phase margin", Kind: figure.Lines, X: x, Y: figure.Axis{Label: "phase margin", Unit: "°; stable above 0", Min: figure.At(-60), Max: figure.At(60)}}
	c.bandwidth = figure.Panel{Title: "(b) loop bandwidth", Kind: figure.Lines, X: x, Y: figure.Axis{Label: "crossover frequency", Unit: "rad/s", Scale: figure.Log}}
	return c
}

// addCurves adds the curves of settings, whose gains are auto-tuned or fixed.
func (c *curves) addCurves(name string, s loop.Settings, tuned bool) {
	m, b := figure.Series{Name: name}, figure.Series{Name: name}
	for n := c.from; n <= c.to; n = nextCount(n) {
		t := s
		if tuned {
			t = s.TunedFor(n)
		}
		l := t.Loop(n)
		m.X, m.Y = append(m.X, float64(n)), append(m.Y, l.Margin())
		b.X, b.Y = append(b.X, float64(n)), append(b.Y, l.Crossover())
	}
	c.margin.Series, c.bandwidth.Series = append(c.margin.Series, m), append(c.bandwidth.Series, b)
}

// nextCount returns the number of flows after n: every number up to 128, where ratios change, and
// then steps too small to show on a logarithmic axis.
func nextCount(n int) int { return n + 1 + n/128 }

func (c *curves) figureOf() *figure.Figure {
	return &figure.Figure{Width: figure.TwoColumns, Panels: []figure.Panel{c.margin, c.bandwidth}}
}

// Command picture plots a port of a running lab over time: its egress rate, the
// length of its queue and the marks it sets. It queries the lab's control socket
// every SampleEvery. The README's picture was made with it.
//
//	picture LAB PORT SECONDS FILE.png
package main

import (
	"context"
	"fmt"
	"image/color"
	"os"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/status"
	netnslab "github.com/weftlab/weft/netns-lab"
)

// SampleEvery is the resolution of the picture.
const SampleEvery = 25 * time.Millisecond

type sample struct {
	at     float64 // seconds since the picture began
	port   status.Port
	rate   float64 // Mb/s since the last sample
	marked float64 // share of packets marked since the last sample, percent
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("usage: picture LAB PORT SECONDS FILE.png")
	}
	seconds, err := strconv.ParseFloat(args[2], 64)
	if err != nil {
		return err
	}
	info, err := netnslab.FindLab(args[0])
	if err != nil {
		return err
	}
	samples, err := watchPort(lab.NewClient(info.Dir), args[1], seconds)
	if err != nil {
		return err
	}
	return drawPicture(args[0], args[1], samples, args[3])
}

// watchPort samples one port.
func watchPort(c *lab.Client, name string, seconds float64) ([]sample, error) {
	var out []sample
	tick := time.NewTicker(SampleEvery)
	defer tick.Stop()
	start := 0.0
	for len(out) == 0 || out[len(out)-1].at < seconds {
		// The report carries emulated time beside the counters.
		r, err := c.Report(context.Background())
		if err != nil {
			return nil, err
		}
		s := sample{at: r.Emulated.Seconds()}
		found := false
		for _, p := range r.Ports {
			if p.Name == name {
				s.port, found = p, true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no port %s", name)
		}
		if len(out) == 0 {
			start = s.at
		}
		s.at -= start
		if n := len(out); n > 0 {
			last := out[n-1]
			s.rate = float64(s.port.TxBytes-last.port.TxBytes) * 8 / (s.at - last.at) / 1e6
			if sent := s.port.TxPackets - last.port.TxPackets; sent > 0 {
				s.marked = 100 * float64(s.port.Marked-last.port.Marked) / float64(sent)
			}
		}
		out = append(out, s)
		<-tick.C
	}
	return out, nil
}

// drawPicture stacks the plots of rate, queue and marks.
func drawPicture(lab, port string, samples []sample, file string) error {
	panels := []struct {
		label string
		value func(s sample) float64
		color color.Color
	}{
		{"leaving, Mb/s", func(s sample) float64 { return s.rate }, color.RGBA{0x1f, 0x77, 0xb4, 0xff}},
		{"queue, KB", func(s sample) float64 { return float64(s.port.QueueBytes) / 1000 }, color.RGBA{0xd6, 0x27, 0x28, 0xff}},
		{"marked, %", func(s sample) float64 { return s.marked }, color.RGBA{0x2c, 0xa0, 0x2c, 0xff}},
	}
	plots := make([][]*plot.Plot, len(panels))
	for i, panel := range panels {
		p := plot.New()
		p.Y.Label.Text = panel.label
		p.Y.Min = 0
		p.Add(plotter.NewGrid())
		xy := make(plotter.XYs, len(samples))
		for j, s := range samples {
			xy[j].X, xy[j].Y = s.at, panel.value(s)
		}
		line, err := plotter.NewLine(xy)
		if err != nil {
			return err
		}
		line.Color, line.Width = panel.color, vg.Points(1)
		p.Add(line)
		plots[i] = []*plot.Plot{p}
	}
	plots[0][0].Title.Text = fmt.Sprintf("lab %s: real iperf3 through port %s", lab, port)
	plots[len(plots)-1][0].X.Label.Text = "emulated time, s"
	img := vgimg.NewWith(vgimg.UseWH(18*vg.Centimeter, 13*vg.Centimeter), vgimg.UseDPI(120))
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadY: vg.Points(6), PadX: vg.Points(6), PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(10)}
	for i, c := range plot.Align(plots, tiles, draw.New(img)) {
		plots[i][0].Draw(c[0])
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(f); err != nil {
		return err
	}
	return f.Close()
}

package chart

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/view/figure"
	"github.com/weftlab/weft/view/figure/canvas"
)

const us, ms = units.Microsecond, units.Millisecond

// write writes a test's file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// waves returns a series of ports p:1, p:2, ... with a class each. Their queues
// go up and down by 1000 bytes times the port's number, every 10us for 10ms, with
// one sample ten times as high.
func waves(t *testing.T, name string, ports int) string {
	t.Helper()
	var sources []series.Source
	var indices []int32
	for i := range ports {
		p := fmt.Sprint("p:", i+1)
		sources = append(sources, series.Source{Port: p}, series.Source{Port: p, Class: "bulk"})
		indices = append(indices, int32(2*i), int32(2*i+1))
	}
	r := series.New(series.Options{Sources: sources, Ring: 1000 * len(sources)})
	tap, now := r.NewTap(indices), make([]series.Reading, len(sources))
	for k := 1; k <= 1000; k++ {
		for i := range now {
			x := &now[i]
			x.Queue = units.Bytes(500 * float64(i/2+1) * (1 + math.Sin(float64(k)/50+float64(i))))
			if i == 0 && k == 700 {
				x.Queue = 10_000
			}
			x.QueueMax = x.Queue
			x.TxBytes += uint64(1000 * (i + 1))
			x.RxBytes += 500
			if k > 500 {
				x.Dropped++
			}
		}
		tap.PutReadings(units.Time(k)*10*us, now)
	}
	r.Close()
	var out bytes.Buffer
	if _, err := r.Run(&out); err != nil {
		t.Fatal(err)
	}
	return write(t, name, out.String())
}

func all(o Options) Options {
	o.To, o.Width, o.Height = units.Never, 800, 500
	return o
}

func open(t *testing.T, o Options, files ...string) Review {
	t.Helper()
	if o.To == 0 {
		o = all(o)
	}
	r, err := Open(files, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// figureIn returns the figure of a review, its panel and the note.
func figureIn(t *testing.T, r Review) (*figure.Figure, *figure.Panel, string) {
	t.Helper()
	f, note, err := r.Figure()
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Panels) != 1 {
		t.Fatalf("%d panels", len(f.Panels))
	}
	return f, &f.Panels[0], note
}

// lineNames returns the names of a panel's lines.
func lineNames(p *figure.Panel) (all []string) {
	for _, s := range p.Series {
		all = append(all, s.Name)
	}
	return all
}

func drawPNG(t *testing.T, f *figure.Figure) image.Image {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b, "png"); err != nil {
		t.Fatal(err)
	}
	i, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// near counts the pixels of roughly this colour.
func near(i image.Image, c color.NRGBA) (n int) {
	for y := i.Bounds().Min.Y; y < i.Bounds().Max.Y; y++ {
		for x := i.Bounds().Min.X; x < i.Bounds().Max.X; x++ {
			r, g, b, _ := i.At(x, y).RGBA()
			d := func(a uint32, b uint8) float64 { return math.Abs(float64(a>>8) - float64(b)) }
			if d(r, c.R)+d(g, c.G)+d(b, c.B) < 12 {
				n++
			}
		}
	}
	return n
}

// TestPNG checks that a picture has the requested size, and that each line is
// visible in its colour, whatever is drawn.
func TestPNG(t *testing.T) {
	file := waves(t, "waves.csv", 3)
	for _, o := range []Options{
		{}, {LogY: true}, {What: "queue-max"}, {What: "rate"}, {What: "rx-rate", Average: ms}, {What: "drops"}, {What: "marks"}, {What: "paused"},
		{Class: "*"}, {Class: "bulk", What: "rate"}, {From: 2 * ms}, {Width: 1200, Height: 300},
	} {
		width, height := o.Width, o.Height
		o := all(o)
		if width > 0 {
			o.Width, o.Height = width, height
		}
		f, p, note := figureIn(t, open(t, o, file))
		i := drawPNG(t, f)
		if got := i.Bounds().Size(); got != (image.Point{o.Width, o.Height}) || note != "" || len(p.Series) != 3 {
			t.Errorf("%+v: %v, %d lines, %s", o, got, len(p.Series), note)
		}
		for k := range p.Series {
			if n := near(i, canvas.Colours[k]); n < 20 {
				t.Errorf("%+v: %d pixels of line %d", o, n, k)
			}
		}
	}
}

// TestSVG checks that the picture is well-formed, names its lines and axes with
// units, and has a path in the colour of each line.
func TestSVG(t *testing.T) {
	f, p, _ := figureIn(t, open(t, Options{}, waves(t, "waves.csv", 4)))
	var b bytes.Buffer
	if err := f.Write(&b, "svg"); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	paths := map[string]int{}
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "path" {
			for _, a := range e.Attr {
				if _, stroke, ok := strings.Cut(a.Value, "stroke:"); ok && a.Name.Local == "style" {
					stroke, _, _ = strings.Cut(stroke, ";")
					paths[stroke]++
				}
			}
		}
	}
	for k := range p.Series {
		c := canvas.Colours[k]
		if paths[fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B)] < 2 { // in the plot and in the legend
			t.Errorf("line %d has no path: %v", k, paths)
		}
	}
	for _, want := range []string{">p:1<", ">p:4<", "emulated time (ms)", "queue (KB)"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
}

// TestPeaksStay checks that a single sample among a thousand is visible at its
// full height in a picture of few pixels.
func TestPeaksStay(t *testing.T) {
	o := all(Options{Ports: []string{"p:1"}})
	o.Width = 200
	_, p, _ := figureIn(t, open(t, o, waves(t, "waves.csv", 2)))
	if len(p.Series) != 1 || len(p.Series[0].X) > 4*201 {
		t.Fatalf("%d lines of %d points", len(p.Series), len(p.Series[0].X))
	}
	if maxValue := slices.Max(p.Series[0].Y); maxValue != 10e3 || p.Y.Max != nil {
		t.Errorf("the peak is %v of 10 KB", maxValue)
	}
}

// TestManyQueues checks that, if there are more queues than colours, those with
// the greatest values are drawn, with a note.
func TestManyQueues(t *testing.T) {
	file := waves(t, "waves.csv", 12)
	f, p, note := figureIn(t, open(t, Options{}, file))
	if got := strings.Join(lineNames(p), " "); got != "p:1 p:6 p:7 p:8 p:9 p:10 p:11 p:12" || !strings.Contains(note, "8 of 12") {
		t.Errorf("%s; %s", got, note)
	}
	if i := drawPNG(t, f); near(i, canvas.Colours[7]) < 20 {
		t.Error("the last line cannot be seen")
	}
	var text bytes.Buffer
	open(t, Options{}, file).Write(&text)
	if n := strings.Count(text.String(), "p:"); n != 12 {
		t.Errorf("%d queues in\n%s", n, text.String())
	}
}

// TestSeveralFiles checks that lines from several files carry the files' names.
func TestSeveralFiles(t *testing.T) {
	r := open(t, Options{Ports: []string{"p:1"}, From: ms, To: 2 * ms, Width: 800, Height: 500}, waves(t, "before.csv", 1), waves(t, "after.csv", 1))
	_, p, _ := figureIn(t, r)
	if got := lineNames(p); !slices.Equal(got, []string{"before p:1", "after p:1"}) || *p.X.Min != 0.001 || *p.X.Max != 0.002 || p.X.Label != "emulated time" || p.X.Unit != figure.Seconds {
		t.Errorf("%+v", p)
	}
}

// TestSums checks the summary of a series, as text and as JSON.
func TestSums(t *testing.T) {
	r := open(t, Options{Ports: []string{"p:2"}, From: 5010 * us, To: 6000 * us}, waves(t, "waves.csv", 3))
	var text bytes.Buffer
	r.Write(&text)
	for _, want := range []string{"waves.csv: 100 samples of each queue from 0.005s to 0.006s", "port", "queue mean", "p:2", "2.4Gbps", "400Mbps", "100"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Queues []struct {
			Port    string  `json:"port"`
			Rows    int     `json:"rows"`
			Tx      float64 `json:"tx_bps"`
			Dropped int     `json:"dropped_packets"`
			From    string  `json:"from"`
		} `json:"queues"`
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Queues) != 1 || got.Queues[0].Port != "p:2" || got.Queues[0].Rows != 100 || math.Abs(got.Queues[0].Tx-2.4e9) > 1 || got.Queues[0].Dropped != 100 || got.Queues[0].From != "5ms" {
		t.Errorf("%s", b)
	}
}

func flowFile(t *testing.T, name string, scale float64) string {
	t.Helper()
	var results []workload.Result
	for i := range 100 {
		d := scale * float64(i+1)
		results = append(results, workload.Result{Flow: fmt.Sprint("f", i), Sent: 10, Received: 9, Lost: 1, LossShare: 0.1, Start: 1, End: 1 + d/1000,
			Goodput: int64(1e6 * d), DelayMin: d, DelayMean: d, DelayP50: d, DelayP99: 2 * d, DelayMax: 3 * d})
	}
	results = append(results, workload.Result{Flow: "silent", Sent: 5, Lost: 5, LossShare: 1})
	var b bytes.Buffer
	write2 := workload.WriteCSV
	if filepath.Ext(name) == ".json" {
		write2 = workload.WriteJSON
	}
	if err := write2(&b, results); err != nil {
		t.Fatal(err)
	}
	return write(t, name, b.String())
}

// TestStreams checks percentiles over flows of packets, and their distribution as a picture.
func TestStreams(t *testing.T) {
	a, b := flowFile(t, "a.csv", 1), flowFile(t, "b.json", 10)
	r := open(t, Options{What: "delay", LogX: true}, a, b)
	var text bytes.Buffer
	r.Write(&text)
	squeezed := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		"a.csv: 101 flows, 1 without arrivals", "over flows mean min p50 p90 p95 p99 max",
		"completion 50.5ms 1ms 50ms 90ms 95ms 99ms 100ms", "delay-p99 101us 2us 100us 180us 190us 198us 200us",
		"loss 10.9% 10% 10% 10% 10% 10% 100%", "goodput 505Mbps 10Mbps 500Mbps 900Mbps",
	} {
		if !strings.Contains(squeezed, want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	f, p, _ := figureIn(t, r)
	if got := lineNames(p); len(got) != 6 || got[0] != "a p50" || got[5] != "b max" || p.X.Label != "one-way delay" || p.X.Unit != figure.Seconds || p.X.Scale != figure.Log || math.Abs(*p.X.Min-1e-6) > 1e-15 || math.Abs(*p.X.Max-5e-3) > 1e-12 {
		t.Errorf("%q, %+v", got, p.X)
	}
	i := drawPNG(t, f)
	for k := range p.Series {
		if near(i, canvas.Colours[k]) < 20 {
			t.Errorf("line %d cannot be seen", k)
		}
	}
	for _, what := range StreamPictures() {
		f, p, _ := figureIn(t, open(t, Options{What: what}, a))
		if y := p.Series[0].Y; y[0] != 0 || y[len(y)-1] != 1 {
			t.Errorf("%s does not go from 0 to 1: %v", what, y)
		}
		drawPNG(t, f)
	}
	j, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(j), `"completion":{"unit":"s","mean":0.05`) || !strings.Contains(string(j), `"loss":{"unit":"share"`) || !strings.Contains(string(j), `"goodput":{"unit":"b/s"`) {
		t.Errorf("%v\n%s", err, j)
	}
}

// TestErrors checks that what cannot be shown is refused, with the reason and the
// fix.
func TestErrors(t *testing.T) {
	good, flows, transfers := waves(t, "good.csv", 3), flowFile(t, "flows.csv", 1), transferFile(t, "transfers.csv", mice(1))
	nothing := transferFile(t, "nothing.csv", []workload.TransferResult{{Transfer: "a", Posted: 1, Ideal: 1}})
	head := strings.Join(series.Columns[:], ",") + "\n"
	for _, c := range []struct {
		files []string
		o     Options
		want  string
	}{
		{[]string{filepath.Join(t.TempDir(), "none.csv")}, Options{}, "no such file"},
		{[]string{write(t, "lab.yaml", "topology: {}\n")}, Options{}, "neither a series"},
		{[]string{write(t, "empty.csv", "")}, Options{}, "neither a series"},
		{[]string{write(t, "binary.csv", strings.Repeat("\x00", 1<<17))}, Options{}, "neither a series"},
		{[]string{write(t, "cut.csv", "time_s,port,queue_bytes\n")}, Options{}, "cut.csv: missing column interval_s"},
		{[]string{write(t, "head.csv", head)}, Options{}, "has no samples"},
		{[]string{write(t, "bad.csv", head+"0.1,0.1,s1:1,,x,0,0,0,0,0,0,0,0,0\n")}, Options{}, `bad.csv: line 2: queue_bytes: "x"`},
		{[]string{write(t, "x.json", "{}")}, Options{}, "not a JSON array"},
		{[]string{write(t, "none.json", "[]")}, Options{}, "none.json: it has no records"},
		{[]string{write(t, "head-of-flows.csv", "flow,sent_packets,received_packets,start_s,end_s\n")}, Options{}, "head-of-flows.csv has no records"},
		{[]string{write(t, "cut.json", "[{")}, Options{}, "cut.json: it is not a JSON array of records of flows of packets or of transfers: "},
		{[]string{write(t, "other.json", `[{"name": "x"}]`)}, Options{}, "not a JSON array of records"},
		{[]string{write(t, "numbers.json", `[1]`)}, Options{}, "not a JSON array of records"},
		{[]string{write(t, "late.json", `[{"flow": "a"}, {"transfer": "b"}]`)}, Options{}, "entry 2 has no flow"},
		{[]string{good, flows}, Options{}, "of different kinds"},
		{[]string{good}, Options{What: "qeue"}, "must be one of queue, queue-max"},
		{[]string{good}, Options{Ports: []string{"p:9"}}, `has no port "p:9": did you mean "p:1"? (its ports are p:1, p:2, p:3)`},
		{[]string{good}, Options{Ports: []string{"p:["}}, "needs its ]"},
		{[]string{good}, Options{Class: "blk"}, `has no class "blk": did you mean "bulk"?`},
		{[]string{good}, Options{From: 20 * ms}, "its samples cover 10us to 10ms"},
		{[]string{good}, Options{LogX: true}, "--log-x is for records of flows and transfers"},
		{[]string{good}, Options{Average: ms}, "--average is for rates"},
		{[]string{flows}, Options{What: "queue"}, "must be one of completion, delay, goodput, loss"},
		{[]string{flows}, Options{Ports: []string{"s1:1"}}, "are for series"},
		{[]string{flows}, Options{LogY: true}, "--log-y is for series"},
		{[]string{flows, transfers}, Options{}, "of different kinds: records of flows of packets and records of transfers"},
		{[]string{transfers, good}, Options{}, "of different kinds: records of transfers and a series of queues"},
		{[]string{transfers}, Options{What: "loss"}, "must be one of completion, slowdown, slowdown-by-size, goodput"},
		{[]string{transfers}, Options{Class: "*"}, "records of transfers have no ports"},
		{[]string{transfers}, Options{What: "slowdown-by-size", LogX: true}, "--log-x is not for slowdown-by-size"},
		{[]string{transfers}, Options{What: "slowdown", LogY: true}, "--log-y is for series and slowdown-by-size"},
		{[]string{write(t, "part.csv", "transfer,posted_messages\n")}, Options{}, "missing column message_bytes"},
	} {
		if _, err := Open(c.files, all(c.o)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %+v: error %v, want %q", c.files, c.o, err, c.want)
		}
	}
	for _, c := range []struct {
		files []string
		o     Options
		want  string
	}{
		{[]string{good}, Options{What: "marks", LogY: true}, "all values are 0"},
		{[]string{good}, Options{What: "rx-rate", Class: "bulk"}, "not known"},
		{[]string{flows, flows, flows}, Options{What: "delay"}, "name fewer files"},
		{[]string{nothing}, Options{}, "no message completed"},
		{[]string{nothing}, Options{What: "slowdown-by-size"}, "no slowdown to show"},
		{slices.Repeat([]string{transfers}, 9), Options{What: "slowdown-by-size"}, "9 lines are more than the 8"},
	} {
		if _, _, err := open(t, c.o, c.files...).Figure(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %+v: error %v, want %q", c.files, c.o, err, c.want)
		}
	}
}

// TestEventsAreDrawn checks that events within the time shown become marks of the
// picture, and that a file that does not hold events is named in the error.
func TestEventsAreDrawn(t *testing.T) {
	file := write(t, "q.csv", "time_s,interval_s,port,class,queue_bytes,queue_max_bytes,tx_bytes,rx_bytes,tx_bps,rx_bps,dropped_packets,marked_packets,trimmed_packets,paused_s\n"+
		"0.001,0.001,s1:1,,100,100,0,0,0,0,0,0,0,0\n0.01,0.009,s1:1,,200,200,0,0,0,0,0,0,0,0\n")
	if err := report.WriteEvents(file, []status.Moment{
		{At: 2 * ms, Event: status.LinkDown, Where: "s1:1", Peer: "s2:1"}, {At: 4 * ms, Event: status.Rerouted}, {At: 20 * ms, Event: status.LinkUp, Where: "s1:1"},
	}); err != nil {
		t.Fatal(err)
	}
	f, p, _ := figureIn(t, open(t, Options{}, file))
	if diff := cmp.Diff([]figure.Mark{{X: 0.002, Name: "link-down s1:1 - s2:1", Bad: true}, {X: 0.004, Name: "rerouted"}}, p.Marks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var svg bytes.Buffer
	if err := f.Write(&svg, "svg"); err != nil || !strings.Contains(svg.String(), "stroke:#C0392B") {
		t.Errorf("the link that is down is not red: %v", err)
	}
	if err := os.WriteFile(report.EventsFile(file), []byte("something else\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(t, Options{}, file).Figure(); err == nil || !strings.Contains(err.Error(), "q.events.csv: its first line") {
		t.Errorf("error %v", err)
	}
}

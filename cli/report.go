package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/chart"
)

func newReport() *cobra.Command {
	var out, html, size string
	var asJSON bool
	var from, to units.Time
	var o chart.Options
	c := &cobra.Command{
		Use:   "report FILE...",
		Short: "Summarize and draw the files of runs: series over time, and records of flows, transfers and flows of packets",
		Long: `Summarize the files that runs have written, and draw them with -o: series of
queues and of queue pairs over time (--series and --flow-series of weft sim and
weft up) as lines; records of flows of patterns, of RDMA transfers and of flows of
packets (--flow-records of both, --transfer-records and --stream-records of weft
sim) as cumulative distributions, and the slowdown of flows and messages by their
size. Several files of one kind are drawn into one picture.

  weft report q.csv
  weft report q.csv -o queue.png --port s1:3 --port 'leaf*:spine1'
  weft report q.csv -o rate.svg --what rate --from 10ms --to 20ms
  weft report f.csv -o flows.png --what goodput --flow 'incast*' --average 100us
  weft report flows.csv -o fct.png --log-x
  weft report before.csv after.csv -o delay.png --what delay --log-x
  weft report dcqcn.csv none.csv -o slowdown.png --what slowdown-by-size --log-y
  weft report run.json q.csv t.csv --html run.html

Of a series of queues --what is one of ` + strings.Join(series.QuantityNames(), ", ") + `,
or a gauge in its columns, such as mark-probability;
of one of flows one of ` + strings.Join(series.FlowQuantityNames(), ", ") + `, or a gauge
of rate control in its columns, such as alpha;
of records of flows and of transfers one of
` + strings.Join(chart.FlowPictures(), ", ") + `;
of records of flows of packets one of ` + strings.Join(chart.StreamPictures(), ", ") + `.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if o.Width, o.Height, err = parseSize(size); err != nil {
				return badInput(err)
			}
			format := strings.TrimPrefix(filepath.Ext(out), ".")
			if html != "" && (out != "" || asJSON) {
				return badInput(errors.New("--html excludes -o and --json"))
			}
			if out == "" && html == "" {
				for _, name := range []string{"what", "average", "log-x", "log-y", "size"} {
					if c.Flags().Changed(name) {
						return badInput(fmt.Errorf("--%s is for a picture: add -o FILE.png or -o FILE.svg", name))
					}
				}
			} else if out != "" && format != "png" && format != "svg" && format != "pdf" {
				return badInput(fmt.Errorf("-o %s: end the name in .png, .svg or .pdf", out))
			}
			o.From, o.To = from, to
			if to == 0 {
				o.To = units.Never
			}
			if from < 0 || o.To <= from {
				return badInput(fmt.Errorf("--from %v is not before --to %v", from, to))
			}
			if html != "" {
				return writePage(html, args, o, time.Now())
			}
			r, err := chart.Open(args, o)
			if err != nil {
				return badInput(err)
			}
			if out != "" {
				if err := drawTo(out, format, r); err != nil {
					return err
				}
			}
			if asJSON {
				return printJSON(r)
			}
			r.Write(stdout)
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "draw into this file: .png, .svg or .pdf")
	c.Flags().StringVar(&html, "html", "", "write one HTML page of all files, which may be of different kinds, also the report of weft sim --json")
	c.Flags().StringVarP(&o.What, "what", "w", "", "what to draw; default queue or rate of a series, completion of records")
	c.Flags().StringSliceVarP(&o.Ports, "port", "p", nil, "series: port, such as s1:3 or 'leaf*:*'; may be repeated. Default all")
	c.Flags().StringVar(&o.Class, "class", "", "series: class, or '*' for all, instead of whole ports")
	c.Flags().StringSliceVar(&o.Flows, "flow", nil, "series of flows: transfer, flow, host, interface or queue pair, such as h1-h2, 'h*' or 'h1:eth0#17'; flow records: traffic or host; may be repeated. Default all")
	spanFlag(c, &from, "from", "series: leave out earlier samples")
	spanFlag(c, &to, "to", "series: leave out later samples; 0s means the end")
	spanFlag(c, &o.Average, "average", "series: draw rates over intervals of at least this length")
	c.Flags().BoolVar(&o.LogX, "log-x", false, "records: logarithmic x axis")
	c.Flags().BoolVar(&o.LogY, "log-y", false, "series and slowdown-by-size: logarithmic y axis; zeros are drawn at its lower end")
	c.Flags().StringVar(&size, "size", "800x500", "width and height of the picture in pixels")
	c.Flags().BoolVar(&asJSON, "json", false, "print the summary as JSON")
	_ = c.RegisterFlagCompletionFunc("what", cobra.FixedCompletions(whatValues(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// whatValues returns the values of --what, sorted and without duplicates.
func whatValues() []string {
	all := slices.Concat(series.QuantityNames(), series.FlowQuantityNames(), chart.StreamPictures(), chart.FlowPictures(), chart.TransferPictures())
	slices.Sort(all)
	return slices.Compact(all)
}

// parseSize reads for example "800x500".
func parseSize(s string) (width, height int, err error) {
	var rest string
	if n, _ := fmt.Sscanf(s, "%dx%d%s", &width, &height, &rest); n != 2 || width < 200 || height < 150 || width > 10_000 || height > 10_000 {
		return 0, 0, fmt.Errorf("--size %q: write for example 800x500, from 200x150 to 10000x10000", s)
	}
	return width, height, nil
}

// drawTo writes the picture of r atomically.
func drawTo(name, format string, r chart.Review) error {
	f, note, err := r.Figure()
	if err != nil {
		return badInput(err)
	}
	var b bytes.Buffer
	if err := f.Write(&b, format); err != nil {
		return err
	}
	if note != "" {
		fmt.Fprintln(os.Stderr, "weft:", note)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o666); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "open "))
	}
	return nil
}

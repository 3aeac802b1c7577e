package cctest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/goccy/go-yaml"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// Player plays the commands that are specific to the transcripts of one rate control. It writes
// the results to the builder that it was made with.
type Player interface {
	// Start sets the control of a new flow.
	Start(c cc.Control)
	// Verb returns the function that plays each line of a command, given as its words; nil if
	// there is no such command.
	Verb(t *testing.T, d *datadriven.TestData) func(words []string) error
}

// RunTranscripts plays the files of testdata/transcripts line by line, each with a new player, and
// compares the results. Rewrite with go test ./protocols/NAME -rewrite and check the difference
// by hand. All rate controls have the commands
//
//	flow      makes the control of a new flow
//	validate  says what is wrong with settings, or that they are good
//
// Both take [preset=NAME] [line=RATE], by default the first preset and 100 Gb/s, and keys to
// change as YAML. flow also takes [rtt=TIME] or [path=TIME], the RTT of its path, and [hops=N].
// Its packets have 1000 bytes of payload and take 1100 on the wire.
func RunTranscripts(t *testing.T, name string, start func(out *strings.Builder) Player) {
	method, err := cc.Methods.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		var out strings.Builder
		p := start(&out)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out.Reset()
			if err := playLine(t, d, method, p, &out); err != nil {
				d.Fatalf(t, "%v", err)
			}
			return out.String()
		})
	})
}

func playLine(t *testing.T, d *datadriven.TestData, method cc.Method, p Player, out *strings.Builder) error {
	switch d.Cmd {
	case "flow":
		s, line, err := parseSettings(t, d, method)
		if err != nil {
			return err
		}
		f := cc.Flow{Line: line, MTU: 1000, Packet: 1100, Rand: rand.New(rand.NewPCG(1, 2))}
		f.Path.RTT = Arg(t, d, "rtt", Arg(t, d, "path", 0, units.ParseTime), units.ParseTime)
		if f.Path.RTT > 0 {
			f.Path.Bottleneck = line
		}
		d.MaybeScanArgs(t, "hops", &f.Path.Hops)
		p.Start(s.New(f))
		return nil
	case "validate":
		if _, _, err := parseSettings(t, d, method); err != nil {
			out.WriteString(err.Error())
		} else {
			out.WriteString("good")
		}
		return nil
	}
	verb := p.Verb(t, d)
	if verb == nil {
		return errors.New("no such command")
	}
	for _, line := range strings.Split(d.Input, "\n") {
		if err := verb(strings.Fields(line)); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

// parseSettings returns the settings of a command and the line rate that they are for. The error
// says what is wrong with them.
func parseSettings(t *testing.T, d *datadriven.TestData, method cc.Method) (cc.Settings, units.Rate, error) {
	line := Arg(t, d, "line", 100*units.Gbps, units.ParseRate)
	preset := method.Presets[0]
	d.MaybeScanArgs(t, "preset", &preset)
	s := method.Preset(preset, line)
	if d.Input != "" {
		if err := yaml.UnmarshalWithOptions([]byte(d.Input), s, yaml.Strict()); err != nil {
			return nil, 0, err
		}
	}
	return s, line, s.Validate(line)
}

// Arg returns the argument KEY=VALUE of a command, or otherwise if it is missing.
func Arg[T any](t *testing.T, d *datadriven.TestData, key string, otherwise T, parse func(string) (T, error)) T {
	t.Helper()
	var text string
	if !d.MaybeScanArgs(t, key, &text) {
		return otherwise
	}
	v, err := parse(text)
	if err != nil {
		d.Fatalf(t, "%s: %v", key, err)
	}
	return v
}

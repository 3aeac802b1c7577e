package resolve

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
)

// Bounds on the time that a program has to become ready.
const (
	minWithin     = units.Millisecond
	maxWithin     = 3600 * units.Second
	defaultWithin = time.Minute
)

// resolvePrograms resolves the commands of the kind, then those of the node.
func resolvePrograms(v *yamlfile.Reader, kind, node []labfile.ExecForm) (all []plan.Program) {
	for _, list := range [][]labfile.ExecForm{kind, node} {
		for i := range list {
			all = append(all, resolveProgram(v, &list[i]))
		}
	}
	return all
}

func resolveProgram(v *yamlfile.Reader, form *labfile.ExecForm) plan.Program {
	f := &form.Value
	p := plan.Program{Line: v.Line(form), Text: f.Run.Text, Argv: slices.Clone(f.Run.Argv), Ready: plan.Ready{Within: defaultWithin}}
	if len(p.Argv) > 0 && (strings.TrimSpace(p.Text) == "" || p.Argv[0] == "") || f.Run.Argv == nil {
		v.FailOnce(form, `write for example "iperf3 -s" or [iperf3, -s]`, "the command is empty")
	}
	if strings.ContainsRune(strings.Join(p.Argv, ""), 0) {
		v.FailOnce(form, "", "the command contains a zero byte")
	}
	for i := range f.Env {
		e := &f.Env[i]
		if e.Name == "" || strings.ContainsAny(e.Name, "=\x00") || strings.ContainsRune(string(e.Value), 0) {
			v.FailOnce(&e.Name, "write for example env: {LANG: C}", "%q is not a valid name for an environment variable", e.Name)
		}
		p.Env = append(p.Env, e.Name+"="+string(e.Value))
	}
	if f.Ready != nil {
		p.Ready = ResolveReady(v, f.Ready)
	}
	return p
}

// ResolveReady resolves what to wait for after a command has started, and reports faults to the
// reader.
func ResolveReady(v *yamlfile.Reader, f *labfile.Ready) plan.Ready {
	r := plan.Ready{Within: defaultWithin}
	count := 0
	if f.Port != nil {
		count++
		r.Port = uint16(*f.Port)
	}
	if f.Output != nil {
		count++
		if _, err := regexp.Compile(*f.Output); err != nil {
			v.FailOnce(f.Output, "", "output: %v", err)
		}
		if r.Output = *f.Output; r.Output == "" {
			v.FailOnce(f.Output, "write . for any output", "output is empty")
		}
	}
	if f.File != nil {
		count++
		if r.File = *f.File; !strings.HasPrefix(r.File, "/") || strings.ContainsRune(r.File, 0) {
			v.FailOnce(f.File, "a host's commands may start in another directory than the lab file's", "file %q is not an absolute path", r.File)
		}
	}
	if f.Exit != nil {
		count++
		if r.Exit = *f.Exit; !r.Exit {
			v.FailOnce(f.Exit, "leave ready out to not wait for the command", "exit: false has no effect")
		}
	}
	if count != 1 {
		v.FailOnce(f, "", "ready needs exactly one of port, output, file and exit")
	}
	if t := f.Within; t != nil {
		if *t < minWithin || *t > maxWithin {
			v.FailOnce(t, "", "within %v is outside 1ms to 1h", *t)
		}
		r.Within = time.Duration(*t / units.Nanosecond)
	}
	return r
}

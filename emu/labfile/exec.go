package labfile

import (
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
)

// ExecForm is a command that a host runs: a string for the shell, a program with
// its arguments, or either of them under run with further settings.
type ExecForm struct{ Value Exec }

func (f *ExecForm) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	_, isText := yamlfile.ScalarText(n)
	_, isList := n.(*ast.SequenceNode)
	if isText || isList {
		r.Read(&f.Value.Run, n, "a command")
		return
	}
	r.Read(&f.Value, n, what)
}

func (ExecForm) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	run := CommandLine{}.MakeSchema(m)
	return &jsonschema.Schema{OneOf: append(run.OneOf, m.SchemaOf(reflect.TypeFor[Exec]()))}
}

// Exec is a command with further settings.
type Exec struct {
	Run   CommandLine                    `yaml:"run" jsonschema_description:"the command: text for /bin/sh, or a program and its arguments"`
	Ready *Ready                         `yaml:"ready,omitempty" jsonschema_description:"condition to wait for before the host's next command starts and before the lab counts as up; default none"`
	Env   yamlfile.Dict[yamlfile.Scalar] `yaml:"env,omitempty" jsonschema_description:"environment variables, in addition to weft's"`
}

func (Exec) Noun() string { return "a command" }

// Ready says what to wait for after a command has started.
type Ready struct {
	Port   *TCPPort    `yaml:"port,omitempty" jsonschema_description:"something in the host listens on this TCP port"`
	Output *string     `yaml:"output,omitempty" jsonschema_description:"a line of the command's output matches this regular expression (RE2)"`
	File   *string     `yaml:"file,omitempty" jsonschema_description:"this file exists in the host"`
	Exit   *bool       `yaml:"exit,omitempty" jsonschema_description:"the command has ended, with exit code 0"`
	Within *units.Time `yaml:"within,omitempty" jsonschema_description:"maximum time to wait, 1ms to 1h; default 1min"`
}

// Noun names the type in messages.
func (Ready) Noun() string { return "ready" }

// TCPPort is a TCP port.
type TCPPort uint16

// UnmarshalText reads a number from 1 to 65535.
func (p *TCPPort) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, 1<<16-1)
	*p = TCPPort(n)
	return err
}

func (TCPPort) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.IntegerSchema(1, 1<<16-1)
}

// CommandLine is a program and its arguments.
type CommandLine struct {
	Argv []string
	Text string // for display
}

// shell runs a command that is a string.
const shell = "/bin/sh"

func (c *CommandLine) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	if text, ok := yamlfile.ScalarText(n); ok {
		c.Argv, c.Text = []string{shell, "-c", text}, strings.TrimSpace(text)
		return
	}
	if _, ok := n.(*ast.SequenceNode); !ok {
		r.ReportKind(n, what, "text for the shell, or a list: the program and its arguments", `write for example "iperf3 -s" or [iperf3, -s]`)
		return
	}
	var list []yamlfile.Scalar
	r.Read(&list, n, what)
	for _, s := range list {
		c.Argv = append(c.Argv, string(s))
	}
	c.Text = strings.Join(c.Argv, " ")
}

func (CommandLine) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	one := m.SchemaOf(reflect.TypeFor[yamlfile.Scalar]())
	minItems := uint64(1)
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "array", Items: one, MinItems: &minItems}}}
}

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	netnslab "github.com/weftlab/weft/netns-lab"
)

// origin is where a lab was started. A command that names no lab takes the only one that
// runs only if it was started from here.
type origin struct {
	Directory string // of the process that ran weft up
	Terminal  string // its terminal and session; "" without a terminal
}

// originFile is the file in a lab's state directory that holds its origin.
const originFile = "origin"

// originHere returns the origin of labs that this process starts.
func originHere() (o origin) {
	o.Directory, _ = os.Getwd()
	// The fields after the name, which is in parentheses: state, parent, process group,
	// session, terminal (proc_pid_stat(5)).
	stat, _ := os.ReadFile("/proc/self/stat")
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) > 4 && string(fields[4]) != "0" {
		o.Terminal = fmt.Sprintf("%s:%s", fields[4], fields[3])
	}
	return o
}

// isHere reports whether a lab with this origin was started from this terminal or
// directory.
func (o origin) isHere() bool {
	now := originHere()
	return o.Terminal != "" && o.Terminal == now.Terminal || o.Directory != "" && o.Directory == now.Directory
}

// whereStarted says where a lab was started, for messages.
func (o origin) whereStarted() string {
	if o.Directory == "" {
		return "elsewhere"
	}
	return "in " + o.Directory
}

// writeOrigin records where a lab was started. terminal is that of the process that the
// user has started, if another one runs the lab.
func writeOrigin(dir, terminal string) error {
	o := originHere()
	if terminal != "" {
		o.Terminal = terminal
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, originFile), b, 0o600)
}

// originOf returns where a lab was started. Of a lab that was started by other code than
// weft up, nothing is known.
func originOf(lab netnslab.Info) (o origin, err error) {
	b, err := os.ReadFile(filepath.Join(lab.Dir, originFile))
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(b, &o)
}

// nameChosen tells the user which lab a command without --lab has chosen, unless it was
// started from here.
func nameChosen(lab netnslab.Info) error {
	o, err := originOf(lab)
	if err != nil {
		return err
	}
	if !o.isHere() {
		fmt.Fprintf(os.Stderr, "weft: lab %s, the only one that runs, was started %s\n", lab.Name, o.whereStarted())
	}
	return nil
}

// mayEnd reports whether a command that names no lab may end this one: if it was started
// from here, or if the user says so.
func mayEnd(lab netnslab.Info) error {
	o, err := originOf(lab)
	if err != nil || o.isHere() {
		return err
	}
	if isTerminal(os.Stdin) && isTerminal(os.Stderr) {
		fmt.Fprintf(os.Stderr, "end lab %s, which was started %s? [y/N] ", lab.Name, o.whereStarted())
		var answer string
		_, _ = fmt.Fscanln(os.Stdin, &answer)
		if strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes") {
			return nil
		}
	}
	return badInput(fmt.Errorf("lab %s was started %s: to end it, name it: weft down %[1]s", lab.Name, o.whereStarted()))
}

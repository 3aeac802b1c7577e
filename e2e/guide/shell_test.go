package guide

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// shell is a bash in which a test types commands.
type shell struct {
	t     *testing.T
	dir   string
	lab   *testlab.Lab // nil without one
	names []string     // of labs on the page, all of which are called like lab here
	in    io.Writer
	lines chan string
}

// startShell starts a bash in a directory, in which weft is the command under test.
func startShell(t *testing.T, weft, dir string, lab *testlab.Lab) *shell {
	t.Helper()
	c := exec.Command("bash", "--norc", "--noprofile")
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+filepath.Dir(weft)+":"+os.Getenv("PATH"))
	if lab != nil {
		c.Env = append(c.Env, "WEFT_LAB="+lab.Name)
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = w, w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	s := &shell{t: t, dir: dir, lab: lab, in: in, lines: make(chan string)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(s.lines)
		for sc := bufio.NewScanner(r); sc.Scan(); {
			s.lines <- sc.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		_ = c.Process.Kill()
		for range s.lines {
		}
		<-read
		r.Close()
		_ = c.Wait()
	})
	s.mustType("set -m") // %1 is the first program in the background
	return s
}

// ended is what the shell prints after each command, with its exit code.
var ended = regexp.MustCompile(`^ended: (\d+)$`)

// enter types a command with its input, and returns what it printed and its exit code.
func (s *shell) enter(command, input string) (printed []string, code string) {
	s.t.Helper()
	if !strings.HasSuffix(command, "&") {
		command += ";"
	}
	from := "</dev/null"
	if input != "" {
		from = "<<'END'\n" + input + "END"
	}
	if _, err := fmt.Fprintf(s.in, "{ %s } %s\nprintf '\\nended: %%d\\n' $?\n", command, from); err != nil {
		s.t.Fatalf("%s: %v", command, err)
	}
	for line := range s.lines {
		if m := ended.FindStringSubmatch(line); m != nil {
			return printed, m[1]
		}
		printed = append(printed, line)
	}
	s.t.Fatalf("%s: the shell ended:\n%s", command, strings.Join(printed, "\n"))
	return nil, ""
}

// mustType is enter for commands that have to succeed.
func (s *shell) mustType(command string) (printed []string) {
	s.t.Helper()
	return s.mustEnter(step{command: command})
}

// mustEnter enters a step, which has to succeed.
func (s *shell) mustEnter(x step) (printed []string) {
	s.t.Helper()
	printed, code := s.enter(x.command, x.input)
	if code != "0" {
		s.t.Fatalf("%s: exit code %s\n%s", x.command, code, strings.Join(printed, "\n"))
	}
	return printed
}

var (
	host     = regexp.MustCompile(`\bh[0-9]+\b`)
	captured = regexp.MustCompile(`^weft capture .* -w (\S+) &$`)
	loop     = regexp.MustCompile(`^for (\w+) in ([\w ]+);`)
)

// awaitEffect waits until what a command has started in the background is ready, as a reader does
// without noticing: a server listens, a capture writes.
func (s *shell) awaitEffect(command string) {
	s.t.Helper()
	if m := captured.FindStringSubmatch(command); m != nil {
		s.lab.WaitFor("the capture runs", func() bool {
			info, err := os.Stat(filepath.Join(s.dir, m[1]))
			return err == nil && info.Size() > 0
		})
	}
	if strings.Contains(command, "iperf3 -s") {
		at := host.FindAllString(command, -1)
		for _, h := range at {
			s.lab.WaitListening(h, "5201")
		}
	}
	if strings.HasSuffix(command, "./hello &") {
		s.lab.WaitFor("the server listens", func() bool { return s.lab.ListensRDMA("h1", "7471") })
	}
	if strings.Contains(command, "ib_write_bw") && strings.Contains(command, ">/dev/null &") {
		ports := []string{"18515"}
		if m := loop.FindStringSubmatch(command); m != nil {
			ports = nil
			for _, i := range strings.Fields(m[2]) {
				ports = append(ports, "1850"+i)
			}
		}
		for _, port := range ports {
			s.lab.WaitFor("the server listens", func() bool { return s.lab.ListensTCP("h1", port) })
		}
	}
}

// startLabShell starts a shell beside the files of a recipe, whose labs get a name that no other lab
// of this machine has. The lab ends with the test.
func startLabShell(t *testing.T, r *recipe, programs ...string) *shell {
	t.Helper()
	dir := t.TempDir()
	l := testlab.New(t, testlab.Need(t, programs...), dir, "")
	files := map[string]string{}
	var names []string
	for name, text := range r.files {
		for _, lab := range labName.FindAllStringSubmatch(text, -1) {
			names = append(names, lab[1])
		}
		files[name] = labName.ReplaceAllString(text, "name: "+l.Name)
	}
	writeFiles(t, dir, files)
	s := startShell(t, l.Weft, dir, l)
	s.names = names
	return s
}

// runStep enters a step with the name of the test's lab, waits for its effect and returns what it
// printed.
func (s *shell) runStep(x step) (printed []string) {
	s.t.Helper()
	words := strings.Split(x.command, " ")
	for i, word := range words {
		if slices.Contains(s.names, word) {
			words[i] = s.lab.Name
		}
	}
	x.command = strings.Join(words, " ")
	if job, ok := strings.CutPrefix(x.command, "kill "); ok { // and the file is complete when it has ended
		x.command += " && { wait " + job + " || true; }"
	}
	printed = s.mustEnter(x)
	s.awaitEffect(x.command)
	return printed
}

package testlab

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// connectsTwice reports whether a client is perftest's with -R, which connects a second time. It
// does not wait until its server listens for that, and fails if it is earlier.
func connectsTwice(client []string) bool {
	at, _ := serverProgram(client)
	return strings.HasPrefix(client[at], "ib_") && slices.Contains(client, "-R")
}

// buildGate builds testdata/gate.c once, beside the command.
var buildGate = sync.OnceValues(func() (library []byte, err error) {
	weft, err := Build()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(filepath.Dir(weft), "gate.so")
	if err := runCommand("gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-o", file, "../testlab/testdata/gate.c", "-ldl"); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// runThroughGate runs a client that connects twice, and holds its second connection until its
// server listens again.
func (l *Lab) runThroughGate(at, from string, client []string, server *Program) (said string) {
	l.T.Helper()
	_, port := serverProgram(client)
	c := l.StartThroughGate(from, client...)
	// The server has ended its first listener before the client gets here.
	c.AtGate(l)
	server.WaitFor(l, "it listens again", func() bool { return l.ListensRDMA(at, port) })
	c.Open(l)
	if err := c.WaitEnd(l.T); err != nil {
		l.T.Fatalf("%s: %v\n%s\nserver:\n%s", strings.Join(client, " "), err, Tail(c.Out.String()), Tail(server.KillAndRead()))
	}
	return c.Out.String()
}

// Gated is a client whose second connection with rdma_cm waits at a gate.
type Gated struct {
	*Program
	keeper *Program // opens the FIFO, which takes until the client does so too, and holds it open
	hold   *os.File // until this is closed
}

// StartThroughGate starts a client with a gate.
func (l *Lab) StartThroughGate(host string, argv ...string) *Gated {
	l.T.Helper()
	library, err := buildGate()
	if err != nil {
		l.T.Fatal(err)
	}
	dir := strings.TrimSpace(l.Exec(host, "mktemp", "-d"))
	put := l.Command("exec", "-l", l.Name, host, "--", "sh", "-c", `cat >"$0/gate.so" && mkfifo "$0/gate"`, dir)
	put.Stdin = bytes.NewReader(library)
	if out, err := put.CombinedOutput(); err != nil {
		l.T.Fatalf("a gate in %s: %v\n%s", host, err, out)
	}
	l.T.Cleanup(func() { _ = l.Command("exec", "-l", l.Name, host, "--", "rm", "-r", dir).Run() })
	its, hold, err := os.Pipe()
	if err != nil {
		l.T.Fatal(err)
	}
	defer its.Close()
	g := &Gated{keeper: l.NewProgram(host, "sh", "-c", `exec 3>"$0/gate" && echo open && cat`, dir), hold: hold}
	g.keeper.Stdin = its
	g.keeper.Begin(l)
	g.Program = l.StartProgram(host, append([]string{"env", "LD_PRELOAD=" + dir + "/gate.so", "GATE=" + dir + "/gate"}, argv...)...)
	return g
}

// AtGate waits until the client is at the gate.
func (g *Gated) AtGate(l *Lab) {
	l.T.Helper()
	g.WaitFor(l, "it is about to connect the second time", func() bool { return g.keeper.Out.String() == "open\n" })
}

// Open lets the client connect.
func (g *Gated) Open(l *Lab) {
	l.T.Helper()
	g.hold.Close()
	if err := g.keeper.WaitEnd(l.T); err != nil {
		l.T.Fatalf("the gate: %v\n%s", err, &g.keeper.Out)
	}
}

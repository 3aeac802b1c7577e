package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/plan"
)

// logName is the log of a detached lab in its state directory.
const logName = "log"

// readyWord is what a detached lab writes when it is up. Text before it is
// warnings; without it, the text says why the lab did not come up.
const readyWord = "ready\n"

// startDetached starts the lab in a process with its own session. It returns when the
// lab is up, or with the error that kept it from coming up.
func startDetached(ctx context.Context, p *plan.Plan, file string, f upFlags) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	c, err := upCommand(p, file, f, w)
	if err != nil {
		w.Close()
		return err
	}
	c.Stderr = w // until the lab opens its log
	c.SysProcAttr.Setsid = true
	err = startCommand(c)
	w.Close()
	if err != nil {
		return err
	}
	// Ctrl-C during startup ends the lab, which removes what it has created.
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Signal(unix.SIGTERM) })
	defer stop()
	printed, _ := io.ReadAll(r)
	text, isUp := strings.CutSuffix(string(printed), readyWord)
	if interrupted := !stop(); interrupted {
		_ = c.Wait()
		return context.Cause(ctx)
	}
	if isUp {
		fmt.Fprint(os.Stderr, text) // warnings
		printf("lab %s is up (pid %d); end it with: weft down %s\n%s%s", p.Name, c.Process.Pid, p.Name, slowMotion(p), f.metricsAt())
		return c.Process.Release()
	}
	err = c.Wait()
	code := exitFailed
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		code = exit.ExitCode()
	}
	if text == "" {
		text = fmt.Sprintf("the lab did not come up: %v", err)
	}
	return &exitError{code, errors.New(strings.TrimSuffix(strings.TrimPrefix(text, "weft: "), "\n"))}
}

// openLog opens the log of the lab with that state directory.
func openLog(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// announceUp redirects output to the lab's log and tells the process that started
// this lab that it is up.
func announceUp(fd int, dir string) {
	log, err := openLog(dir)
	if err == nil {
		_ = unix.Dup3(int(log.Fd()), 1, 0)
		_ = unix.Dup3(int(log.Fd()), 2, 0)
		log.Close()
	}
	ready := os.NewFile(uintptr(fd), "ready-fd "+strconv.Itoa(fd))
	_, _ = ready.WriteString(readyWord)
	ready.Close()
}

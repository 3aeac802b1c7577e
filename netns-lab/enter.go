package netnslab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// IsElsewhere reports whether the lab is in a different user namespace from this
// process, so that ExecProgram works only after EnterLab.
func (i Info) IsElsewhere() bool {
	own, err := inodeOf("/proc/self/ns/user")
	if err != nil {
		return false
	}
	its, err := inodeOf(fmt.Sprintf("/proc/%d/ns/user", i.PID))
	return err == nil && its != own
}

// EnterLab turns this process into the program argv in the user and mount
// namespace of a rootless lab; its working directory is the root. It returns
// only on an error.
//
// A multithreaded process, as every Go program is, cannot change its user namespace
// (setns(2)). So nsenter(1) of util-linux does this and then executes the program.
func EnterLab(i Info, argv []string) error {
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return fmt.Errorf("entering a lab that was started without root needs nsenter: %w: install util-linux", errors.Unwrap(err))
	}
	args := append([]string{"nsenter", "--target", strconv.Itoa(i.PID), "--user", "--mount", "--preserve-credentials", "--"}, argv...)
	return fmt.Errorf("start %s: %w", nsenter, syscall.Exec(nsenter, args, os.Environ()))
}

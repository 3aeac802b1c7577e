package netnslab

import (
	"errors"
	"io/fs"

	"golang.org/x/sync/errgroup"
)

// SweepLab removes what a dead owner left of a lab. The error wraps ErrRunning if the
// owner is alive, ErrUnknown if there is no such lab.
func SweepLab(lab string) error {
	if !plainName.MatchString(lab) {
		return unknownError(lab)
	}
	s, err := acquireState(lab, false)
	if errors.Is(err, fs.ErrNotExist) { // not even stateDir
		return unknownError(lab)
	}
	if err != nil {
		return err
	}
	if err := s.removeLeftovers(); err != nil {
		s.unlockState()
		return err
	}
	return s.removeState()
}

// removeLeftovers removes everything that the journal lists. The devices disappeared
// with their owner.
func (s *state) removeLeftovers() error {
	info, err := readJournal(s.directory())
	if err != nil {
		return err
	}
	if err := endProcesses(info.findInodes(), nil); err != nil {
		return err
	}
	if info.Rootless {
		return nil // the rest disappeared with the last process; a name here belongs to another lab
	}
	return removeHosts(info)
}

// removeHosts removes the namespaces of a lab, as far as they exist, and the files
// for the programs in them.
func removeHosts(info Info) error {
	var work errgroup.Group
	work.SetLimit(buildWorkers)
	for _, ns := range info.namespaceNames() {
		work.Go(func() error { return errors.Join(deleteNamespace(ns), removeHostsFile(ns)) })
	}
	return work.Wait()
}

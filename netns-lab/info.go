package netnslab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Info describes a lab, running or left by an owner that died.
type Info struct {
	Name    string     `json:"name"`
	File    string     `json:"file"` // the lab file
	PID     int        `json:"pid"`  // of the owner
	Started time.Time  `json:"started"`
	Hosts   []HostInfo `json:"hosts"`
	Names   []Name     `json:"names,omitempty"` // of other nodes that hosts know by name

	// Dilation is how many seconds of real time one second of the lab takes; 0 means
	// 1. Programs follow the lab's clock through the file ClockFile in Dir.
	Dilation int `json:"dilation,omitempty"`

	// Rootless labs have their namespaces' names in their own mount namespace, which
	// disappears with them.
	Rootless bool `json:"rootless,omitempty"`

	Dir     string `json:"-"` // its state directory
	Running bool   `json:"-"` // the owner is alive
}

// Name is a node that is not a host of a lab, such as a router, and that its hosts
// know by name.
type Name struct {
	Name      string       `json:"name"`
	Addresses []netip.Addr `json:"addresses"`
}

// HostInfo describes a host of a lab.
type HostInfo struct {
	Name       string          `json:"name"`
	Namespace  string          `json:"namespace"` // as `ip netns` knows it
	Interfaces []InterfaceInfo `json:"interfaces"`
	Init       int             `json:"init,omitempty"`    // the PID of its first process, if it exists
	Virtual    bool            `json:"virtual,omitempty"` // a virtual machine in the namespace: Exec cannot enter it
}

// InterfaceInfo describes an interface of a host.
type InterfaceInfo struct {
	Name      string         `json:"name"`
	Addresses []netip.Prefix `json:"addresses"`
}

// ClockFile is the name of the file in a lab's state directory through which
// programs follow the clock of a dilated lab.
const ClockFile = "clock"

func describeHosts(lab string, hosts []Host) []HostInfo {
	list := make([]HostInfo, len(hosts))
	for n, h := range hosts {
		list[n] = HostInfo{Name: h.Name, Namespace: NamespaceName(lab, h.Name)}
		for _, i := range h.Interfaces {
			list[n].Interfaces = append(list[n].Interfaces, InterfaceInfo{Name: i.Name, Addresses: i.Addresses})
			list[n].Virtual = list[n].Virtual || i.Kind == Virtual
		}
	}
	return list
}

// Host finds a host by name.
func (i Info) Host(name string) (HostInfo, bool) {
	for _, h := range i.Hosts {
		if h.Name == name {
			return h, true
		}
	}
	return HostInfo{}, false
}

func (i Info) namespaceNames() []string {
	names := make([]string, len(i.Hosts))
	for n, h := range i.Hosts {
		names[n] = h.Namespace
	}
	return names
}

// journalName is the file in a state directory that holds the Info: what was made or
// was about to be made.
const journalName = "lab.json"

// readJournal reads the journal in dir. Without one, the owner died before it
// made anything or after it had removed everything: the Info is then empty.
func readJournal(dir string) (info Info, err error) {
	path := filepath.Join(dir, journalName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	} else if err == nil {
		if err = json.Unmarshal(b, &info); err != nil {
			err = fmt.Errorf("%s is damaged: %w (remove %s, and the namespaces of the lab with `ip netns del`)", path, err, dir)
		}
	}
	info.Name, info.Dir = filepath.Base(dir), dir
	return info, err
}

// writeJournal writes the journal in dir atomically.
func writeJournal(dir string, info Info) error {
	b, err := json.MarshalIndent(info, "", "\t")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, journalName)
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

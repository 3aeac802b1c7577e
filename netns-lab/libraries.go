package netnslab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// cachePath is the cache in which the dynamic linker finds libraries (ld.so(8)).
const cachePath = "/etc/ld.so.cache"

// linkerCache is the linker cache for the hosts of a lab, once it has been made.
type linkerCache []byte

// coverLibraries mounts the libraries of verbsLibraries over the system's, wherever the
// dynamic linker would find those, so that programs that name a path or have one built
// in get them too. Libraries that the system does not have go into the host's own
// cache. coverLibraries returns the covered paths, the last first. It is called on a
// thread in the host's mount namespace.
func (c *linkerCache) coverLibraries() (covers []string, err error) {
	own, err := os.ReadDir(verbsLibraries)
	if err != nil {
		return nil, err
	}
	ldconfig := findLdconfig()
	system := systemLibraries(ldconfig)
	missing := false
	for _, f := range own {
		if !strings.Contains(f.Name(), ".so.") {
			continue
		}
		found := false
		for _, at := range system[f.Name()] {
			if real, err := filepath.EvalSymlinks(at); err == nil {
				if err := bindMount(filepath.Join(verbsLibraries, f.Name()), real); err != nil {
					return nil, err
				}
				covers, found = append([]string{real}, covers...), true
			}
		}
		missing = missing || !found
	}
	if !missing || ldconfig == "" {
		return covers, nil
	}
	if err := c.coverCache(ldconfig); err != nil {
		return nil, err
	}
	return append([]string{cachePath}, covers...), nil
}

// findLdconfig finds the program that writes the linker's cache, which may not be in
// an ordinary user's PATH. Without it there is no cache, as with musl.
func findLdconfig() string {
	for _, path := range []string{"/sbin/ldconfig", "/usr/sbin/ldconfig"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// systemLibraries returns the libraries for this architecture in the linker's cache:
// paths by name.
func systemLibraries(ldconfig string) map[string][]string {
	paths := map[string][]string{}
	if ldconfig == "" {
		return paths
	}
	out, err := exec.Command(ldconfig, "-p").Output()
	if err != nil {
		return paths
	}
	return parseLibraries(out, runtime.GOARCH)
}

// linkerArch maps an architecture to its name in ldconfig -p, if that prints one.
var linkerArch = map[string]string{"amd64": "x86-64", "arm64": "AArch64"}

// parseLibraries reads lines such as
//
//	libibverbs.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libibverbs.so.1
func parseLibraries(out []byte, arch string) map[string][]string {
	paths := map[string][]string{}
	for line := range bytes.Lines(out) {
		entry, path, ok := strings.Cut(strings.TrimSpace(string(line)), " => ")
		name, flags, ok2 := strings.Cut(entry, " (")
		if ok && ok2 && strings.Contains(flags, linkerArch[arch]) {
			paths[name] = append(paths[name], path)
		}
	}
	return paths
}

// coverCache gives the host a linker cache in which verbsLibraries comes first.
func (c *linkerCache) coverCache(ldconfig string) error {
	if *c == nil {
		b, err := makeCache(ldconfig)
		if err != nil {
			return err
		}
		*c = b
	}
	if err := os.WriteFile(ownCache, *c, 0o644); err != nil {
		return err
	}
	return bindMount(ownCache, cachePath)
}

const ownCache = verbsDir + "/ld.so.cache"

// makeCache has ldconfig write a cache. ldconfig's own state about the machine's
// files (/var/cache/ldconfig) is not changed.
func makeCache(ldconfig string) ([]byte, error) {
	const memory = "/var/cache/ldconfig"
	if err := mountOver(memory, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700"); err != nil {
		return nil, err
	}
	defer func() { _ = unix.Unmount(memory, unix.MNT_DETACH) }()
	const conf = verbsDir + "/ld.so.conf"
	if err := os.WriteFile(conf, []byte(verbsLibraries+"\ninclude /etc/ld.so.conf\n"), 0o644); err != nil {
		return nil, err
	}
	if out, err := exec.Command(ldconfig, "-X", "-f", conf, "-C", ownCache).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", ldconfig, err, bytes.TrimSpace(out))
	}
	return os.ReadFile(ownCache)
}

package netnslab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemedy_NamesTheFix(t *testing.T) {
	for _, c := range []struct {
		err   error
		knobs map[string]string
		want  string
	}{
		{unix.ENOSPC, map[string]string{"user/max_user_namespaces": "0"}, "sysctl -w user.max_user_namespaces="},
		{unix.ENOSPC, map[string]string{"user/max_user_namespaces": "100"}, "limits"},
		{unix.EINVAL, nil, "CONFIG_USER_NS"},
		{unix.EPERM, map[string]string{"kernel/unprivileged_userns_clone": "0"}, "sysctl -w kernel.unprivileged_userns_clone=1"},
		{unix.EPERM, map[string]string{"kernel/unprivileged_userns_clone": "1", "kernel/apparmor_restrict_unprivileged_userns": "1"}, "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{unix.EACCES, map[string]string{"kernel/apparmor_restrict_unprivileged_userns": "1"}, "profile"},
		{unix.EPERM, map[string]string{"kernel/apparmor_restrict_unprivileged_userns": "0"}, "container"},
	} {
		if got := remedyFor(&os.PathError{Err: c.err}, func(key string) string { return c.knobs[key] }); !strings.Contains(got, c.want) {
			t.Errorf("%v, %v: %q does not say %q", c.err, c.knobs, got, c.want)
		}
	}
}

func TestStateDir_IsOwnedByTheUser(t *testing.T) {
	own, uid := t.TempDir(), os.Geteuid()
	file := filepath.Join(own, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		uid        int
		candidates []string
		want       string
	}{
		{uid, []string{own, "/run"}, own + "/weft"},
		{uid, []string{"", "relative", "/no/such/directory", file, own}, own + "/weft"},
		{uid + 64123, []string{own, "/run"}, "/tmp/weft-"},
		{0, []string{"/run"}, "/run/weft"},
	} {
		if got := stateDirOf(c.uid, c.candidates...); !strings.HasPrefix(got, c.want) {
			t.Errorf("user %d, %q: %s, want %s", c.uid, c.candidates, got, c.want)
		}
	}
}

func TestCheckOwn_RefusesWhatOthersCanChange(t *testing.T) {
	dir := t.TempDir()
	sub, link := filepath.Join(dir, "sub"), filepath.Join(dir, "link")
	for _, err := range []error{os.Mkdir(sub, 0o700), os.Symlink(sub, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := checkOwn(sub); err != nil {
		t.Error(err)
	}
	if err := checkOwn(link); err == nil || !strings.Contains(err.Error(), link) {
		t.Errorf("a symbolic link: %v", err)
	}
	if err := os.Chmod(sub, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := checkOwn(sub); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("a directory that all may write to: %v", err)
	}
}

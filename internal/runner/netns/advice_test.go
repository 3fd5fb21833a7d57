package netns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAdviceFitsTheRefusal(t *testing.T) {
	for path, want := range map[string]string{
		"proc/sys/user/max_user_namespaces":         "sysctl user.max_user_namespaces=",
		"proc/sys/user/max_net_namespaces":          "sysctl user.max_net_namespaces=",
		"proc/sys/kernel/unprivileged_userns_clone": "sysctl kernel.unprivileged_userns_clone=1",
		".dockerenv":        "seccomp=unconfined",
		"run/.containerenv": "seccomp=unconfined",
		"etc/nothing":       "unshare -Urmn",
	} {
		root := t.TempDir() + "/"
		if err := os.MkdirAll(filepath.Dir(root+path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+path, []byte("0\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := Advice(root); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
		if err := os.WriteFile(root+path, []byte("1000\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := Advice(root); strings.HasPrefix(path, "proc/") && strings.Contains(got, want) {
			t.Errorf("%s allows it: %q", path, got)
		}
	}
	root := t.TempDir() + "/"
	path := root + "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	_ = os.MkdirAll(filepath.Dir(path), 0o755)
	_ = os.WriteFile(path, []byte("1\n"), 0o644)
	if got := Advice(root); !strings.Contains(got, "AppArmor profile") {
		t.Errorf("AppArmor: %q", got)
	}
}

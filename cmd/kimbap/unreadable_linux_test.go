package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// CR-010: a policy or a service that a running proxy may not read any more keeps
// the old one in force; it is named, and recorded, and the next good one counts.
// The proxy runs as a plain user, since root may read everything.
func TestAFileThatCannotBeReadKeepsTheOldState_CR010(t *testing.T) {
	u := newPlainUser(t)
	service, err := os.ReadFile("testdata/notes.yaml")
	check(t, err)
	check(t, os.WriteFile(filepath.Join(u.dir, "notes.yaml"), service, 0o644))
	kimbap := func(args ...string) string {
		t.Helper()
		out, err := u.command("A=b", u.kimbap(), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("kimbap %s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	kimbap("init", "-q")
	kimbap("service", "install", "./notes.yaml")
	proxy := u.proxy("A=b")
	home := filepath.Join(u.dir, ".kimbap")
	state := func() string {
		files, err := filepath.Glob(filepath.Join(home, "state", "proxy-*.json"))
		if err != nil || len(files) != 1 {
			return ""
		}
		text, _ := os.ReadFile(files[0])
		return string(text)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited for %s: %s", what, state())
			}
		}
	}
	for n, file := range []string{"policy.yaml", "services/notes.yaml"} {
		path := filepath.Join(home, file)
		check(t, os.Chmod(path, 0))
		check(t, proxy.Process.Signal(syscall.SIGHUP))
		until("the refusal of "+file, func() bool {
			said := state()
			return strings.Contains(said, `"problem":`) && strings.Contains(said, file) && strings.Contains(said, "permission denied")
		})
		check(t, os.Chmod(path, 0o600))
		check(t, proxy.Process.Signal(syscall.SIGHUP))
		until("the next good one of "+file, func() bool { said := state(); return said != "" && !strings.Contains(said, `"problem":`) })
		until("a record of each refusal", func() bool { // which nobody waits for
			return strings.Count(kimbap("audit", "search", "--kind", "event", "-o", "json"), "kept the old state") >= n+1
		})
	}
}

// A database that may be read and not written is said to be that, with what helps.
func TestAHomeThatCannotBeWrittenIsSaidToBeThat(t *testing.T) {
	u := newPlainUser(t)
	out, err := u.command("A=b", u.kimbap(), "init", "-q").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	home := filepath.Join(u.dir, ".kimbap")
	check(t, os.Chmod(home, 0o500))
	t.Cleanup(func() { _ = os.Chmod(home, 0o700) })
	out, err = u.command("A=b", u.kimbap(), "token", "list").CombinedOutput()
	if said := string(out); err == nil || !strings.Contains(said, "cannot be written") || !strings.Contains(said, "fix:   chmod -R u+rwX "+home) {
		t.Errorf("%v\n%s", err, said)
	}
}

// A home in a folder that the user may not enter is said to be that: there is nothing
// to correct in a file.
func TestAHomeOutOfReachIsNoMistakeInAFile(t *testing.T) {
	u := newPlainUser(t)
	closed := t.TempDir()
	check(t, os.Chmod(closed, 0))
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	out, err := u.command("KIMBAP_HOME="+filepath.Join(closed, "x"), u.kimbap(), "init").CombinedOutput()
	if said := string(out); err == nil || !strings.Contains(said, "permission denied") ||
		!strings.Contains(said, "fix:   run kimbap as the user whose home it is, or choose another home: kimbap --home DIR\n") {
		t.Errorf("%v\n%s", err, said)
	}
}

// A home that there is no place for, as in a container whose root is read-only, is said
// to be that. It is not a home that kimbap run covers.
func TestAHomeOnAReadOnlyDiskIsNotSaidToBeCovered(t *testing.T) {
	needNamespace(t)
	needProgram(t, installed("unshare"))
	dir := t.TempDir()
	h := &home{user: dir}
	r := h.exec(t, []string{"PATH=" + os.Getenv("PATH"), "KIMBAP_HOME=" + filepath.Join(dir, "x")}, "",
		"unshare", "-m", "--propagation", "private", "sh", "-c", `mount -t tmpfs -o ro none "$0" && kimbap init`, dir)
	if r.code != exitUsage || !strings.Contains(r.stderr, "read-only file system\n") ||
		!strings.Contains(r.stderr, "fix:   choose another place: kimbap --home DIR, or KIMBAP_HOME\n") || strings.Contains(r.stderr, "covers it") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}

// Nor is a folder with a configuration on such a disk, which the home would be made in: a
// container has it from a ConfigMap.
func TestAFolderOnAReadOnlyDiskIsNotSaidToBeCovered(t *testing.T) {
	needNamespace(t)
	needProgram(t, installed("unshare"))
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("exec: {calls: 7}\n"), 0o600))
	h := &home{user: dir}
	r := h.exec(t, []string{"PATH=" + os.Getenv("PATH"), "KIMBAP_HOME=" + dir}, "",
		"unshare", "-m", "--propagation", "private", "sh", "-c", `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && kimbap init`, dir)
	if r.code != exitUsage || !strings.Contains(r.stderr, "read-only file system\n") ||
		!strings.Contains(r.stderr, "fix:   choose another place: kimbap --home DIR, or KIMBAP_HOME\n") || strings.Contains(r.stderr, "covers it") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}

// A path that the user named and may not use is the user's to correct, and no fault of kimbap.
func TestAFolderOfSomebodyElseIsSaidToBe(t *testing.T) {
	u := newPlainUser(t)
	closed := filepath.Join(t.TempDir(), "closed")
	check(t, os.Mkdir(closed, 0))
	words := filepath.Join(u.dir, "words")
	check(t, os.WriteFile(words, []byte("some more words\n"), 0o600))
	if os.Getuid() == 0 {
		check(t, os.Chown(words, 65534, 65534))
	}
	if out, err := u.command("A=b", u.kimbap(), "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for want, args := range map[string][]string{
		"cannot be written: permission denied":         {"ca", "export", "--to", closed + "/in"},
		"in cannot be written: permission denied":      {"vault", "export", "--passphrase-file", words, "--out", closed + "/in"},
		"closed: it cannot be read: permission denied": {"audit", "verify", "--dir", closed},
	} {
		out, err := u.command("A=b", u.kimbap(), args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "invalid_input") || !strings.Contains(string(out), "fix:   check the path") {
			t.Errorf("kimbap %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

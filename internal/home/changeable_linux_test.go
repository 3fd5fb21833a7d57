package home

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Whoever can write the policy decides, so a program must not be able to: neither its file
// nor a folder above it, unless all of that is in the home, which the program does not see. A
// file that is not there rules once it is made.
func TestWhatAProgramOfTheUserCanChange(t *testing.T) {
	if os.Getuid() == 0 { // root can change everything
		dir := t.TempDir()
		for _, path := range []string{filepath.Dir(dir), dir} {
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Env, cmd.Dir = []string{"TMPDIR=" + dir}, dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	f := Folder{Dir: filepath.Join(dir, "home")}
	in := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o400); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(name, to string) string {
		path := filepath.Join(dir, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own, inside := in("repo/policy.yaml"), in("home/policy.yaml")
	middle := link("repo/middle", "/etc/passwd") // a program can replace what a link on the way leads to
	folder := link("repo/etc", "/etc")
	deep := filepath.Dir(in("repo/deep/file"))
	link("repo/deep/usr", "/usr") // what is above a link's text is not what is above what it leads to
	link("home/deep", deep)
	in("home/plain/own.yaml")
	in("home/linked/deep/own.yaml")
	link("home/linked/deep/policy.yaml", own)
	in("home/safe/own.yaml")
	link("home/safe/passwd", "/etc/passwd")
	link("home/safe/loop", "../safe")
	for path, want := range map[string]bool{
		own: true, filepath.Dir(own): true, inside: false, link("home/led", own): true, link("led", inside): true,
		"/etc/passwd": false, "/etc": false, link("away", "/etc/passwd"): true, link("home/away", "/etc/passwd"): false,
		filepath.Join(dir, "none"): true, filepath.Join(dir, "repo/none/none"): true, link("home/nowhere", filepath.Join(dir, "none")): true,
		link("home/over", middle): true, link("home/over-folder", filepath.Join(folder, "passwd")): true,
		link("home/dots", deep+"/usr/../etc/passwd"): true, link("home/dots-none", "deep/../none"): true,
		filepath.Join(dir, "home/plain"): false, filepath.Join(dir, "home/linked"): true, filepath.Join(dir, "home/safe"): false,
		filepath.Join(dir, "home/none"): false, "/etc/none": false, "/etc/none/none": false, link("home/none-away", "/etc/none"): false,
	} {
		if got := f.Changeable(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

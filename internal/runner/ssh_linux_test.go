package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What the system's settings of ssh include may lie anywhere: Fedora has the ciphers of all
// programs in /etc/crypto-policies. Root's files are nobody's behind a cover, which ssh minds.
func TestSSHReadsWhatItsSettingsInclude(t *testing.T) {
	needRoot(t, "make files of root's")
	dir, covered := t.TempDir(), secretFolder(t)
	settings, elsewhere := filepath.Join(dir, "ssh_config.d"), filepath.Join(dir, "elsewhere")
	write(t, filepath.Join(settings, "50-policy.conf"), "Host *\n\tinclude = \""+elsewhere+"/*.config\"\n", 0o644)
	write(t, filepath.Join(elsewhere, "real"), "ServerAliveInterval 77\nInclude "+elsewhere+"/further\n", 0o644)
	write(t, filepath.Join(elsewhere, "further"), "ServerAliveCountMax 78\n", 0o644)
	if err := os.Symlink("real", filepath.Join(elsewhere, "openssh.config")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Dir(dir), dir, filepath.Dir(covered), covered} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("unshare", "-Urm", "sh", "-c", `mount --bind "$1" /etc/ssh/ssh_config.d || exit 9
		/proc/self/fd/3 _run "$2" ssh -G localhost; /proc/self/fd/3 _run "$2" ls -A /etc/ssh`, "sh", settings, covered)
	cmd.ExtraFiles = []*os.File{self}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"serveraliveinterval 77\n", "serveralivecountmax 78\n", "ssh_config\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%v, without %q\n%s", err, want, out)
		}
	}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// onFull is what an owner tries on a disk that an agent, say, has filled: with a proxy that
// runs, without one, and after there is room again.
const onFull = `
mount -t tmpfs -o size=8m disk "$1"; cd "$1"
export KIMBAP_HOME="$1/home"
kimbap service install "$2"
echo sk-live-stored-5f1b8f0e6f6c4a50 | kimbap link notes --no-check
kimbap proxy --listen 127.0.0.1:0 2>proxy.log & proxy=$!
until kimbap status --healthy >/dev/null 2>&1; do kill -0 $proxy; sleep 0.1; done
dd if=/dev/zero of=fill bs=4k 2>/dev/null || true
try() { echo "# $*"; kimbap "$@" 2>&1 </dev/null && echo "exit 0" || echo "exit $?"; }
echo sk-live-other-a9d27e0c33f14b55 >"$HOME/key"; chmod 600 "$HOME/key"
try doctor
try token create --agent a --scope 'notes.*'
try vault rotate notes.token --file "$HOME/key"; rm "$HOME/key"
try env
try lock --for 8h
until kimbap status | grep -q 'vault_locked'; do kill -0 $proxy; sleep 0.1; done
kill $proxy; wait $proxy || true
echo "lines of the state file: $(grep -c 'state file not written' proxy.log)"
rm home/locked.json
dd if=/dev/zero bs=4k 2>/dev/null >>fill || true
echo "# nothing runs"
try status
try lock --for 8h
rm fill
echo "# room"
try status
try unlock
try audit tail -n 100
`

// On a full disk kimbap says that it is full, and which, and not that something is to be
// mended; it can be locked; and what failed is recorded as having failed.
func TestAFullDiskIsSaidToBeThatAndHindersNoLock(t *testing.T) {
	t.Parallel()
	notes, err := filepath.Abs("testdata/notes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "-Urm", "sh", "-ec", onFull, "sh", t.TempDir(), notes)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := string(out)
	of := func(from string) string {
		_, after, _ := strings.Cut(said, "# "+from)
		what, _, _ := strings.Cut(after, "\n# ")
		return what
	}
	for command, wants := range map[string][]string{
		"doctor":       {"fail  disk ", " is full: 0 KiB are free", "make room there"},
		"token create": {"error: the disk of the database ", " is full", "fix:   make room there"},
		"vault rotate": {"error: the disk of the database ", " is full", "fix:   make room there"},
		"env":          {"fix:   make room on the disk of ", "exit 1"},
		"lock":         {"the vault is closed for all that runs over this home", "no room to write its end: kimbap unlock ends it"},
		"unlock":       {"unlocked\nexit 0"},
	} {
		for _, want := range wants {
			if !strings.Contains(of(command), want) {
				t.Errorf("%s: no %q in %s", command, want, of(command))
			}
		}
	}
	_, alone, _ := strings.Cut(said, "# nothing runs\n")
	alone, after, _ := strings.Cut(alone, "# room\n")
	if !strings.Contains(alone, "make room, and try again") || !strings.Contains(alone, "kimbap unlock ends it") {
		t.Errorf("with nothing that runs: %s", alone)
	}
	if !strings.Contains(after, "vault      locked") {
		t.Errorf("with room again: %s", after)
	}
	for _, kind := range []string{"token.create", "vault.rotate"} {
		asked, ended := strings.Count(after, kind+" "), 0
		for line := range strings.Lines(after) {
			if strings.Contains(line, kind+" ") && strings.Contains(line, "result=internal") {
				ended++
			}
		}
		if asked != 2 || ended != 1 {
			t.Errorf("%s: %d records, %d of them of its end: %s", kind, asked, ended, after)
		}
	}
	if !strings.Contains(said, "lines of the state file: 1\n") {
		t.Errorf("the log repeats itself: %s", said)
	}
}

// outOfFiles is the same on a disk that has room, and takes no more files.
const outOfFiles = `
mount -t tmpfs -o size=16m,nr_inodes=100 disk "$1"; cd "$1"
export KIMBAP_HOME="$1/home"
kimbap service install "$2"
echo sk-live-stored-5f1b8f0e6f6c4a50 | kimbap link notes --no-check
i=0; while (: >"fill$i") 2>/dev/null; do i=$((i + 1)); done
try() { echo "# $*"; kimbap "$@" 2>&1 </dev/null && echo "exit 0" || echo "exit $?"; }
try token create --agent a --scope 'notes.*'
try lock --for 8h
rm fill1 fill2 fill3
try doctor
rm fill*
echo "# room"
try status
try unlock
try call notes.list-notes --dry-run
`

// A disk on which no more files can be made is said to be that, however much room it has, and
// hinders no lock either.
func TestADiskThatTakesNoMoreFilesIsSaidToBeThatAndHindersNoLock(t *testing.T) {
	t.Parallel()
	notes, err := filepath.Abs("testdata/notes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "-Urm", "sh", "-ec", outOfFiles, "sh", t.TempDir(), notes)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	of := func(from string) string {
		_, after, _ := strings.Cut(string(out), "# "+from)
		what, _, _ := strings.Cut(after, "\n# ")
		return what
	}
	for command, wants := range map[string][]string{
		"token create": {"cannot be written", "has no inodes left for new files (0; df -i): remove some files, and try again"},
		"lock":         {"the vault is closed for all that runs over this home", "no room to write its end: kimbap unlock ends it"},
		"doctor":       {"fail  disk ", "has room, but no inodes left for new files", "remove files there"},
		"status":       {"locked by its owner"},
		"unlock":       {"unlocked\nexit 0"},
		"call":         {"exit 0"},
	} {
		for _, want := range wants {
			if !strings.Contains(of(command), want) {
				t.Errorf("%s: no %q in %s", command, want, of(command))
			}
		}
	}
}

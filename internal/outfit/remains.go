package outfit

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
)

// What the folder of a run is called, and the file in it that the run has locked for as
// long as it lives.
const (
	ofRuns   = "kimbap-run-"
	lockFile = "kimbap.lock"
)

// How much of what dead runs have left is looked for at the start of another one, so that
// it takes no time to notice: names in a folder, and folders of runs.
const (
	mostNames   = 4096
	mostFolders = 64
)

// unlocked is how old a folder without the lock is when its run has died on the way to it,
// before anything else was in it. Of one that holds more, something has taken the lock.
const unlocked = 24 * time.Hour

// What kimbap puts into the folder of a run, each before what it is in.
var contents = []string{
	"clients/kimbap-php/kimbap.ini", "clients/kimbap-php/.new-*", "clients/kimbap-*", "clients/trust.jks", "clients/.new-*", "clients",
	"ca.pem", "bundle.pem", "kimbap.sock", "mcp.sock", lockFile + "*",
}

// hold locks a folder for as long as this process lives. The lock has its name only once it
// is held: whoever finds one that is free finds that of a dead run.
func hold(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := system.OpenAppend(path + ".new")
	if err != nil {
		return nil, err
	}
	_ = system.TryLock(f) // of a file system without locks nobody gets it afterwards either, and the folder stays
	if err = os.Rename(f.Name(), path); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// holdWhole locks the folder itself: by that systemd-tmpfiles knows that what is in it is in use,
// however old it is (tmpfiles.d(5)). nil where no folder can be locked.
func holdWhole(root *os.Root) *os.File {
	f, err := root.Open(".")
	if err != nil {
		return nil
	}
	if system.TryShare(f) != nil {
		_ = f.Close()
		return nil
	}
	return f
}

// sweep removes what dead runs of this user have left in a folder. What goes wrong stays
// for the next run.
func sweep(above string, now time.Time) {
	f, err := os.Open(above)
	if err != nil {
		return
	}
	names, _ := f.Readdirnames(mostNames)
	_ = f.Close()
	looked := 0
	for _, name := range names {
		if !strings.HasPrefix(name, ofRuns) || looked == mostFolders {
			continue
		}
		dir := filepath.Join(above, name)
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && system.Owner(info) == os.Getuid() {
			looked++
			remains(dir, info, now)
		}
	}
}

// remains removes the folder of a dead run. No link is followed, and only what kimbap has
// put there goes, by its name: a program can move a folder that is covered from it to where
// this is looked for, and would have it emptied by us.
func remains(dir string, info fs.FileInfo, now time.Time) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }()
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		return
	}
	left := contents
	switch lock, err := root.Lstat(lockFile); {
	case err != nil:
		if now.Sub(info.ModTime()) < unlocked {
			return
		}
		left = []string{lockFile + ".new"}
	case !lock.Mode().IsRegular():
		return
	default:
		f, err := root.OpenFile(lockFile, os.O_RDWR, 0)
		if err != nil {
			return
		}
		defer func() { _ = f.Close() }()
		if system.TryLock(f) != nil {
			return
		}
	}
	removeOurs(root, left)
	_ = os.Remove(dir)
}

// removeOurs removes what kimbap has put into a folder, by its name. No link leads out of it, and
// a folder that something else is in stays.
func removeOurs(root *os.Root, ours []string) {
	for _, pattern := range ours {
		folder, _ := path.Split(pattern)
		for _, name := range namesIn(root, folder) {
			if of, _ := path.Match(pattern, folder+name); of {
				_ = root.Remove(folder + name)
			}
		}
	}
}

// namesIn are the names in a folder below another, "" for that one. A program may have put very
// many there, or a pipe in its place: neither holds anybody up.
func namesIn(root *os.Root, folder string) []string {
	f, err := root.Open(folder + ".") // which only a folder has
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(mostNames)
	return names
}

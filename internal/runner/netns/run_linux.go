package netns

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// runFolder is where daemons have their sockets: the message buses, by which a
// program could have another one started outside, the name service cache, the
// engines of containers.
const (
	runFolder = "/run"
	varRun    = "/var" + runFolder
)

// kept are the entries of it that hold files: parts of the system where there
// is no /usr, disks of the user, secrets of a container.
var kept = []string{"booted-system", "current-system", "opengl-driver", "wrappers", "media", "mount", "secrets"}

// clearRun puts an empty folder in the place of /run, wherever that shows, with what holds
// files taken over, and with the folders that the user's environment names, empty too.
func (m MountTable) clearRun(folders, sockets []string) error {
	for _, path := range sockets { // some are in a file system of their own, which may show elsewhere
		if !cleared(path) {
			continue
		}
		if err := m.hideSocket(path); err != nil {
			return err
		}
	}
	old, err := os.Open(runFolder)
	if err != nil {
		return err
	}
	defer func() { _ = old.Close() }()
	whole, parts, err := m.showRun()
	defer closeAll(append(whole, parts...))
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := coverPart(part); err != nil {
			return err
		}
	}
	if err := mount("kimbap", runFolder, "tmpfs", still, "size=64m,mode=0755"); err != nil {
		return err
	}
	for _, name := range kept {
		if err := keep(handle(old)+"/"+name, filepath.Join(runFolder, name)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(runFolder, "lock"), 0o755); err != nil {
		return err
	}
	for _, folder := range folders {
		if !below(folder, runFolder) {
			continue
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	for _, place := range whole {
		if err := over(place, runFolder, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	return nil
}

// showRun opens what else shows /run: all of it, as /var/run where that is no link, or a
// part that is not kept.
func (m MountTable) showRun() (whole, parts []*os.File, err error) {
	for _, name := range []string{runFolder, varRun} {
		fd, err := unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // /var/run is a link to /run
		}
		folder := os.NewFile(uintptr(fd), name)
		again, err := m.again(folder)
		for _, s := range append(again, shown{File: folder}) {
			first, _, _ := strings.Cut(s.part, "/")
			switch {
			case s.Name() == runFolder, slices.Contains(kept, first):
				_ = s.Close()
			case s.part == "" && !below(s.Name(), runFolder):
				whole = append(whole, s.File)
			default:
				parts = append(parts, s.File)
			}
		}
		if err != nil {
			return whole, parts, err
		}
	}
	return whole, parts, nil
}

// coverPart hides a folder or a socket. Another file of /run is a setting, as the names of
// hosts that an engine gives its containers.
func coverPart(part *os.File) error {
	info, err := part.Stat()
	if err != nil || !info.IsDir() && info.Mode()&fs.ModeSocket == 0 {
		return nil //nolint:nilerr // not for this user, so not for the program either
	}
	return Cover(part)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// keep brings an entry back into the cleared folder: a link as it is, a folder
// with all that is mounted in it.
func keep(old, path string) error {
	info, err := os.Lstat(old)
	if err != nil {
		return nil //nolint:nilerr // most systems have none of them
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(old)
		if err != nil {
			return err
		}
		return os.Symlink(target, path)
	}
	if !info.IsDir() {
		return nil
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	return mount(old, path, "", unix.MS_BIND|unix.MS_REC, "")
}

// below reports whether a path is in a folder.
func below(path, folder string) bool { return strings.HasPrefix(filepath.Clean(path), folder+"/") }

// cleared reports whether a path is hidden with /run.
func cleared(path string) bool {
	for _, folder := range []string{runFolder, varRun} {
		if rest, ok := strings.CutPrefix(path, folder+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			return !slices.Contains(kept, first)
		}
	}
	return false
}

package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// MountTable are the mounts that a process sees.
type MountTable []mounted

// mounted is one of them, as proc_pid_mountinfo(5) has it.
type mounted struct {
	id     string
	device string // of the file system
	root   string // what of the file system is mounted
	at     string // where
	kind   string // of the file system
}

// Mounts reads those of this process.
func Mounts() (MountTable, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	unescaped := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out MountTable
	for line := range strings.Lines(string(data)) {
		f := strings.Split(line, " ") // other blanks stand in names as they are, of Unicode's and \r
		if end := slices.Index(f, "-"); end > 4 && end+1 < len(f) {
			out = append(out, mounted{f[0], f[2], unescaped.Replace(f[3]), unescaped.Replace(f[4]), f[end+1]})
		}
	}
	return out, nil
}

// Cover mounts an empty read-only file system over a folder, or an empty file over a file.
func Cover(place *os.File) error {
	info, err := place.Stat()
	if err != nil {
		return fmt.Errorf("cover %s: %w", place.Name(), err)
	}
	source, kind, flags, data := os.DevNull, "", uintptr(unix.MS_BIND), ""
	if info.IsDir() {
		source, kind, flags, data = "kimbap", "tmpfs", noFiles, "size=4k,mode=0500"
	}
	if err := unix.Mount(source, handle(place), kind, flags, data); err != nil {
		return fmt.Errorf("cover %s: %w", place.Name(), err)
	}
	return nil
}

// hideSocket hides what is a socket.
func (m MountTable) hideSocket(path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeSocket == 0 {
		return nil
	}
	return m.hide(path)
}

// hide puts nothing in the place of a folder or file, wherever it shows.
func (m MountTable) hide(path string) error { return m.everywhere(path, Cover) }

// everywhere covers a folder or file wherever it shows. What is not there, or not for this
// user, needs no cover.
func (m MountTable) everywhere(path string, cover func(*os.File) error) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOTDIR):
		return nil
	case err != nil:
		return err
	}
	place := os.NewFile(uintptr(fd), path)
	defer func() { _ = place.Close() }()
	again, err := m.Again(place)
	for _, file := range append(again, place) {
		if err == nil {
			err = cover(file)
		}
		if file != place {
			_ = file.Close()
		}
	}
	return err
}

// Again opens what shows a place, or a part of it, a second time: where the file system that
// it is in is mounted somewhere else too. What this user cannot reach is left out.
func (m MountTable) Again(place *os.File) ([]*os.File, error) {
	shown, err := m.again(place)
	var out []*os.File
	for _, s := range shown {
		out = append(out, s.File)
	}
	return out, err
}

// shown is a place in which a mount shows another one.
type shown struct {
	*os.File
	part string // what of that one, "" for all of it
}

func (m MountTable) again(place *os.File) (out []shown, err error) {
	path, err := os.Readlink(handle(place))
	if err != nil {
		return nil, err
	}
	for _, own := range m {
		rest, below := relative(path, own.at)
		if !below || own.id != mountOf(place) {
			continue
		}
		within := filepath.Join(own.root, rest)
		for _, other := range m {
			if other.id == own.id || other.device != own.device {
				continue
			}
			s := other.open(within)
			if s == nil {
				continue
			}
			out = append(out, *s)
			if s.part != "" {
				continue
			}
			first, err := place.Stat()
			if err != nil {
				return out, err
			}
			if second, err := s.Stat(); err != nil || !os.SameFile(first, second) {
				return out, fmt.Errorf("%s was moved away", place.Name())
			}
		}
	}
	return out, nil
}

// ofKinds opens what the mounts of some kinds of file systems show of a place in them.
func (m MountTable) ofKinds(within string, kinds ...string) (out []shown) {
	for _, each := range m {
		if !slices.Contains(kinds, each.kind) {
			continue
		}
		if s := each.open(within); s != nil {
			out = append(out, *s)
		}
	}
	return out
}

// open opens what a mount shows of a place that is within its file system, nil if nothing.
func (o mounted) open(within string) *shown {
	rest, whole := relative(within, o.root)
	part, some := relative(o.root, within)
	if !whole && !some {
		return nil
	}
	name := filepath.Join(o.at, rest)
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // the program cannot reach it either
	}
	file := os.NewFile(uintptr(fd), name)
	if mountOf(file) != o.id { // something else is mounted over it
		_ = file.Close()
		return nil
	}
	return &shown{file, part}
}

// relative is a path below a folder, "" for the folder itself.
func relative(path, folder string) (rest string, below bool) {
	if path == folder {
		return "", true
	}
	if rest, below = strings.CutPrefix(path, strings.TrimSuffix(folder, "/")+"/"); !below {
		rest = ""
	}
	return rest, below
}

// mountOf is the mount that a file was opened in, by its number.
func mountOf(file *os.File) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", file.Fd()))
	for line := range strings.Lines(string(data)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

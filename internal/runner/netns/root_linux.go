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

// keepRootOut takes away what only root could leave by. In a namespace that
// knows all users, root's files are root's: the kernel's settings, of which some
// name a program that it starts outside.
func (m MountTable) keepRootOut() error {
	paths := []string{"/proc/sys", "/sys"}
	for _, s := range append(m.ofKinds("/sys", "proc"), m.ofKinds("/", settings...)...) {
		paths = append(paths, s.Name())
		_ = s.Close()
	}
	slices.Sort(paths)
	var frozen []string
	for _, path := range paths {
		if slices.ContainsFunc(frozen, func(above string) bool { return path == above || below(path, above) }) {
			continue
		}
		if err := freeze(path); err != nil {
			return err
		}
		frozen = append(frozen, path)
	}
	return nil
}

// settings are the file systems of the kernel, beside /proc.
var settings = []string{"sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "configfs", "securityfs", "efivarfs", "binfmt_misc"}

// freezeGroups makes the control groups read-only, also for a user who has some of them as his
// own, as a systemd gives them: who may write there ends, stops and starves what is in them.
func (m MountTable) freezeGroups() error {
	var errs []error
	for _, s := range m.ofKinds("/", "cgroup", "cgroup2") {
		errs = append(errs, freeze(s.Name()))
		_ = s.Close()
	}
	return errors.Join(errs...)
}

// freeze makes a folder read-only, with all that is mounted in it.
func freeze(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	frozen := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, frozen); err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

const devFolder = "/dev"

// devices are those that programs need: none that leads to a disk, to a serial
// line or to another machine.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty", "pts", "shm", "mqueue", "dri", "dxg", "nvidia*", "kfd"}

// deviceLinks are names for what a program has open.
var deviceLinks = map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}

// fewDevices puts a folder with those in the place of /dev, wherever that shows.
func (m MountTable) fewDevices() error {
	old, err := os.Open(devFolder)
	if err != nil {
		return err
	}
	defer func() { _ = old.Close() }()
	again, err := m.again(old)
	again = append(again, m.ofKinds("/", "devtmpfs")...)
	defer func() {
		for _, s := range again {
			_ = s.Close()
		}
	}()
	if err != nil {
		return err
	}
	before, own := handle(old)+"/", ownTerminalNames()
	if err := mount("kimbap", devFolder, "tmpfs", still|unix.MS_NOEXEC, "size=64k,mode=0755"); err != nil {
		return err
	}
	for _, pattern := range append(own, devices...) {
		found, err := filepath.Glob(before + pattern)
		if err != nil {
			return err
		}
		for _, device := range found {
			if err := bind(device, filepath.Join(devFolder, filepath.Base(device))); err != nil {
				return err
			}
		}
	}
	for name, target := range deviceLinks {
		if err := os.Symlink(target, filepath.Join(devFolder, name)); err != nil {
			return err
		}
	}
	for _, s := range again {
		if err := fewDevicesAt(s); err != nil {
			return err
		}
	}
	return nil
}

// ownTerminalNames are the names in /dev of terminals among input and output, as /dev/console of
// a container and /dev/tty1: programs look for them by those.
func ownTerminalNames() (names []string) {
	for fd := range 3 {
		name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil || filepath.Dir(name) != devFolder || slices.Contains(names, filepath.Base(name)) {
			continue
		}
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil && !slices.Contains(devices, filepath.Base(name)) {
			names = append(names, filepath.Base(name))
		}
	}
	return names
}

// fewDevicesAt does the same at another place, which may show one device alone.
func fewDevicesAt(s shown) error {
	if s.Name() == devFolder {
		return nil
	}
	if below(s.Name(), devFolder) { // in what was kept of it, as /dev/shm, which shows in the new one
		again, err := os.OpenFile(s.Name(), unix.O_PATH|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil //nolint:nilerr // it was not kept
		}
		defer func() { _ = again.Close() }()
		s.File = again
	}
	first, _, _ := strings.Cut(s.part, "/")
	switch {
	case s.part == "":
		return over(s.File, devFolder, "", unix.MS_BIND|unix.MS_REC, "")
	case slices.ContainsFunc(devices, func(pattern string) bool { ok, _ := filepath.Match(pattern, first); return ok }):
		return nil
	}
	return Cover(s.File)
}

// bind shows a folder or file under another path as well.
func bind(old, path string) error {
	info, err := os.Stat(old)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.Mkdir(path, 0o755)
	} else {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err != nil {
		return err
	}
	return mount(old, path, "", unix.MS_BIND|unix.MS_REC, "")
}

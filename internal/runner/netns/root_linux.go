package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// keepRootOut takes away what only root could leave by. In a namespace that
// knows all users, root's files are root's: the kernel's settings, of which some
// name a program that it starts outside, and the devices.
func keepRootOut() error {
	for _, path := range []string{"/proc/sys", "/sys"} {
		if err := freeze(path); err != nil {
			return err
		}
	}
	return fewDevices()
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

// devices are those that programs need: none that leads to a disk, to a serial
// line or to another machine.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty", "pts", "shm", "mqueue", "dri", "nvidia*", "kfd"}

// deviceLinks are names for what a program has open.
var deviceLinks = map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}

// fewDevices puts a folder with those in the place of /dev.
func fewDevices() error {
	const folder = "/dev"
	old, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer func() { _ = old.Close() }()
	before := fmt.Sprintf("/proc/self/fd/%d/", old.Fd())
	if err := mount("kimbap", folder, "tmpfs", still|unix.MS_NOEXEC, "size=64k,mode=0755"); err != nil {
		return err
	}
	for _, pattern := range devices {
		found, err := filepath.Glob(before + pattern)
		if err != nil {
			return err
		}
		for _, device := range found {
			if err := bind(device, filepath.Join(folder, filepath.Base(device))); err != nil {
				return err
			}
		}
	}
	for name, target := range deviceLinks {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
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

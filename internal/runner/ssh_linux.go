package runner

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kimbap-run/kimbap/internal/system"
)

const sshConfig = "/etc/ssh/ssh_config"

// maxSSHConfig is how much is read of one file of ssh's settings, in bytes.
const maxSSHConfig = 1 << 20

// ownSSHConfig puts copies over what the system's settings of ssh include, wherever that is. Root's
// files belong to nobody in a namespace that maps one user, and ssh refuses to read them there.
func ownSSHConfig() error {
	if mapsRoot() {
		return nil
	}
	copies := map[string][]byte{}
	includedIn(sshConfig, copies)
	if len(copies) == 0 {
		return nil
	}
	var places []*os.File
	defer func() { closeAll(places) }()
	for path := range copies {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // it has gone since
		}
		places = append(places, os.NewFile(uintptr(fd), path))
	}
	staging := filepath.Dir(sshConfig)
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("kimbap", staging, "tmpfs", flags, "mode=0755"); err != nil {
		return fmt.Errorf("cover %s: %w", staging, err)
	}
	for i, place := range places {
		if err := os.WriteFile(filepath.Join(staging, strconv.Itoa(i)), copies[place.Name()], 0o644); err != nil {
			return err
		}
	}
	if err := unix.Mount("", staging, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("cover %s: %w", staging, err)
	}
	for i, place := range places {
		if err := unix.Mount(filepath.Join(staging, strconv.Itoa(i)), fmt.Sprintf("/proc/self/fd/%d", place.Fd()), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cover %s: %w", place.Name(), err)
		}
	}
	return unix.Unmount(staging, unix.MNT_DETACH) // the copies stay where they were put
}

// includedIn adds the texts of the files that one of ssh's settings includes (ssh_config(5)), and
// that those do. What this user cannot read ssh cannot either, and of its own files it takes any.
func includedIn(file string, found map[string][]byte) {
	text, err := system.ReadRegular(file, maxSSHConfig)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		end := strings.IndexAny(line, " \t=\"")
		if end < 0 || !strings.EqualFold(line[:end], "Include") {
			continue
		}
		for _, pattern := range strings.Fields(strings.TrimLeft(line[end:], " \t=")) {
			pattern = strings.Trim(pattern, `"`)
			if !filepath.IsAbs(pattern) {
				pattern = filepath.Join(filepath.Dir(sshConfig), pattern)
			}
			paths, _ := fs.Glob(os.DirFS("/"), filepath.Clean(pattern)[1:])
			for _, path := range paths {
				include("/"+path, found)
			}
		}
	}
}

func include(path string, found map[string][]byte) {
	info, err := os.Stat(path)
	if _, known := found[path]; known || err != nil || system.Owner(info) == os.Getuid() {
		return
	}
	if text, err := system.ReadRegular(path, maxSSHConfig); err == nil {
		found[path] = text
		includedIn(path, found)
	}
}

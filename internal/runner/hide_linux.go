package runner

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kimbap-run/kimbap/internal/runner/netns"
)

// identified names a folder or file so that no other one is taken for it.
func identified(path string) (string, error) {
	var info unix.Stat_t
	if err := unix.Stat(path, &info); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return identity(&info) + path, nil
}

func identity(info *unix.Stat_t) string { return fmt.Sprintf("%d:%d:", info.Dev, info.Ino) }

// known opens what [identified] has named, which is still where it was: an earlier program
// may have moved the folder that it is in, or put another one there. None of its errors is
// how a system refuses covers, since it was found a moment ago: the way to it may lead
// elsewhere, where nobody may look, and nothing may start uncovered for that.
func known(name string) (place *os.File, err error) {
	_, path, _ := strings.Cut(name, ":")
	_, path, _ = strings.Cut(path, ":")
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s was moved away", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s was there and is not found again: %v", path, err) //nolint:errorlint // see above
	}
	place = os.NewFile(uintptr(fd), path)
	var info unix.Stat_t
	if err = unix.Fstat(fd, &info); err != nil {
		err = fmt.Errorf("%s was there and cannot be looked at again: %v", path, err) //nolint:errorlint // see above
	} else if identity(&info)+path != name {
		err = fmt.Errorf("%s was replaced by another", path)
	}
	if err != nil {
		_ = place.Close()
		return nil, err
	}
	return place, nil
}

// hide covers each folder and file, wherever it shows. All are found before one is covered,
// since one may be inside another.
func hide(folders []string) error {
	// Nothing that is mounted here may show outside, whatever the distribution
	// set for the root mount.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	var places []*os.File
	defer func() {
		for _, place := range places {
			_ = place.Close()
		}
	}()
	for _, folder := range folders {
		place, err := known(folder)
		if err != nil {
			return err
		}
		places = append(places, place)
	}
	mounts, err := netns.Mounts()
	if err != nil {
		return err
	}
	for _, place := range places {
		again, err := mounts.Again(place)
		places = append(places, again...)
		if err != nil {
			return err
		}
	}
	for _, place := range places {
		if err := netns.Cover(place); err != nil {
			return err
		}
	}
	return ownSSHConfig()
}

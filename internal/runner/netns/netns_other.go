//go:build !linux

package netns

import (
	"errors"
	"os"
)

// errNoLinux is what everything answers where there are no such namespaces.
var errNoLinux = errors.New("network namespaces are Linux's")

// Furnish exists on Linux only.
func Furnish(Furniture, *os.File) error { return errNoLinux }

// Confine exists on Linux only.
func Confine() error { return errNoLinux }

// HostSockets are of interest on Linux only.
func HostSockets() ([]string, error) { return nil, errNoLinux }

// Mute exists on Linux only.
func Mute() error { return errNoLinux }

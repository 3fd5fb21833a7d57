package runner

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// ids are a user and a group.
type ids struct{ uid, gid int }

// mapIDs gives a namespace that a process shall have one user and group of this one, or for
// root all that this one has, so that the owners of files stay what they are. In a container
// of a user root has fewer than there are, and more would be refused (user_namespaces(7)).
func mapIDs(attr *syscall.SysProcAttr, here, there ids, root bool) (err error) {
	if !root {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: there.uid, HostID: here.uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: there.gid, HostID: here.gid, Size: 1}}
		return nil
	}
	if attr.UidMappings, err = ranges("/proc/self/uid_map"); err != nil {
		return err
	}
	if attr.GidMappings, err = ranges("/proc/self/gid_map"); err != nil {
		return err
	}
	setgroups, err := os.ReadFile("/proc/self/setgroups")
	attr.GidMappingsEnableSetgroups = err == nil && strings.TrimSpace(string(setgroups)) == "allow" // what is denied here stays so below
	return nil
}

// errNoMaps is how a system without /proc, or without namespaces of users, shows no ids.
var errNoMaps = errors.New("no namespace can be given its users")

// ranges reads the ids of this namespace, each as itself.
func ranges(file string) (out []syscall.SysProcIDMap, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, syscall.ENOENT) {
		return nil, fmt.Errorf("%w: %w", errNoMaps, err)
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		var first, above, size int
		if _, err := fmt.Sscan(line, &first, &above, &size); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, syscall.SysProcIDMap{ContainerID: first, HostID: first, Size: size})
	}
	return out, nil
}

// mapsRoot reports whether the namespace knows more users than one.
func mapsRoot() bool {
	known, err := ranges("/proc/self/uid_map")
	return err == nil && (len(known) > 1 || len(known) == 1 && known[0].Size > 1)
}

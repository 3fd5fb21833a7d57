package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Furnish makes the network that this process is in, and hides what leads
// around it; then it hands the sockets out. The process is in a user, mount and
// network namespace of its own and has every capability there; the program that
// it starts afterwards must have none, so that it can take nothing of this back.
func Furnish(f Furniture, to *os.File) error {
	if err := connect(); err != nil {
		return err
	}
	mounts, err := Mounts()
	if err != nil {
		return err
	}
	if err := mounts.clearRun(f.Folders, f.Sockets); err != nil {
		return err
	}
	if mounts, err = Mounts(); err != nil { // those that are there since
		return err
	}
	if err := mounts.coverSockets(f.Sockets); err != nil {
		return err
	}
	for _, path := range f.Hide {
		if err := mounts.hide(path); err != nil {
			return err
		}
	}
	if err := mounts.ownTerminals(); err != nil {
		return err
	}
	if err := mounts.freezeGroups(); err != nil {
		return err
	}
	if f.Root {
		if err := mounts.keepRootOut(); err != nil {
			return err
		}
	}
	if err := mounts.fewDevices(); err != nil {
		return err
	}
	if err := nameFiles(); err != nil {
		return err
	}
	if err := keepOwnFiles(); err != nil {
		return err
	}
	return handOut(to, f.Doors)
}

// keepOwnFiles keeps what was open before to this process: the program gets its
// input and output alone, not what a shell left open, a socket perhaps.
func keepOwnFiles() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range open {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return err
		}
		if fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

const (
	still   = unix.MS_NOSUID | unix.MS_NODEV
	noFiles = still | unix.MS_NOEXEC | unix.MS_RDONLY
)

// coverSockets hides sockets in files that other programs of the machine listen
// on, with all sockets beside them: what was bound by one name may have been moved
// or linked to another, as ssh does with that of a connection it shares. A folder
// with nothing but sockets is hidden as a whole, so that those which come later are
// hidden too.
func (m MountTable) coverSockets(paths []string) error {
	done := map[string]bool{}
	for _, path := range paths {
		folder := filepath.Dir(path)
		if done[folder] || cleared(path) {
			continue
		}
		sockets, mode, only, err := socketsIn(folder)
		switch {
		case err != nil: // its own name may be known all the same
			err = m.hideSocket(path)
		case only:
			err = m.everywhere(folder, func(place *os.File) error { return emptied(place, mode) })
		}
		if err != nil {
			return err
		}
		for _, name := range sockets {
			if err := m.hideSocket(filepath.Join(folder, name)); err != nil {
				return err
			}
		}
		done[folder] = only || len(sockets) > 0
	}
	return nil
}

// emptied puts an empty folder in the place of one with sockets, or nothing in that of one of them.
func emptied(place *os.File, mode uint32) error {
	if info, err := place.Stat(); err != nil || !info.IsDir() {
		return errors.Join(err, Cover(place))
	}
	return over(place, "kimbap", "tmpfs", still|unix.MS_NOEXEC, fmt.Sprintf("size=1m,mode=%o", mode))
}

// socketsIn are the names of sockets in a folder that holds something else too.
// Where it holds nothing else, there are none, and its permissions are as mount takes them.
func socketsIn(folder string) (sockets []string, mode uint32, only bool, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, 0, false, err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSocket != 0 {
			sockets = append(sockets, e.Name())
		}
	}
	var info unix.Stat_t
	if len(sockets) == 0 || len(sockets) < len(entries) || unix.Stat(folder, &info) != nil {
		return sockets, 0, false, nil
	}
	return nil, info.Mode & 0o7777, true, nil
}

// nameFiles tell programs to ask the stub, and of no other host.
func nameFiles() error {
	hosts := "127.0.0.1 " + localhost + "\n::1 " + localhost + "\n"
	if own, err := os.Hostname(); err == nil && hostName(canonical(own)) && canonical(own) != localhost {
		hosts += "127.0.0.1 " + own + "\n"
	}
	for path, text := range map[string]string{
		"/etc/resolv.conf": "nameserver " + nameServer + "\nsearch .\n", // no search for names of this network
		"/etc/hosts":       hosts,
	} {
		if err := replace(path, text); err != nil {
			return err
		}
	}
	return nil
}

// replace puts text in the place of a system file. Where the file is missing
// the C library does what our text says.
func replace(path, text string) error {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) { // a link into the folder that we cleared
		link, lerr := os.Readlink(path)
		if lerr != nil {
			return nil //nolint:nilerr // no file, or no link
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(path), link)
		}
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return err
		}
		return os.WriteFile(link, []byte(text), 0o644)
	}
	if err != nil {
		return err
	}
	// It stays: over a file that is gone nobody could put another one, such as a
	// sandbox that the program uses itself.
	source := filepath.Join(runFolder, "kimbap-"+filepath.Base(path))
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		return err
	}
	return mount(source, target, "", unix.MS_BIND, "")
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount over %s: %w", target, err)
	}
	return nil
}

// over mounts over a place that is open, whatever is called as it is meanwhile.
func over(place *os.File, source, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, handle(place), kind, flags, data); err != nil {
		return fmt.Errorf("mount over %s: %w", place.Name(), err)
	}
	return nil
}

// handle is a name of what is open.
func handle(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }

// HostSockets are the paths of sockets in files that programs of this machine
// listen on, by the names in /proc/PID/net/unix, which are as they were bound: a
// relative one is looked for in the working folders of programs.
func HostSockets() ([]string, error) {
	names, err := namesOfSockets()
	if err != nil {
		return nil, err
	}
	var out []string
	folders := sync.OnceValue(workingFolders)
	for _, name := range names {
		if filepath.IsAbs(name) {
			out = append(out, filepath.Clean(name))
			continue
		}
		for _, folder := range folders() {
			path := filepath.Join(folder, name)
			if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
				out = append(out, path)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// namesOfSockets are those of all networks that have a program: a socket in a
// file is reached from any of them.
func namesOfSockets() ([]string, error) {
	const own = "self"
	var out []string
	seen := map[uint64]bool{} // by the number of the file, which is its network's
	for _, process := range append([]string{own}, processes()...) {
		table := "/proc/" + process + "/net/unix"
		var info unix.Stat_t
		if unix.Stat(table, &info) == nil && seen[info.Ino] {
			continue
		}
		for range looks {
			more, err := os.ReadFile(table)
			if err != nil && process == own {
				return nil, err
			}
			out = append(out, boundNames(more)...) // none, where the process has ended
		}
		seen[info.Ino] = true
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// looks is how often a table is read. The kernel gives it page by page, and where a socket
// goes in between it may pass over another one, which is then in the next.
const looks = 4

// processes are the names of their folders in /proc.
func processes() []string {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = folder.Close() }()
	names, _ := folder.Readdirnames(-1)
	return slices.DeleteFunc(names, func(name string) bool { return strings.Trim(name, "0123456789") != "" })
}

// record begins a line of /proc/net/unix that has a socket. Its name follows, as
// it is: there may be ends of lines in it.
var record = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[0-9a-f]+: [0-9A-F]{8} [0-9A-F]{8} [0-9A-F]{8} [0-9A-F]{4} [0-9A-F]{2} +[0-9]+(?: |$)`)
})

// boundNames are the names of sockets in files, of which a connection has its listener's
// and each is said until the next, or the end of the table. One without a name is left out,
// and one with an abstract name, which belongs to its network.
func boundNames(table []byte) []string {
	var out []string
	heads := record().FindAllIndex(table, -1)
	for i, head := range heads {
		end := len(table)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		name := strings.TrimSuffix(string(table[head[1]:end]), "\n")
		if name != "" && name[0] != '@' {
			out = append(out, name)
		}
	}
	return out
}

// workingFolders are those of the programs that this user can look at.
func workingFolders() []string {
	var out []string
	for _, process := range processes() {
		if folder, err := os.Readlink("/proc/" + process + "/cwd"); err == nil {
			out = append(out, folder)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

package holder

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Process names the running process so that it can be told from a later
// one with the same number: pid, start time in ticks since boot, pid namespace.
func Process() string {
	pid := os.Getpid()
	start, _ := startTime(pid)
	return fmt.Sprintf("%d@%s@%s", pid, start, pidNamespace())
}

// Gone reports whether the named process has certainly ended. A name
// from another pid namespace cannot be judged from here.
func Gone(name string) bool {
	part := strings.Split(name, "@")
	if len(part) != 3 || part[2] != pidNamespace() {
		return false
	}
	pid, err := strconv.Atoi(part[0])
	if err != nil {
		return false
	}
	start, err := startTime(pid)
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	return err == nil && start != part[1]
}

// startTime is field 22 of /proc/PID/stat. The second field may hold spaces and
// brackets, so counting begins after its last bracket.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat has an unknown form", pid)
	}
	return string(fields[19]), nil
}

// whoHas says which process has the lock of a file, as an addition to an error; "" where that
// cannot be told.
func whoHas(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return ""
	}
	inode := ":" + strconv.FormatUint(stat.Ino, 10)
	for line := range strings.Lines(string(locks)) { // 1: FLOCK  ADVISORY  WRITE 1143 fe:00:10519395 0 EOF
		part := strings.Fields(line)
		if len(part) < 6 || part[1] != "FLOCK" || part[3] != "WRITE" || !strings.HasSuffix(part[5], inode) {
			continue
		}
		pid, err := strconv.Atoi(part[4])
		if err != nil || pid <= 0 || !opened(pid, info) {
			continue // of a process that is not seen from here, or of a file of another disk
		}
		said := fmt.Sprintf(", %d", pid)
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
			said += fmt.Sprintf(" (%q)", strings.TrimSpace(string(name)))
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
			if state := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(state) > 0 && string(state[0]) == "T" {
				said += ", which is stopped"
			}
		}
		return said
	}
	return ""
}

// opened reports whether a process has a file open.
func opened(pid int, file os.FileInfo) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	names, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(names, func(e os.DirEntry) bool {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		return err == nil && os.SameFile(info, file)
	})
}

func pidNamespace() string {
	link, _ := os.Readlink("/proc/self/ns/pid")
	return strings.Trim(link, "pid:[]")
}

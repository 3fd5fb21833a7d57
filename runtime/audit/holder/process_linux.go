package holder

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
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

func pidNamespace() string {
	link, _ := os.Readlink("/proc/self/ns/pid")
	return strings.Trim(link, "pid:[]")
}

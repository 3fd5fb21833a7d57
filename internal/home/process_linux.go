package home

import (
	"bytes"
	"fmt"
	"os"
)

// startTime returns when a process started, in clock ticks since boot (proc(5),
// field 22 of stat), "" when there is no such process. One that ended and that its
// parent has not asked about yet does nothing any more; some containers keep those.
func startTime(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The command name may hold spaces and parentheses: count from its end.
	_, rest, ok := bytes.Cut(stat[max(bytes.LastIndexByte(stat, ')'), 0):], []byte(" "))
	if fields := bytes.Fields(rest); ok && len(fields) > 19 && fields[0][0] != 'Z' {
		return string(fields[19])
	}
	return ""
}

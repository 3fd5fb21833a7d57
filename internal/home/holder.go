package home

import (
	"fmt"
	"strconv"
)

// Holder names a process so that its death can be seen: a pid is reused,
// a pid with its start time is not.
func Holder(pid int) string { return fmt.Sprintf("%d:%s", pid, startTime(pid)) }

// Alive reports whether the process that Holder named still runs.
func Alive(holder string) bool {
	for i := range holder {
		if holder[i] == ':' {
			pid, err := strconv.Atoi(holder[:i])
			return err == nil && Holder(pid) == holder && startTime(pid) != ""
		}
	}
	return false
}

package home

import (
	"strconv"

	"golang.org/x/sys/windows"
)

// stillActive is the exit code of a process that has not ended (GetExitCodeProcess).
const stillActive = 259

// startTime returns when a process started, in steps of 100 ns since 1601, "" when
// there is no such process.
func startTime(pid int) string {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return ""
	}
	defer func() { _ = windows.CloseHandle(process) }()
	var code uint32
	var started, ended, kernel, user windows.Filetime
	if windows.GetExitCodeProcess(process, &code) != nil || code != stillActive ||
		windows.GetProcessTimes(process, &started, &ended, &kernel, &user) != nil {
		return ""
	}
	return strconv.FormatInt(int64(started.HighDateTime)<<32|int64(started.LowDateTime), 10)
}

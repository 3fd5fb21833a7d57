package system

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// wideSlack is how late a sleep may end.
const wideSlack = time.Millisecond

// givenSlack is the slack that the process found, in nanoseconds; 0: it is not widened.
var givenSlack atomic.Int64

func widenTimerSlack() {
	found, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || found <= 0 || found >= int(wideSlack) {
		return // somebody has set it on purpose, or runs us in real time
	}
	// The thread that matters was there before any code of ours: every thread must be told.
	if _, _, refused := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, uintptr(wideSlack), 0); refused == 0 {
		givenSlack.Store(int64(found))
	}
}

func asGiven(start func() error) error {
	found := givenSlack.Load()
	if found == 0 {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(found), 0, 0, 0) != nil {
		return start()
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(wideSlack), 0, 0, 0) }()
	return start()
}

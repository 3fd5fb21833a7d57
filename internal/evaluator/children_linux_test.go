package evaluator_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// child reports whether this process has one, be it alive or dead and not waited for.
func child() bool {
	return !errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil), unix.ECHILD)
}

// begun waits for the first.
func begun(t *testing.T) {
	t.Helper()
	for over := time.Now().Add(time.Minute); !child(); {
		if time.Now().After(over) {
			t.Fatal("no process was started")
		}
	}
}

func noneLeft(t *testing.T) {
	t.Helper()
	if child() {
		t.Error("a process is left")
	}
}

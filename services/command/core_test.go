//go:build unix

package command_test

import (
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// A program leaves no core file, in which its credential would be, whatever the user's own
// limit is; its other limits are the user's, and so are kimbap's own afterwards.
func TestAProgramLeavesNoCore(t *testing.T) {
	runtimetest.Alone(t)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &old); err != nil {
		t.Fatal(err)
	}
	given := old
	given.Cur = given.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &given); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &old); err != nil {
			t.Error(err)
		}
	})
	r := newRig(t, `ulimit -S -c; ulimit -H -n`)
	other := newRig(t, `ulimit -H -n`)
	files := strings.TrimSpace(other.must(other.call()))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if said := r.must(r.call()); said != "0\n"+files+"\n" {
					t.Errorf("the program's limits are %q", said)
				}
			}
		})
	}
	wg.Wait()
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &now); err != nil || now != given {
		t.Errorf("kimbap's own limit is %v after it, not %v: %v", now, given, err)
	}
}

package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// What has expired of scripts may be gigabytes, and each byte of it is overwritten. It goes
// a little at a time: others write in between, and the log grows to as much as one
// transaction has.
func TestWhatHasExpiredOfScriptsGoesALittleAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	db := opened(t, path, true)
	const piece = 2 << 20
	for n, calls := range []int{1, 1, 12, 1, 12, 1, 1, 1, 1, 1} {
		state := []journal.State{journal.Ended, journal.Paused, journal.Running}[n%3]
		e := journal.Execution{
			ID: fmt.Sprint("exe_", n), Tenant: runtime.DefaultTenant, Principal: "token:a", State: state, Holder: "1:a", Script: []byte("x"),
			Created: time.Unix(1, 0), Expires: time.Unix(int64(n+2), 0),
		}
		for step := 1; step <= calls; step++ {
			one := []journal.Call{{Step: step, Sealed: make([]byte, piece)}}
			later := e
			if later.State = journal.Running; step == calls {
				later.State = state
			}
			if ok, err := db.WriteExecution(t.Context(), later, one); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
	}
	const last = 9
	if err := db.DropExecutions(t.Context(), time.Unix(last+2, 0)); err != nil {
		t.Fatal(err)
	}
	for n := range last + 1 {
		_, found, err := db.Execution(t.Context(), runtime.DefaultTenant, fmt.Sprint("exe_", n))
		if err != nil || found != (n == last) {
			t.Errorf("execution %d is there: %t, %v", n, found, err)
		}
	}
	if _, all, err := db.ExecutionBytes(t.Context(), runtime.DefaultTenant, "token:a"); err != nil || all < piece || all > piece+(1<<20) {
		t.Errorf("%d bytes are left: %v", all, err)
	}
	log, err := os.Stat(path + "-wal")
	if err != nil || log.Size() > 32<<20 {
		t.Errorf("the log has %d MiB: %v", log.Size()>>20, err)
	}
}

// So do approvals, of which each may hold a long request yet: those that nobody looked at
// since they were over, or whose vault was locked.
func TestOldApprovalsGoALittleAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	db := opened(t, path, true)
	for n := range 20 {
		a := approval.Approval{
			ID: fmt.Sprint("apr_", n), Tenant: runtime.DefaultTenant, State: approval.Expired, Principal: "token:a", Digest: fmt.Sprint(n),
			Sealed: make([]byte, 4<<20), Created: time.Unix(1, 0), Expires: time.Unix(2, 0),
		}
		if n == 5 {
			a.Sealed = make([]byte, 16<<20)
		}
		if n == 19 {
			a.Expires = time.Unix(9, 0)
		}
		if err := db.AddApproval(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.DropApprovals(t.Context(), time.Unix(5, 0)); err != nil {
		t.Fatal(err)
	}
	if left, err := db.Unreleased(t.Context(), runtime.DefaultTenant, 100); err != nil || len(left) != 1 || left[0] != "apr_19" {
		t.Errorf("%q are left: %v", left, err)
	}
	log, err := os.Stat(path + "-wal")
	if err != nil || log.Size() > 40<<20 {
		t.Errorf("the log has %d MiB: %v", log.Size()>>20, err)
	}
}

package audit_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
)

// On a disk that is full to the last byte, how the requests under way ended is
// still written, into what was reserved for it; no new request passes until the
// reserve could be made again.
func TestAFullDiskStillTakesHowRequestsEnded(t *testing.T) { // AU-010
	dir, disk := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A disk of its own, in a mount namespace of its own; what is on it at the end
	// is copied out.
	cmd := exec.Command("unshare", "-Urm", "sh", "-ec", `mount -t tmpfs -o size=1m disk "$1"; "$0"; cp -R "$1/." "$2"`, self, disk, dir)
	cmd.Env = append(os.Environ(), "KIMBAP_AUDIT_CHILD=full-disk", "KIMBAP_AUDIT_DIR="+disk)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	audittest.Verified(t, dir)
	var got []string
	for _, e := range audittest.Entries(t, dir, history.Query{}) {
		got = append(got, e.Kind+" "+e.RequestID)
	}
	all := strings.Join(got, ", ")
	for _, want := range []string{"intent req_0", "outcome req_0", "outcome req_1", "refusal req_late", "intent req_after"} {
		if strings.Count(all, want) != 1 {
			t.Errorf("%q is not there once: %s", want, all)
		}
	}
	if strings.Contains(all, "intent req_late") {
		t.Errorf("the refused request has an intent: %s", all)
	}
}

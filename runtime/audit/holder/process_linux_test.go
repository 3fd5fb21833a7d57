package holder_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/holder"
)

// A number that was given out again is another process; one of another pid namespace may be
// anybody.
func TestANumberThatWasGivenOutAgainHasGone(t *testing.T) {
	part := strings.Split(holder.Process(), "@")
	if len(part) != 3 || part[1] == "" || part[2] == "" {
		t.Fatalf("%q", part)
	}
	if !holder.Gone(part[0] + "@1@" + part[2]) {
		t.Error("this process began when another did")
	}
	if holder.Gone(part[0] + "@1@1") {
		t.Error("a process of another namespace was judged")
	}
}

//go:build cgo

package worker_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

// Before it gives up anything: this test goes on to live.
func TestAKimbapWithCgoIsNoWorker(t *testing.T) {
	if _, err := worker.Confine(worker.Settings{}); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("got %v, want how to build it", err)
	}
}

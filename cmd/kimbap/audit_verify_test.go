package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/witness"
)

// Whoever anchors the trail learns what of it was not done, and is not sent to look for changes
// where none are.
func TestWhatDidNotComeWithACheckpointIsToldApart(t *testing.T) {
	old := errors.New("retention of the audit trail: the index is busy")
	for what, err := range map[string]error{
		"arrive everywhere":     fmt.Errorf("%w to a place: %w", witness.ErrUnsent, old),
		"signed as it is":       errors.Join(fmt.Errorf("%w: a slot is gone", witness.ErrUnsound), old),
		"older than audit.rete": old,
	} {
		f := notAnchored(err)
		if !strings.Contains(f.what, what) || !strings.Contains(f.why, "the index is busy") || f.fix == "" || f.exit == 0 {
			t.Errorf("%v is told as %+v", err, f)
		}
	}
}

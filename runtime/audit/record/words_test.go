package record_test

import (
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// Who filters records by their kind may name each that there is, and no other.
func TestTheWordsOfRecordsAreItsKinds(t *testing.T) {
	kinds := []string{string(record.KindIntent), string(record.KindOutcome), string(record.KindRefusal), string(record.KindEvent)}
	if words := runtime.RecordWords("kind"); !slices.Equal(words, kinds) {
		t.Errorf("%q, want %q", words, kinds)
	}
	if words := runtime.RecordWords("text"); words != nil {
		t.Errorf("free text is one of %q", words)
	}
}

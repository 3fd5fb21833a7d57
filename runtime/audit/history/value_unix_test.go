//go:build unix

package history_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// A value is looked for from the end of the trail, and not in what is older than the records
// that were asked for: a file that cannot be read stands there for that.
func TestAValueIsLookedForFromTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := audittest.Options(dir)
	o.SegmentSize = 4000
	l := audittest.Open(t, o)
	values := []any{"plain", "two words", "a\"b\n<&>é", 17, true, "秘密", "", "other"}
	for i := range 40 {
		r := audittest.Record(fmt.Sprintf("req_%02d", i))
		r.Action = &runtime.Action{Ref: r.Ref, Risk: runtime.RiskLow, Auth: &runtime.Auth{Type: runtime.AuthNone}, Params: []runtime.Param{{Name: "q", In: runtime.InQuery}}}
		r.Args = runtime.Args{"q": values[i%len(values)]}
		if err := l.Intent(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	audittest.Shut(t, l)
	for i, value := range values {
		found, err := history.SearchValue(t.Context(), dir, history.Value{Plain: fmt.Sprint(value), Hash: "none"}, history.Query{})
		if err != nil || len(found) != 40/len(values) || found[0].RequestID != fmt.Sprintf("req_%02d", 32+i) {
			t.Errorf("%v: %v, %v", value, names(found), err)
		}
	}
	slot := filepath.Join(dir, l.Slot())
	numbers, err := segment.List(slot)
	if err != nil || len(numbers) < 4 {
		t.Fatal(numbers, err)
	}
	first := filepath.Join(slot, segment.Name(numbers[0]))
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(first, first); err != nil {
		t.Fatal(err)
	}
	found, err := history.SearchValue(t.Context(), dir, history.Value{Plain: "plain", Hash: "none"}, history.Query{Limit: 2})
	if err != nil || len(found) != 2 || found[0].RequestID != "req_32" || found[1].RequestID != "req_24" {
		t.Errorf("%v, %v", names(found), err)
	}
}

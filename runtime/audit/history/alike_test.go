package history_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
)

// Names that a record cuts can be alike: a caller who picks them so hides no value from who
// asks for it.
func TestSearchValueSeesAllOfNamesThatAreAlike(t *testing.T) {
	const value = "looked-for-value!"
	dir := t.TempDir()
	l := audittest.Open(t, audittest.Options(dir))
	name := strings.Repeat("a", 129)
	for i, query := range []runtime.Args{{name + "1": value, name + "2": "other"}, {name + "1": "other", name + "2": value}} {
		r := audittest.Record(fmt.Sprint("req_", i))
		r.Query = query
		if err := l.Intent(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	audittest.Shut(t, l)
	sum, err := audittest.Hashes{}.Hash("default", value)
	if err != nil {
		t.Fatal(err)
	}
	found, err := history.SearchValue(t.Context(), dir, history.Value{Plain: value, Hash: sum}, history.Query{})
	if err != nil || len(found) != 2 {
		t.Errorf("%d records were found, %v", len(found), err)
	}
}

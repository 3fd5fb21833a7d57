package record_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
)

// A stored passphrase does not hide in a list or an object, with quotes in it neither.
func TestAPassphraseInAListIsMasked(t *testing.T) {
	for _, value := range []string{"correct horse battery staple", `a "horse" \ of battery`} {
		for name, held := range map[string]any{
			"list": []any{"x", value}, "object": map[string]any{"a": map[string]any{"b": value}},
			"name": map[string]any{value: true}, "encoded": []any{url.QueryEscape(value)},
			"behind masked ones": slices.Repeat([]any{value, value}, 300), "behind much": []any{strings.Repeat("x ", 900), value},
		} {
			r := audittest.Record("req_1")
			r.Action, r.Args = action(), runtime.Args{"page": held, "note": held}
			r.Action.AuditPlain = true
			line, m := written(t, holding(value), r)
			if hits, _ := m["masked"].([]any); strings.Contains(line, "horse") || strings.Contains(line, "attery") || len(hits) != 1 {
				t.Errorf("%s: recorded %s", name, line)
			}
			if line, _ := written(t, holding("Another-Value-1"), r); strings.Contains(line, "***") {
				t.Errorf("%s: masked what is not stored: %s", name, line)
			}
		}
	}
}

// Of a long plain argument only the beginning is there; its keyed hash is kept as well.
func TestAnArgumentThatIsCutCanBeAskedFor(t *testing.T) {
	for size, want := range map[int]string{2048: "[]", 2049: "[h9049]"} { // the hash is of tenant and value
		r := audittest.Record("req_1")
		r.Action, r.Args = action(), runtime.Args{"page": strings.Repeat("x ", size)[:size]}
		r.Principal.Tenant = "default"
		line, m := written(t, holding(), r)
		hits, _ := m["masked"].([]any)
		if fmt.Sprint(hits) != want {
			t.Errorf("%d bytes: masked %v, want %s: %.300s", size, hits, want, line)
		}
	}
}

// What is masked is shorter than it was: what stands behind the part that a record shows does not
// move up into it.
func TestNothingUnmaskedMovesUpBehindMasked(t *testing.T) {
	const word = "Unusual-Value-77"
	for name, page := range map[string]any{
		"words": strings.Repeat(word+" ", 300), "text": strings.Repeat("é "+word+" ", 300),
		"encoded": strings.Repeat("VW51c3VhbC1WYWx1ZS03Nw== ", 300), "list": []any{strings.Repeat(word+" ", 300)},
	} {
		r := audittest.Record("req_1")
		r.Action, r.Args = action(), runtime.Args{"page": page}
		line, _ := written(t, holding(word), r)
		if strings.Contains(line, "Unusual") || strings.Contains(line, "VW51c3") || !strings.Contains(line, " bytes)") {
			t.Errorf("%s: recorded %s", name, line)
		}
	}
}

// The length that is noted is that of the whole, once.
func TestTheLengthOfAMaskedTextIsNotedOnce(t *testing.T) {
	const word = "Unusual-Value-77"
	for _, text := range []string{word + strings.Repeat(" x", 2500), strings.Repeat("x ", 1020) + word + strings.Repeat(" y", 1472), strings.Repeat("é", 2500)} {
		r := audittest.Record("req_1")
		r.Action, r.Args = action(), runtime.Args{"page": text}
		line, _ := written(t, holding(word), r)
		if note := fmt.Sprintf("…(%d bytes)", len(text)); strings.Contains(line, "Unusual") || strings.Count(line, "bytes)") != 1 || !strings.Contains(line, note) {
			t.Errorf("of %d bytes: recorded %s", len(text), line)
		}
	}
}

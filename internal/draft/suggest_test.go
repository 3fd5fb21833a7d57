package draft_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/draft"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/services"
)

// The names of rules are shorter than those of agents may be, and hold fewer characters: of
// agents that are told apart by the rest, each has rules of its own.
func TestSuggestionsTellLongNamesApart(t *testing.T) {
	long := strings.Repeat("a", 40)
	agents := []string{long + "-one", long + "-two", "ü", "ö"}
	s, err := draft.Suggest(func(yield func(record.Entry, error) bool) {
		for _, agent := range agents {
			line := fmt.Sprintf(`{"kind":"intent","agent":%q,"action":"net.pass","host":"example.com","effect":"allow"}`, agent)
			if !yield(record.Entry{Kind: string(record.KindIntent), Line: []byte(line)}, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := services.NewSet(nil)
	if err == nil {
		_, err = policy.Compile(set, policy.File{Name: "suggested", Data: []byte(s.Policy)})
	}
	if err != nil || !strings.Contains(s.Policy, "name: "+long+"-2-does") {
		t.Errorf("%v\n%s", err, s.Policy)
	}
}

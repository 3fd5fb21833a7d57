package app_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

// A trail can be read and verified also where the database beside it is missing or damaged,
// which is when somebody wants to: the files of the trail are all that it takes.
func TestATrailIsReadWithoutItsDatabase(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(file string) error{
		"missing": os.Remove,
		"empty":   func(file string) error { return os.Truncate(file, 0) },
		"cut":     func(file string) error { return os.Truncate(file, 20_000) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, token := restored(t, func(*app.App, string) {})
			if err := damage(filepath.Join(k.Dir, "kimbap.db")); err != nil {
				t.Fatal(err)
			}
			a := unopened(t, k)
			defer func() { _ = a.Close() }()
			if err := a.OpenToRead(t.Context()); err != nil {
				t.Fatal(err)
			}
			if a.Indexless() == nil {
				t.Error("nobody can say that the database is not used")
			}
			if report, err := a.VerifyTrail(t.Context()); err != nil || !report.OK || len(report.Slots) == 0 {
				t.Errorf("verified: %+v, %v", report, err)
			}
			if list, err := a.SearchTrail(t.Context(), app.RecordQuery{Action: "token.create"}); err != nil || len(list) != 1 {
				t.Errorf("searched: %v, %v", list, err)
			}
			if _, err := a.NamedTokens(t.Context()); err == nil {
				t.Error("tokens are known without a database")
			}
			if _, err := a.SearchValue(t.Context(), app.RecordQuery{}, runtime.NewSecret(token)); err == nil {
				t.Error("a value is looked for without its key")
			}
		})
	}
}

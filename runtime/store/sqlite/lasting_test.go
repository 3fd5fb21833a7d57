package sqlite_test

import (
	"crypto/rand"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// What a lasting yes allowed can be shown: its end is a time to the nanosecond, which the
// store cuts, and is the same one all the same.
func TestWhatALastingYesAllowedCanBeShown(t *testing.T) {
	d, err := approval.New(approval.Options{
		Store: opened(t, filepath.Join(t.TempDir(), "kimbap.db"), true), Sealer: plainly{}, Process: func() string { return "me" },
		Clock: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 123_456_789, time.UTC) },
		NewID: func() string { return "apr_" + rand.Text() }, Alive: func(string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	me := runtime.Principal{ID: "token:tok_1", Kind: runtime.KindAgent, Tenant: runtime.DefaultTenant}
	person := runtime.Principal{ID: "local:1", Kind: runtime.KindOperator, Tenant: runtime.DefaultTenant}
	verdict := runtime.Verdict{Effect: runtime.EffectAsk, Rule: "uploads"}
	_, err = d.Await(t.Context(), upload(me, 1, 10), verdict)
	if _, err = d.Accept(t.Context(), person, me.Tenant, runtime.AsError(err).ApprovalID, approval.Yes{For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the one that was asked about, and the like of it
		ticket, err := d.Await(t.Context(), upload(me, 1, 10), verdict)
		if err == nil {
			err = d.Finish(t.Context(), ticket, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		v, err := d.Show(t.Context(), person, me.Tenant, ticket.ID, false)
		if err != nil || !strings.Contains(v.Text, "(executed)") {
			t.Errorf("%v\n%s", err, v.Text)
		}
	}
}

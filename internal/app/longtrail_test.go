package app_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
)

// Who looks at the newest records of a long trail over the API, or in the console, page by
// page, and who makes a tenant, does not wait for an index of all of them.
func TestAPageOfALongTrailWaitsForNoIndex(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c, token := newAPI(t, k), operatorOf(t, k)
	o := audittest.Options(filepath.Join(k.Dir, "audit"))
	o.Slot, o.Redact = "old", audittest.Hashes{}
	l := audittest.Open(t, o)
	const requests = 20_100
	for i := range requests {
		r := audittest.Mild(fmt.Sprintf("req_%05d", i))
		r.Principal = runtime.Principal{ID: "tok_1", Kind: runtime.KindAgent, Tenant: "default", Agent: "claude"}
		l.Outcome(r)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	audittest.Shut(t, l)
	query, last := "/v1/audit?agent=clau*&limit=3", requests
	for page, cursor := 0, ""; page < 4; page++ {
		items, next := c.ask(t, token, "GET", query+cursor, "").items(t)
		if len(items) != 3 || next == "" {
			t.Fatalf("page %d: %v, %q", page, items, next)
		}
		for _, item := range items {
			if last--; item["id"] != fmt.Sprintf("req_%05d", last) {
				t.Errorf("page %d: %v, want %d", page, item["id"], last)
			}
		}
		cursor = "&cursor=" + next
	}
	if err := k.Open(t, "").CreateTenant(t.Context(), acme, false); err != nil {
		t.Fatal(err)
	}
	indexed := func() (n int) {
		db, err := sql.Open("sqlite", filepath.Join(k.Dir, "kimbap.db")+"?mode=ro&_pragma=busy_timeout(5000)")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM entries").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := indexed(); n > 0 {
		t.Errorf("%d records were indexed", n)
	}
}

package app_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// What audit.retention says of records it says of the questions that were closed in their
// time, too: those go with them. One that is closed since stays.
func TestClosedApprovalsGoWithTheRecordsOfTheirTime(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	k := apptest.New(t, apptest.Options{
		Policy: askWrites, Config: "audit: {retention: 1h}\n",
		Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	person := k.Open(t, "")
	rejected := func(body string) string {
		t.Helper()
		id := k.Do(t, write, body).Problem.Approval
		if _, err := person.Reject(t.Context(), id, "no"); err != nil {
			t.Fatal(err)
		}
		return id
	}
	sign := func(a *app.App) {
		t.Helper()
		if _, err := a.AnchorTrail(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	there := func() (ids []string) {
		t.Helper()
		list, err := person.ListApprovals(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list {
			ids = append(ids, one.ID)
		}
		return ids
	}
	old := rejected(`{"text":"old"}`)
	sign(k.App)
	if got := there(); !slices.Equal(got, []string{old}) {
		t.Fatalf("there are %v, want %s", got, old)
	}
	ahead.Store(int64(10 * time.Hour)) // past the question's own end, eight hours, and the retention
	late := rejected(`{"text":"late"}`)
	sign(k.App)
	if got := there(); !slices.Equal(got, []string{late}) {
		t.Errorf("there are %v, want %s and not %s", got, late, old)
	}
	k.Verify(t)
}

package app_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// recorder is a webhook that can be out of order.
type recorder struct {
	*httptest.Server

	mu  sync.Mutex
	out bool
	got map[string]string // by slot
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{got: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil || r.out {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.got[req.Header.Get("Kimbap-Audit-Slot")] += string(body)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) set(out bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out = out
}

func (r *recorder) lines(slot string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[slot]
}

// Who can make a required sink fail keeps nobody from taking a right away. The ledger has the
// record before it is done, the command ends well, and the sink gets it when it is back; what
// gives a right is refused meanwhile.
func TestASinkThatFailsHindersNothingThatTakesARightAway(t *testing.T) {
	t.Parallel()
	place := newRecorder(t)
	const more = "name: %s\nversion: 1.0.0\ndescription: More\nbase_url: https://%[1]s.test\nauth: {type: none}\nactions:\n  get: {description: Get, method: GET, path: /x, risk: {level: low}}\n"
	k := apptest.New(t, apptest.Options{
		Policy: askWrites, Services: []string{apptest.Notes, fmt.Sprintf(more, "one"), fmt.Sprintf(more, "two")},
		Config: "audit: {sinks: [{type: webhook, url: \"" + place.URL + "\", mode: required}]}\n",
	})
	ctx, owner := t.Context(), k.Open(t, "")
	var tokens [2]string
	for i := range tokens {
		_, info, err := owner.CreateToken(ctx, app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		tokens[i] = info.ID
	}
	for _, name := range []string{"x", "y"} {
		if _, _, err := owner.SetSecret(ctx, name, runtime.NewSecret("value-1"), app.SecretOptions{Hosts: []string{"x.test:443"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := owner.CreateTenant(ctx, "acme", false); err != nil {
		t.Fatal(err)
	}
	k.Do(t, write, `{"text":"one"}`)
	asked := waiting(t, owner)
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}

	place.set(true)
	had := place.lines(app.SlotCLI)
	for _, act := range []struct {
		kind string
		do   func(ctx context.Context, a *app.App) (bool, error)
	}{
		{"token.revoke", func(ctx context.Context, a *app.App) (bool, error) { return a.RevokeToken(ctx, tokens[0]) }},
		{"token.revoke_all", func(ctx context.Context, a *app.App) (bool, error) {
			ids, err := a.RevokeTokens(ctx)
			return len(ids) == 1, err
		}},
		{"vault.remove", func(ctx context.Context, a *app.App) (bool, error) { return a.RemoveSecret(ctx, "x") }},
		{"service.disable", func(ctx context.Context, a *app.App) (bool, error) { return true, a.DisableService(ctx, "one") }},
		{"service.remove", func(ctx context.Context, a *app.App) (bool, error) { return true, a.RemoveService(ctx, "two") }},
		{"approval.reject", func(ctx context.Context, a *app.App) (bool, error) {
			p, err := a.Reject(ctx, asked, "no")
			return p.State == "rejected", err
		}},
		{"tenant.removed", func(ctx context.Context, a *app.App) (bool, error) {
			_, done, err := a.RemoveTenant(ctx, "acme", true, func(app.RemovedTenant) (bool, error) { return true, nil })
			return done, err
		}},
	} {
		a := k.Open(t, "")
		if done, err := act.do(ctx, a); err != nil || !done {
			t.Errorf("%s: %t, %v", act.kind, done, err)
		}
		if !strings.Contains(ledger(t, k), `"event":"`+act.kind+`"`) {
			t.Errorf("the ledger lacks %s", act.kind)
		}
		if _, _, err := a.SetSecret(ctx, "z", runtime.NewSecret("value-1"), app.SecretOptions{Hosts: []string{"x.test:443"}}); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
			t.Errorf("beside %s a key was stored: %v", act.kind, err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("%s: its end: %v", act.kind, err)
		}
	}
	if !strings.Contains(k.Log.String(), "audit sink webhook:") {
		t.Error("nobody was told that the sink lacks it")
	}
	if place.lines(app.SlotCLI) != had {
		t.Fatal("the sink was not out of order")
	}

	place.set(false)
	if err := closing(t, k.Open(t, ""), func(a *app.App) error {
		_, _, err := a.CreateToken(ctx, app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, r := range k.Records(t) {
		if r.Slot == app.SlotCLI {
			all.WriteString(r.Line + "\n")
		}
	}
	if got := place.lines(app.SlotCLI); !strings.HasSuffix(all.String(), got) || !strings.HasPrefix(got, had) {
		t.Errorf("the sink has\n%s\nof\n%s", got, all.String())
	}
	k.Verify(t)
}

// closing does something with an App and closes it.
func closing(t *testing.T, a *app.App, do func(*app.App) error) error {
	t.Helper()
	err := do(a)
	if cerr := a.Close(); err == nil {
		err = cerr
	}
	return err
}

// A secret that could not be removed is not one that was, in the trail either.
func TestARemovalThatFailedIsRecordedSo(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	owner := k.Open(t, "")
	db, err := sql.Open("sqlite", filepath.Join(k.Dir, "kimbap.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "ALTER TABLE secrets RENAME TO away"); err != nil {
		t.Fatal(err)
	}
	if _, err := owner.RemoveSecret(t.Context(), apptest.Secret); err == nil {
		t.Fatal("it was removed")
	}
	var results []string
	for _, r := range k.Records(t) {
		if r.Event == "vault.remove" {
			results = append(results, r.Fields["result"])
		}
	}
	if len(results) != 2 || results[0] != "" || results[1] == "" {
		t.Errorf("recorded with the results %q", results)
	}
}

package app_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

const acme runtime.Tenant = "acme"

const (
	keyOf   = "sk-live-of-acme-33c1d0"
	asksAll = "version: 1\nrules: [{name: ask, match: {action: notes.create-note}, then: require_approval}]\n"
)

func agrees(app.RemovedTenant) (bool, error) { return true, nil }

// acmes makes tenant acme with a key of its own, and a token that works.
func acmes(t *testing.T, k *apptest.Kimbap) (token string) {
	t.Helper()
	owner := k.Open(t, "")
	if err := owner.CreateTenant(t.Context(), acme, false); err != nil {
		t.Fatal(err)
	}
	k.Write(t, "tenants/acme/policy.yaml", asksAll)
	theirs := k.OpenAs(t, acme)
	if _, _, err := theirs.SetSecret(t.Context(), apptest.Secret, runtime.NewSecret(keyOf), app.SecretOptions{}); err != nil {
		t.Fatal(err)
	}
	secret, _, err := theirs.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "the proxy knows the tenant", func() bool {
		return apptest.Send(t, k.Client(t, secret.Reveal()), "GET https://api.notes.test/notes/1", "").Status == 200
	})
	return secret.Reveal()
}

// A tenant that is removed has nothing any more, at once and everywhere: its
// tunnels end, what flows in them too, its token is unknown, its key is gone from
// the disk. Its records stay, verify, and are nobody's who comes after it.
func TestARemovedTenantIsGone(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	token := acmes(t, k)
	shown := "Proxy-Authorization: Bearer " + token
	resting, flowing := k.Tunnel(t, apptest.Authority, shown), k.Tunnel(t, apptest.Authority, shown)
	if a := resting.Ask(getNote); a.Status != 200 || k.Up.Last(t).Header.Get("Authorization") != "Bearer "+keyOf {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	asked := apptest.Send(t, k.Client(t, token), "POST https://api.notes.test/notes", `{"text":"rice"}`)
	if asked.Problem.Approval == "" {
		t.Fatalf("%+v", asked)
	}
	if _, err := flowing.Write([]byte("GET /stall HTTP/1.1\r\nHost: " + apptest.Host + "\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := flowing.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	wrapped := wrappedKey(t, k)

	owner := k.Open(t, "")
	_, removed, err := owner.RemoveTenant(t.Context(), acme, false, agrees)
	if e := runtime.AsError(err); removed || err == nil || e.Code != runtime.CodeInvalidInput || !strings.Contains(e.Msg, "valid tokens: 1, approvals that wait: 1") {
		t.Fatalf("unforced: %v %v", removed, err)
	}
	if a := resting.Ask(getNote); a.Status != 200 {
		t.Fatalf("after a refusal: %d %+v", a.Status, a.Problem)
	}
	gone, removed, err := owner.RemoveTenant(t.Context(), acme, true, agrees)
	if err != nil || !removed || gone.Secrets != 1 || len(gone.Tokens) != 1 || len(gone.Approvals) != 1 {
		t.Fatalf("%+v %v %v", gone, removed, err)
	}
	before := len(k.Up.Requests())
	for name, w := range map[string]*apptest.Wire{"resting": resting, "flowing": flowing} {
		_ = w.SetReadDeadline(time.Now().Add(soon))
		rest := make([]byte, 64)
		n, err := w.Read(rest)
		for err == nil {
			n, err = w.Read(rest)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the %s tunnel is open after %q", name, rest[:n])
		}
	}
	if _, a := k.Connect(t, apptest.Authority, shown); a.Status != 407 || a.Problem.Reason != "token_unknown" || len(k.Up.Requests()) != before {
		t.Errorf("its token: %d %+v", a.Status, a.Problem)
	}
	for name, data := range database(t, k) {
		if bytes.Contains(data, wrapped) {
			t.Errorf("%s holds the tenant's key still", name)
		}
	}
	if _, err := os.Stat(filepath.Join(gone.Folder, "policy.yaml")); err != nil || strings.Contains(filepath.Base(gone.Folder), "..") {
		t.Errorf("its rules: %v", err)
	}
	anewSeesNothing(t, k)
	k.Verify(t)
}

// anewSeesNothing makes the tenant again.
func anewSeesNothing(t *testing.T, k *apptest.Kimbap) {
	t.Helper()
	all := func(a *app.App, tenant runtime.Tenant) int {
		found, err := a.SearchTrail(t.Context(), app.RecordQuery{Tenant: tenant, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range found {
			if r.Tenant == acme && r.Action != "tenant.create" {
				n++
			}
		}
		return n
	}
	owner := k.Open(t, "")
	old := all(owner, app.AllTenants)
	if old < 4 {
		t.Errorf("the trail has %d records of it", old)
	}
	if err := owner.CreateTenant(t.Context(), acme, false); err != nil {
		t.Fatal(err)
	}
	anew := k.OpenAs(t, acme)
	if n := all(anew, ""); n != 0 {
		t.Errorf("it sees %d records", n)
	}
	for r, err := range anew.ReadTrail(t.Context(), app.RecordQuery{}) {
		if err != nil || r.Action != "tenant.create" {
			t.Errorf("it reads %s %v", r.Line, err)
		}
	}
	secrets, err1 := anew.Secrets(t.Context())
	tokens, err2 := anew.ListTokens(t.Context())
	approvals, err3 := anew.ListApprovals(t.Context(), true)
	if err := errors.Join(err1, err2, err3); err != nil || len(secrets)+len(tokens)+len(approvals) != 0 {
		t.Errorf("it has %d secrets, %d tokens, %d approvals; %v", len(secrets), len(tokens), len(approvals), err)
	}
}

// wrappedKey is the key of tenant acme as the database has it.
func wrappedKey(t *testing.T, k *apptest.Kimbap) (key []byte) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(k.Dir, "kimbap.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), "SELECT wrapped FROM tenant_keys WHERE tenant = 'acme'").Scan(&key); err != nil || len(key) < 32 {
		t.Fatal(len(key), err)
	}
	return key
}

// database is what the files of the database hold.
func database(t *testing.T, k *apptest.Kimbap) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	names, err := filepath.Glob(filepath.Join(k.Dir, "kimbap.db*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(name)] = data
	}
	return out
}

// The trail of a removed tenant says who did it, before and after; the default
// tenant and one that is not there cannot be removed; whoever says no has kept it.
func TestRemovalIsAskedAndRecorded(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	acmes(t, k)
	owner := k.Open(t, "")
	for name, reason := range map[runtime.Tenant]runtime.Reason{runtime.DefaultTenant: "", "acne": runtime.ReasonNotFound} {
		_, removed, err := owner.RemoveTenant(t.Context(), name, true, agrees)
		if e := runtime.AsError(err); err == nil || removed || e.Code != runtime.CodeInvalidInput || e.Reason != reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	mark := k.Mark(t)
	_, removed, err := owner.RemoveTenant(t.Context(), acme, true, func(app.RemovedTenant) (bool, error) { return false, nil })
	if err != nil || removed {
		t.Fatal(removed, err)
	}
	k.OpenAs(t, acme)
	if _, _, err := owner.RemoveTenant(t.Context(), acme, true, agrees); err != nil {
		t.Fatal(err)
	}
	var events []string
	for _, r := range k.Records(t) {
		if r.Seq > mark[r.Slot] && strings.HasPrefix(r.Event, "tenant.") {
			events = append(events, r.Event+" "+r.Fields["name"]+" "+r.Fields["credentials"]+" "+r.Principal[:6])
		}
	}
	if want := "tenant.remove acme  local:, tenant.removed acme 1 local:"; strings.Join(events, ", ") != want {
		t.Errorf("recorded: %s", strings.Join(events, ", "))
	}
}

// A tenant that comes into use while somebody is asked is not removed, and keeps its sign-ins.
func TestARemovalThatIsRefusedGivesNoGrantBack(t *testing.T) {
	t.Parallel()
	p := &provider{}
	k := apptest.New(t, apptest.Options{
		Services: []string{apptest.Notes, mailService}, Resolve: []string{"mail.notes.test:443", "login.notes.test:443"},
		Upstream: servicestest.Options{Routes: p.routes()},
	})
	owner := k.Open(t, "")
	if err := owner.CreateTenant(t.Context(), acme, false); err != nil {
		t.Fatal(err)
	}
	theirs := k.OpenAs(t, acme)
	signIn(t, theirs, public, false)
	given := func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.revoked
	}
	_, removed, err := owner.RemoveTenant(t.Context(), acme, false, func(app.RemovedTenant) (bool, error) {
		_, _, err := theirs.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
		return true, err
	})
	if e := runtime.AsError(err); removed || err == nil || !strings.Contains(e.Msg, "valid tokens: 1") || given() != "" {
		t.Errorf("removed: %t, %v, given back: %q", removed, err, given())
	}
	if _, removed, err := owner.RemoveTenant(t.Context(), acme, true, agrees); err != nil || !removed || given() != p.refresh(1) {
		t.Errorf("forced: %t, %v, given back: %q", removed, err, given())
	}
}

// What a folder that somebody deleted has left does not become a new tenant's.
func TestWhatIsLeftIsNotInherited(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	acmes(t, k)
	if err := os.RemoveAll(filepath.Join(k.Dir, "tenants", "acme")); err != nil {
		t.Fatal(err)
	}
	owner := k.Open(t, "")
	if err := owner.CreateTenant(t.Context(), acme, false); err == nil || !strings.Contains(err.Error(), "an earlier tenant acme") {
		t.Fatalf("made over what was left: %v", err)
	}
	if _, removed, err := owner.RemoveTenant(t.Context(), acme, true, agrees); err != nil || !removed {
		t.Fatal(removed, err)
	}
	anewSeesNothing(t, k)
}

// A clock that was set back shows a new tenant nothing of the old one either, and
// how an old request ended is not told to it.
func TestANewTenantIsBornAfterTheOldOne(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	q := history.Query{Tenant: acme, Born: now}
	for _, c := range []struct {
		at    time.Duration
		began time.Duration
		shown bool
	}{{-time.Second, -time.Second, false}, {time.Second, -time.Millisecond, false}, {0, 0, true}, {time.Second, time.Millisecond, true}} {
		e := record.Entry{Tenant: acme, Time: now.Add(c.at), RequestID: runtime.NewID("req", now.Add(c.began))}
		if q.Matches(&e) != c.shown {
			t.Errorf("%+v", c)
		}
	}
	dir := filepath.Join(t.TempDir(), "home")
	clock := now
	open := func(tenant runtime.Tenant) *app.App {
		o := apptest.OptionsOver(dir, "", &apptest.Buffer{}, true)
		o.Tenant, o.Clock = tenant, func() time.Time { return clock }
		return apptest.OpenWith(t, o)
	}
	owner := open("")
	if err := owner.CreateTenant(t.Context(), acme, false); err != nil {
		t.Fatal(err)
	}
	if err := open(acme).Trail().Event(t.Context(), record.Event{Kind: "test.old", Tenant: acme}); err != nil {
		t.Fatal(err)
	}
	seen := func() (lines []string) {
		found, err := open(acme).SearchTrail(t.Context(), app.RecordQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range found {
			if r.Action == "test.old" {
				lines = append(lines, string(r.Line))
			}
		}
		return lines
	}
	if lines := seen(); len(lines) != 1 {
		t.Fatalf("before the removal it sees %q", lines)
	}
	if _, _, err := owner.RemoveTenant(t.Context(), acme, true, agrees); err != nil {
		t.Fatal(err)
	}
	clock = now.Add(-24 * time.Hour)
	if err := owner.CreateTenant(t.Context(), acme, false); err != nil {
		t.Fatal(err)
	}
	if lines := seen(); len(lines) != 0 {
		t.Errorf("it sees %q", lines)
	}
}

package app_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

const health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

// wrongKey is a master key that belongs to no home.
const wrongKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"

// A proxy that starts without the master key of a used vault refuses the hosts
// of services before the 200 and lets the others pass; both are recorded.
func TestStartedLocked(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Locked: true, Resolve: []string{otherHost}})
	for name, send := range map[string]func() apptest.Answer{
		"CONNECT": func() apptest.Answer { _, a := k.Connect(t, apptest.Authority); return a },
		"plain": func() apptest.Answer {
			return k.Dial(t).Ask("GET http://" + apptest.Host + "/notes/1?q=canary-query HTTP/1.1\r\nHost: " + apptest.Host + "\r\n\r\n")
		},
	} {
		mark := k.Mark(t)
		a := send()
		if a.Status != http.StatusServiceUnavailable || a.Problem.Code != "vault_locked" || a.Problem.Reason != "no_master_key" || !strings.Contains(a.Body, `"hint":`) {
			t.Errorf("%s: %d %+v", name, a.Status, a.Problem)
		}
		if strings.Contains(a.Body, k.Dir) {
			t.Errorf("%s: an agent is told where the home is: %s", name, a.Body)
		}
		wantRecords(t, k, mark, "refusal - - error vault_locked/no_master_key")
	}
	if n := len(k.Up.Requests()); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
	mark := k.Mark(t)
	a := k.Tunnel(t, otherHost).Ask("GET /notes/1 HTTP/1.1\r\nHost: other.test\r\nAuthorization: Bearer own\r\n\r\n")
	if seen := k.Up.Requests(); a.Status != http.StatusOK || len(seen) != 1 {
		t.Errorf("another host: %d %+v, %d requests", a.Status, a.Problem, len(seen))
	}
	k.Await(t, mark, 1)
	if a := k.Dial(t).Ask(health); a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "vault_locked") || strings.Contains(a.Body, k.Dir) {
		t.Errorf("health: %d %q", a.Status, a.Body)
	}
	said, err := k.App.Status(t.Context())
	if err != nil || !strings.HasPrefix(said.Vault, "locked: ") || !strings.Contains(said.Vault, k.Dir) || said.VaultFix == "" || said.Proxies[0].Locked == "" {
		t.Errorf("status %+v, %v", said, err)
	}
	if trail := ledger(t, k); strings.Contains(trail, "canary-query") || !strings.Contains(trail, `"vault":"locked"`) {
		t.Error("the trail holds a query value, or not that the start was locked")
	}
	k.Verify(t)
}

// ledger is all that the trail says, as it stands in its files.
func ledger(t *testing.T, k *apptest.Kimbap) string {
	t.Helper()
	var all strings.Builder
	for _, r := range k.Records(t) {
		all.WriteString(r.Line + "\n")
	}
	return all.String()
}

// What the trail would hash it leaves out while the vault is locked, says so,
// and shows nothing of it; and no stored key is used, whatever the surface.
func TestLockedTrailShowsNoValue(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Locked: true})
	call := func() error {
		return k.App.Pipeline().Do(t.Context(), &runtime.Request{
			Surface: runtime.SurfaceCall, Caller: k.App.Local(), Action: "notes.create-note", Unattended: true,
			Args: runtime.Args{"text": "canary-argument"},
		}, &app.Answer{})
	}
	mark := k.Mark(t)
	if e := runtime.AsError(call()); e.Code != runtime.CodeVaultLocked || e.Reason != runtime.ReasonNoMasterKey || e.Hint == "" {
		t.Errorf("%+v", e)
	}
	if n := len(k.Up.Requests()); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
	for _, r := range k.Await(t, mark, 2) {
		if strings.Contains(r.Line, "canary") || strings.Contains(r.Line, `"hash"`) || r.Kind == "intent" && !strings.Contains(r.Line, `{"omitted":"locked","size":15}`) {
			t.Errorf("recorded %s", r.Line)
		}
	}
	k.PutKeyBack(t)
	apptest.Within(t, soon, "the call", func() bool { return call() == nil })
	if err := call(); err != nil { // the key may have come between the intent of the other and its credential
		t.Error(err)
	}
	if trail := ledger(t, k); strings.Contains(trail, "canary-argument") || !strings.Contains(trail, `"hash"`) {
		t.Error("an argument is not hashed again")
	}
}

// The key is taken up within a second of its return, without a restart, and
// only the right one is.
func TestTheReturnOfTheKeyUnlocks(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Locked: true})
	reason := func() runtime.Reason {
		_, a := k.Connect(t, apptest.Authority)
		return runtime.Reason(a.Problem.Reason)
	}
	k.Write(t, "master.key", wrongKey)
	apptest.Within(t, soon, "the refusal of a wrong key", func() bool { return reason() == runtime.ReasonWrongMasterKey })
	apptest.Within(t, soon, "the state to say so", func() bool { return strings.Contains(k.App.Proxies()[0].Locked, "not the one") })
	k.PutKeyBack(t)
	apptest.Within(t, soon, "the open vault", func() bool { return reason() == "" })
	if a := k.Tunnel(t, apptest.Authority).Ask(getNote); a.Status != http.StatusOK {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	seen := k.Up.Requests()
	if len(seen) != 1 || seen[0].Header.Get("Authorization") != "Bearer "+apptest.Key {
		t.Errorf("the upstream saw %+v", seen)
	}
	if a := k.Dial(t).Ask(health); a.Status != http.StatusOK {
		t.Errorf("health: %d %q", a.Status, a.Body)
	}
	if trail := ledger(t, k); strings.Count(trail, `"event":"vault.unlock"`) != 1 {
		t.Error("the unlocking is not in the trail")
	}
	if said := strings.Count(k.Log.String(), "the vault stays locked"); said != 1 {
		t.Errorf("the wrong key was said %d times", said)
	}
}

// Only what serves may start locked, and only for a key that is missing.
func TestOnlyAMissingKeyStartsLocked(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Locked: true})
	open := func(may bool) error {
		o := apptest.OptionsOver(k.Dir, "", k.Log, false)
		o.StartLocked = may
		a, err := app.New(o)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		defer a.Close()
		return a.Open(ctx)
	}
	for _, c := range []struct {
		key    string
		may    bool
		reason runtime.Reason // of the refusal; "ok": it opens
	}{
		{"", true, "ok"}, {"", false, runtime.ReasonNoMasterKey},
		{wrongKey, true, runtime.ReasonWrongMasterKey}, {wrongKey, false, runtime.ReasonWrongMasterKey},
		{"not a key", true, ""},
	} {
		if c.key != "" {
			k.Write(t, "master.key", c.key)
		}
		err := open(c.may)
		if e := runtime.AsError(err); c.reason == "ok" && err != nil || c.reason != "ok" && (e == nil || e.Code != runtime.CodeVaultLocked || e.Reason != c.reason) {
			t.Errorf("key %.5q, may %v: %v", c.key, c.may, err)
		}
	}
}

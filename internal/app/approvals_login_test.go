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

// notesOf is the service for notes with more said of its key.
func notesOf(auth string) []string {
	return []string{strings.Replace(apptest.Notes, "credential_ref: notes.token}", "credential_ref: notes.token, "+auth+"}", 1)}
}

// sendAs sends a request that needs a person, with a field for its login unless that is empty.
func sendAs(t *testing.T, k *apptest.Kimbap, line, login string) apptest.Answer {
	t.Helper()
	c := k.Client(t, "")
	c.Transport = withLogin{c.Transport, login}
	return apptest.Send(t, c, line, `{"text":"one"}`)
}

// withLogin adds an Authorization to each request.
type withLogin struct {
	http.RoundTripper
	login string
}

func (l withLogin) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if l.login != "" {
		r.Header.Set("Authorization", l.login)
	}
	return l.RoundTripper.RoundTrip(r)
}

// A service that wants its placeholder has it in a request that is collected, too: the yes is
// used, and not lost to a refusal.
func TestACollectedRequestHasItsPlaceholder(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites, Services: notesOf("caller: placeholder")})
	person := k.Open(t, "")
	id := sendAs(t, k, write, "Bearer "+apptest.Fake).Problem.Approval
	if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Open(t, "other").WaitApproval(t.Context(), id, &app.Answer{}, nil); err != nil {
		t.Fatal(err)
	}
	if got := k.Up.Last(t).Header.Get("Authorization"); got != "Bearer "+apptest.Key {
		t.Errorf("sent with %q", got)
	}
}

// A yes for a request with the caller's own login is used by the same request with that login,
// and by nothing that would go out with the stored key or another login.
func TestAYesForAnOwnLoginIsUsedWithThatLogin(t *testing.T) {
	t.Parallel()
	for _, auth := range []string{"caller: keep", `keep_if: "own-*"`} {
		k := apptest.New(t, apptest.Options{Policy: askWrites, Services: notesOf(auth)})
		person := k.Open(t, "")
		const login = "Bearer own-key-12345678"
		id := sendAs(t, k, write, login).Problem.Approval
		_, text, err := person.ShowApproval(t.Context(), id, true)
		if err != nil || !strings.Contains(text, "login      the requester's own, not the stored key") || strings.Contains(text, "own-key") {
			t.Errorf("%s: shown as %q %v", auth, text, err)
		}
		waiting, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, _, err = k.Open(t, "early").WaitApproval(waiting, id, &app.Answer{}, nil)
		if cancel(); !strings.Contains(runtime.AsError(err).Hint, "send the same request again") {
			t.Errorf("%s: a person is waited for in vain: %v", auth, err)
		}
		if got, err := person.Accept(t.Context(), id, app.Yes{}); err != nil || !got.Own {
			t.Fatalf("%+v %v", got, err)
		}
		_, _, err = k.Open(t, "other").WaitApproval(t.Context(), id, &app.Answer{}, nil)
		if e := runtime.AsError(err); err == nil || !strings.Contains(e.Msg, "login") || !strings.Contains(e.Hint, "send the same request again") {
			t.Errorf("%s: collected: %v", auth, err)
		}
		for _, other := range []string{"", "Bearer " + apptest.Fake, "Bearer own-key-87654321"} {
			if a := sendAs(t, k, write, other); a.Problem.Code != "approval_pending" || a.Problem.Approval == id {
				t.Errorf("%s: with %q: %d %+v", auth, other, a.Status, a.Problem)
			}
		}
		if n := len(k.Up.Requests()); n != 0 {
			t.Fatalf("%s: %d requests left before their time", auth, n)
		}
		if a := sendAs(t, k, write, login); a.Status != 200 {
			t.Errorf("%s: %d %+v", auth, a.Status, a.Problem)
		}
		if got := k.Up.Last(t).Header.Get("Authorization"); got != login {
			t.Errorf("%s: sent with %q", auth, got)
		}
	}
}

// A request to a host of no service is collected as any other; one with a login of its own, and a
// connection, only by whoever made it.
func TestARequestToAHostOfNoServiceIsCollected(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{
		Policy: "version: 1\ndefaults: {unmatched: require_approval, critical: require_approval}\n",
		Config: "proxy: {intercept: all}\n", Resolve: []string{"else.test:443", "else.test:22"},
	})
	person, other := k.Open(t, ""), k.Open(t, "other")
	accepted := func(a apptest.Answer) string {
		t.Helper()
		if a.Problem.Code != "approval_pending" {
			t.Fatalf("%d %+v", a.Status, a.Problem)
		}
		if _, err := person.Accept(t.Context(), a.Problem.Approval, app.Yes{}); err != nil {
			t.Fatal(err)
		}
		return a.Problem.Approval
	}
	const line = "POST https://else.test/notes"
	own := accepted(sendAs(t, k, line, "Bearer own"))
	plain := accepted(sendAs(t, k, line+"?plain", ""))
	_, raw := k.Connect(t, "else.test:22")
	tunnel := accepted(raw)
	answer := &app.Answer{}
	action, _, err := other.WaitApproval(t.Context(), plain, answer, nil)
	if err != nil || action.Ref != runtime.ActionPass || answer.Status != 200 {
		t.Fatalf("%+v %d %v", action, answer.Status, err)
	}
	for id, word := range map[string]string{own: "login", tunnel: "connection"} {
		_, _, err := other.WaitApproval(t.Context(), id, &app.Answer{}, nil)
		if e := runtime.AsError(err); err == nil || !strings.Contains(e.Msg, word) || !strings.Contains(e.Hint, "again") {
			t.Errorf("%s: %v", word, err)
		}
	}
	if n := len(k.Up.Requests()); n != 1 {
		t.Fatalf("%d requests", n)
	}
	if a := sendAs(t, k, line, "Bearer own"); a.Status != 200 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	if got := k.Up.Last(t).Header.Get("Authorization"); got != "Bearer own" {
		t.Errorf("sent with %q", got)
	}
}

// Where no key is stored, the caller's login goes out: nothing is sent without it by the yes.
func TestAYesForALoginThatNoKeyReplaces(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites, Unlinked: true})
	const login = "Bearer own-key-12345678"
	id := sendAs(t, k, write, login).Problem.Approval
	if _, err := k.Open(t, "").Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	_, _, err := k.Open(t, "other").WaitApproval(t.Context(), id, &app.Answer{}, nil)
	if e := runtime.AsError(err); err == nil || !strings.Contains(e.Hint, "send the same request again") {
		t.Errorf("collected: %v", err)
	}
	if a := sendAs(t, k, write, login); a.Status >= 300 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	} else if got := k.Up.Last(t).Header.Get("Authorization"); got != login {
		t.Errorf("sent with %q", got)
	}
}

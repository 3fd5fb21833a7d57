package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// The cases of credentials that are more than one text and one answer.

// CL-003, CL-006: kimbap gives a redirect back and does not follow it. A program
// that follows it has each step judged anew: the foreign host gets no
// credential, and the way back gets one only as far as policy goes.
func TestRedirectsAreTheProgramsToFollow(t *testing.T) {
	t.Parallel()
	jump := func(to string) servicestest.Behave {
		return func(c *servicestest.Conn, r *servicestest.Request) bool {
			return c.ReadBody(r) == nil && c.Send("HTTP/1.1 302 Found\r\nLocation: "+to+"\r\nContent-Length: 0\r\n\r\n")
		}
	}
	k := apptest.New(t, apptest.Options{
		Resolve: []string{"evil.test:443"},
		Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
			"/out": jump("https://evil.test/there"), "/there": jump("https://" + apptest.Host + "/notes/7"),
			"/bad": jump("https://evil.test/keys"), "/keys": jump("https://" + apptest.Host + "/a/b/c"),
		}},
	})
	a := k.Do(t, "GET https://"+apptest.Host+"/out", "")
	if a.Status != 302 || a.Header.Get("Location") != "https://evil.test/there" || len(k.Up.Requests()) != 1 {
		t.Fatalf("%d %v, %d requests", a.Status, a.Header, len(k.Up.Requests()))
	}
	client := k.Client(t, "")
	client.CheckRedirect = nil // as programs do
	if a := apptest.Send(t, client, "GET https://"+apptest.Host+"/out", ""); a.Status != 200 {
		t.Errorf("followed: %d %+v", a.Status, a.Problem)
	}
	var got []string
	for _, r := range k.Up.Requests()[1:] {
		got = append(got, r.Header.Get("Host")+r.Target+" "+r.Header.Get("Authorization"))
	}
	const key = " Bearer " + apptest.Key
	if want := []string{apptest.Host + "/out" + key, "evil.test/there ", apptest.Host + "/notes/7" + key}; !slices.Equal(got, want) {
		t.Errorf("steps\n  %s", strings.Join(got, "\n  "))
	}
	before := len(k.Up.Requests())
	if a := apptest.Send(t, client, "GET https://"+apptest.Host+"/bad", ""); a.Status != 403 || a.Problem.Reason != "unmatched" {
		t.Errorf("the way back to what is not covered: %d %+v", a.Status, a.Problem)
	}
	if n := len(k.Up.Requests()) - before; n != 2 {
		t.Errorf("%d steps", n)
	}
}

// CL-004, SS-014: nor does a call that kimbap makes itself, wherever it would lead.
func TestACallFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{
		Resolve: []string{"evil.test:443", "api.notes.test.evil.test:443", "api.notes.test:8443", "api.notes.test:80"},
		Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{"/away": func(c *servicestest.Conn, r *servicestest.Request) bool {
			to := strings.TrimPrefix(r.Header.Get("X-To"), "to ")
			return c.Send("HTTP/1.1 302 Found\r\nLocation: " + to + "\r\nContent-Length: 0\r\n\r\n")
		}}},
		Services: []string{strings.Replace(apptest.Notes, "args: [{name: how, type: string, required: true}]}",
			"args: [{name: how, type: string, required: true}, {name: to, type: string}], request: {headers: {X-To: \"to {to}\"}}}", 1)},
	})
	for n, to := range []string{"https://evil.test/", "https://api.notes.test.evil.test/", "https://api.notes.test:8443/", "http://api.notes.test/", "http://169.254.169.254/latest/meta-data/"} {
		var answer app.Answer
		err := k.App.Pipeline().Do(t.Context(), &runtime.Request{
			Surface: runtime.SurfaceCall, Caller: k.App.Local(), Action: "notes.read-as", Args: runtime.Args{"how": "away", "to": to},
		}, &answer)
		if err != nil || answer.Status != 302 || answer.Header.Get("Location") != to {
			t.Errorf("%s: %d %v, %v", to, answer.Status, answer.Header, err)
		}
		if seen := len(k.Up.Requests()); seen != n+1 {
			t.Errorf("%s: %d requests in all", to, seen)
		}
	}
}

// CL-011: an upstream's error that quotes the credential is told without it, to
// the caller, in the words made of it, in the log and in the trail.
func TestErrorsOfACallHoldNoSecret(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
		"/refuses": func(c *servicestest.Conn, r *servicestest.Request) bool {
			text := `{"error":"token ` + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + ` is not valid"}`
			return c.Send("HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\n\r\n"+text) && false
		},
	}}})
	var answer app.Answer
	action, _ := k.App.Services().Action("notes.read-as")
	args := runtime.Args{"how": "refuses"}
	err := k.App.Pipeline().Do(t.Context(), &runtime.Request{Surface: runtime.SurfaceCall, Caller: k.App.Local(), Action: action.Ref, Args: args}, &answer)
	if err != nil || answer.Status != 401 || !strings.Contains(string(answer.Body), "is not valid") {
		t.Fatalf("%d %q, %v", answer.Status, answer.Body, err)
	}
	told, _ := json.Marshal(runtime.AsError(k.App.UpstreamError(action, args, &answer)))
	a := k.Do(t, "GET https://"+apptest.Host+"/refuses", "")
	places := map[string]string{
		"the answer": string(answer.Body), "the error": string(told), "the proxied answer": a.Body, "the log": k.Log.String(),
	}
	for _, r := range k.Await(t, nil, 4) {
		places["the trail"] += r.Line
		if r.Kind == "outcome" && r.Scrubbed == 0 {
			t.Errorf("the record does not say so: %s", r.Line)
		}
	}
	for place, text := range places {
		if form, found := leaked(text, apptest.Key); found {
			t.Errorf("the credential is in %s as %s", place, form)
		}
	}
}

// CL-018: what is refused, asked for later, or passed on without a credential
// does not touch the vault.
func TestVaultIsNotReadForWhatIsRefused(t *testing.T) {
	t.Parallel()
	w := newCaseWorld(t)
	refused := func(r apptest.Answer) {
		t.Helper()
		if r.Status != 403 {
			t.Errorf("%d %+v", r.Status, r.Problem)
		}
	}
	used := func() bool {
		t.Helper()
		stored, err := w.App.Vault().List(t.Context(), runtime.DefaultTenant)
		if err != nil || len(stored) != 1 {
			t.Fatal(stored, err)
		}
		return !stored[0].LastUsed.IsZero()
	}
	refused(w.Do(t, "GET https://api.good.test/nobody/s/path", ""))
	refused(w.Do(t, "DELETE https://api.good.test/repos/a/b", ""))
	if a := w.Do(t, "GET https://evil.test/repos/a/b", ""); a.Status != 200 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	if err := w.App.Vault().Flush(t.Context()); err != nil || used() {
		t.Errorf("the vault was read: %v", err)
	}
	if a := w.Do(t, "GET https://api.good.test/repos/a/b", ""); a.Status != 200 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	if err := w.App.Vault().Flush(t.Context()); err != nil || !used() {
		t.Errorf("a use does not show: %v", err)
	}
}

// CL-021: what the upstream tells one caller it never hears from another: no
// cookie is kept, no answer is kept.
func TestCallersShareNoState(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
		"/page": func(c *servicestest.Conn, r *servicestest.Request) bool {
			return c.Send("HTTP/1.1 200 OK\r\nSet-Cookie: who=first\r\nCache-Control: public, max-age=3600\r\nETag: \"1\"\r\nContent-Length: 2\r\n\r\nok")
		},
	}}})
	for n, agent := range []string{"first", "second"} {
		token, _, err := k.App.CreateToken(t.Context(), app.TokenGrant{Agent: agent, Scopes: []string{"notes.*"}, TTL: soon * 100})
		if err != nil {
			t.Fatal(err)
		}
		if a := apptest.Send(t, k.Client(t, token.Reveal()), "GET https://"+apptest.Host+"/page", ""); a.Status != 200 || a.Header.Get("Set-Cookie") != "who=first" {
			t.Errorf("%s: %d %v", agent, a.Status, a.Header)
		}
		all := k.Up.Requests()
		if len(all) != n+1 {
			t.Fatalf("%s: %d requests at the upstream: an answer was kept", agent, len(all))
		}
		for _, field := range []string{"Cookie", "If-None-Match"} {
			if got := all[n].Header.Get(field); got != "" {
				t.Errorf("%s: %s: %q", agent, field, got)
			}
		}
	}
}

// CL-023: no listener shows figures, memory or variables of the process, asked
// directly or through itself.
func TestNoPageShowsTheInside(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "egress: {allow: [\"127.0.0.1/32\"]}\n"})
	direct := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/kimbap/", "/kimbap/config", "/.env"} {
		if a := apptest.Send(t, direct, "GET http://"+k.Proxy+path, ""); a.Status != 404 || strings.Contains(a.Body, "goroutine") {
			t.Errorf("%s: %d %q", path, a.Status, a.Body)
		}
		if a := k.Do(t, "GET http://"+k.Proxy+path, ""); a.Status != 403 || a.Problem.Reason != string(runtime.ReasonSelfConnection) {
			t.Errorf("%s through itself: %d %q", path, a.Status, a.Body)
		}
	}
	if n := len(k.Up.Requests()); n != 0 {
		t.Errorf("%d requests at the upstream", n)
	}
}

// CL-019: a backend that fails with the credential in its hands tells nobody
// what it held: not the caller, not the record, and not the log, which gets the
// panic's own words.
func TestPanicWithACredentialShowsNothing(t *testing.T) {
	t.Parallel()
	stages := &runtimetest.Stages{OnCredential: func(runtime.Tenant, *runtime.Auth) (runtime.Credential, error) {
		return runtime.Credential{Value: runtime.NewSecret(apptest.Key)}, nil
	}}
	stages.OnExecute = func(_ context.Context, call *runtime.Call, _ runtime.Responder) (runtime.Result, error) {
		panic("cannot send " + call.Credential.Value.Reveal())
	}
	pipeline, err := runtime.New(stages.Options())
	if err != nil {
		t.Fatal(err)
	}
	err = pipeline.Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{})
	e := runtime.AsError(err)
	if e == nil || e.Code != runtime.CodeInternal || e.Status() != 500 || !strings.Contains(e.Err.Error(), apptest.Key) {
		t.Fatalf("the scenario did not happen: %v", err)
	}
	told, err := json.Marshal(e.Problem())
	if err != nil {
		t.Fatal(err)
	}
	k := apptest.New(t, apptest.Options{})
	if a := k.Do(t, "GET https://"+apptest.Host+"/notes/1", ""); a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem) // the value is a live one now
	}
	log := zerolog.New(app.LogOf(k.App))
	log.Error().AnErr("error", e.Err).Msg("request")
	if !strings.Contains(k.Log.String(), "cannot send [secret]") {
		t.Errorf("the log lost the words:\n%s", k.Log)
	}
	record := stages.Outcomes()[0]
	for place, text := range map[string]string{"the answer": string(told), "the record": record.Err.Msg + record.Err.Hint, "the log": k.Log.String()} {
		if form, found := leaked(text, apptest.Key); found {
			t.Errorf("the credential is in %s as %s", place, form)
		}
	}
	if strings.Contains(string(told), "goroutine ") || !record.Panicked {
		t.Errorf("told %s, recorded %+v", told, record)
	}
}

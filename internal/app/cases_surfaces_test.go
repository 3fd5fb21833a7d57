package app_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goruntime "runtime"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// The cases of credentials against every way in: the proxy in clear, the REST
// API, the socket of the daemon, the listener of the operator.

// quotes is an upstream that refuses, and says what it was sent.
func quotes(c *servicestest.Conn, r *servicestest.Request) bool {
	if c.ReadBody(r) != nil {
		return false
	}
	text := `{"error":"token ` + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + ` is not valid"}`
	return c.Send(fmt.Sprintf("HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
}

// CL-011: an upstream that quotes the credential in its refusal, called over the
// REST API, at once and after a person's yes: it is in no answer, and in
// nothing that is kept, shown or sent of it.
func TestRefusalsOfTheUpstreamHoldNoSecretOverTheAPI(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{
		Policy: askWrites, Resolve: []string{"hooks.test:443"},
		Config: "approval: {hold: 0s, notify: [{type: webhook, url: 'https://hooks.test/in', secret: notify.key}]}\n",
		Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{"/refuses": quotes, "/notes": quotes, "/in": func(c *servicestest.Conn, r *servicestest.Request) bool {
			return c.ReadBody(r) == nil && c.Send("HTTP/1.1 204 No Content\r\n\r\n")
		}}},
		Prepare: func(k *apptest.Kimbap) {
			if _, _, err := k.App.SetSecret(t.Context(), "notify.key", runtime.NewSecret("key-of-the-hook-5e77-and-more"), app.SecretOptions{Hosts: []string{"hooks.test:443"}}); err != nil {
				t.Fatal(err)
			}
		},
	})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{Agent: "a"})
	operator, _ := tokenOf(t, k, app.TokenGrant{Agent: "op", Roles: []string{runtime.RoleOperator}})
	places := map[string]string{}
	ask := func(name, token, method, path, body string) heard {
		t.Helper()
		got := c.ask(t, token, method, path, body)
		places[name] += fmt.Sprint(got.Header) + got.Body
		return got
	}
	const run = "/v1/actions/notes/"
	if got := ask("an answer", agent, "POST", run+"read-as:execute", `{"input":{"how":"refuses"}}`); !strings.Contains(got.Body, "401") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	id := ask("a question", agent, "POST", run+"create-note:execute", `{"input":{"text":"x"}}`).problem(t).ApprovalID
	apptest.Eventually(t, "the message", func() bool { return len(hooked(k)) == 1 })
	ask("the decision", operator, "POST", "/v1/approvals/"+id+":accept", "")
	before := len(k.Up.Requests())
	if got := ask("the answer after it", agent, "POST", run+"create-note:execute", `{"input":{"text":"x"}}`); !strings.Contains(got.Body, "401") || len(k.Up.Requests()) != before+1 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	ask("the result", agent, "POST", "/v1/approvals/"+id+":result", "")
	ask("the approval", operator, "GET", "/v1/approvals/"+id, "")
	ask("the approvals", operator, "GET", "/v1/approvals", "")
	k.Await(t, nil, 6)
	ask("the trail over the API", operator, "GET", "/v1/audit", "")
	places["the messages"], places["the log"] = strings.Join(hooked(k), ""), k.Log.String()
	addFiles(t, places, k.Dir)
	for _, r := range k.Up.Requests() {
		if r.Target != "/in" && r.Header.Get("Authorization") != "Bearer "+apptest.Key {
			t.Errorf("%s went without the credential: there was nothing to quote", r.Line)
		}
	}
	for place, text := range places {
		if form, found := leaked(text, apptest.Key); found {
			t.Errorf("the credential is in %s as %s", place, form)
		}
	}
}

// CL-017: what is passed on in clear has no token of ours, in whichever spelling
// it came.
func TestOurTokenReachesNoForeignHost_CL017(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Resolve: []string{"evil.test:80"}, Upstream: servicestest.Options{Cleartext: true}})
	token, _ := tokenOf(t, k, app.TokenGrant{Agent: "a"})
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+token))
	rest := "X-Kimbap-Token: " + token + "\r\nx-kimbap-run: " + token + "\r\nPROXY_AUTHORIZATION: Bearer " + token + "\r\nX_Kimbap_Token: " + token + "\r\n\r\n"
	const line = "GET http://evil.test/x HTTP/1.1\r\nHost: evil.test\r\n"
	for _, field := range []string{"Proxy-Authorization: " + basic, "proxy-authorization: Bearer " + token, "PROXY-AUTHORIZATION: " + basic} {
		if a := k.Dial(t).Ask(line + field + "\r\n" + rest); a.Status != 200 {
			t.Errorf("%.25s: %d %+v", field, a.Status, a.Problem)
		}
	}
	if n := len(k.Up.Requests()); n != 3 {
		t.Errorf("%d requests arrived", n)
	}
	for _, r := range k.Up.Requests() {
		if head := strings.ToLower(string(r.Head)); strings.Contains(head, strings.ToLower(token)) || strings.Contains(head, "proxy") || strings.Contains(head, "kimbap") || strings.Contains(string(r.Head), basic) {
			t.Errorf("the host got\n%s", r.Head)
		}
	}
	if a := k.Dial(t).Ask(line + "Proxy-Authorization: " + basic + "\r\nproxy-authorization: " + basic + "\r\n\r\n"); a.Status != 407 || len(k.Up.Requests()) != 3 {
		t.Errorf("twice: %d, %d requests", a.Status, len(k.Up.Requests()))
	}
}

// CL-019: the engine itself fails with the credential in its hands, in a whole
// kimbap: the caller, the trail and the log hear of a fault and of no secret, and
// the next request goes through. The clock is what fails: the engine reads it
// when it looks for a connection.
func TestAFaultOfTheEngineShowsNothing_CL019(t *testing.T) {
	t.Parallel()
	var armed, fired atomic.Bool
	k := apptest.New(t, apptest.Options{Clock: func() time.Time {
		if armed.Load() && calledBy("/services/rest.") && armed.CompareAndSwap(true, false) {
			fired.Store(true)
			panic("cannot send Authorization: Bearer " + apptest.Key)
		}
		return time.Now()
	}})
	const line = "GET https://" + apptest.Host + "/notes/1"
	mark := k.Mark(t)
	armed.Store(true)
	a := k.Do(t, line, "")
	if !fired.Load() {
		t.Fatalf("the engine did not fail: %d", a.Status)
	}
	if a.Status != 500 || a.Problem.Code != "internal" || strings.Contains(a.Body, "goroutine") || strings.Contains(a.Body, ".go:") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	wantRecords(t, k, mark, "intent allow notes.get-note", "outcome allow notes.get-note panic internal")
	if a := k.Do(t, line, ""); a.Status != 200 {
		t.Errorf("the process did not live: %d %+v", a.Status, a.Problem)
	}
	if !strings.Contains(k.Log.String(), "cannot send Authorization: Bearer [secret]") {
		t.Errorf("the log does not say what failed:\n%s", k.Log)
	}
	places := map[string]string{"the answer": fmt.Sprint(a.Header) + a.Body, "the log": k.Log.String()}
	addFiles(t, places, k.Dir)
	for place, text := range places {
		if form, found := leaked(text, apptest.Key); found {
			t.Errorf("the credential is in %s as %s", place, form)
		}
	}
}

// calledBy reports whether a function of the package is among the callers.
func calledBy(pkg string) bool {
	pcs := make([]uintptr, 32)
	frames := goruntime.CallersFrames(pcs[:goruntime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, pkg) {
			return true
		}
		if !more {
			return false
		}
	}
}

// CL-021: the same for two tenants, over connections to the upstream that are
// used again: each has its own credential, and nothing that the other was given.
func TestTenantsShareNoState(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
		"/page": func(c *servicestest.Conn, r *servicestest.Request) bool {
			whose := r.Header.Get("Authorization")
			return c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nSet-Cookie: who=%d\r\nCache-Control: public, max-age=3600\r\nETag: \"1\"\r\nContent-Length: 1\r\n\r\n%d", len(whose), len(whose)%10))
		},
	}}})
	mine, _ := tokenOf(t, k, app.TokenGrant{Agent: "mine"})
	theirs := acmes(t, k)
	begin := len(k.Up.Requests())
	const page = "GET https://" + apptest.Host + "/page"
	clients := map[string]*http.Client{apptest.Key: k.Client(t, mine), keyOf: k.Client(t, theirs)}
	for n, key := range []string{apptest.Key, keyOf, apptest.Key, keyOf} {
		a := apptest.Send(t, clients[key], page, "")
		all := k.Up.Requests()[begin:]
		if len(all) != n+1 {
			t.Fatalf("%d: %d requests at the upstream: an answer was kept", n, len(all))
		}
		r, size := all[n], len("Bearer "+key)
		if a.Status != 200 || a.Header.Get("Set-Cookie") != fmt.Sprintf("who=%d", size) || a.Body != fmt.Sprint(size%10) {
			t.Errorf("%d: %d %v %q", n, a.Status, a.Header, a.Body)
		}
		if got := r.Fields("Authorization"); len(got) != 1 || got[0] != "Bearer "+key || r.Header.Get("Cookie") != "" || r.Header.Get("If-None-Match") != "" {
			t.Errorf("%d: the upstream got\n%s", n, r.Head)
		}
	}
}

// CL-023: the same for every other listener, without a token and with the
// highest: there are no pages about the process, and the counts name no path,
// argument or secret of a request.
func TestNoListenerShowsTheInside(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "admin: {listen: \"127.0.0.1:0\"}\n"})
	rest := newAPI(t, k)
	socket, _ := daemonOf(t, k)
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	agent, _ := tokenOf(t, k, app.TokenGrant{Agent: "a"})
	admin, _ := tokenOf(t, k, app.TokenGrant{Agent: "ad", Roles: []string{runtime.RoleAdmin}})
	const hidden = "hidden-in-a-path-77c1"
	k.Do(t, "GET https://"+apptest.Host+"/"+hidden+"?token="+hidden, "")
	rest.ask(t, agent, "POST", "/v1/actions/notes/read-as:execute", `{"input":{"how":"`+hidden+`"}}`)
	doors := map[string]*api{"the API": rest, "the socket": socket}
	if at := k.App.AdminAddress(); at != "" {
		doors["the operator's listener"] = &api{"http://" + at, plain}
	} else {
		t.Error("the operator's listener is not open")
	}
	for door, c := range doors {
		for _, token := range []string{"", agent, admin} {
			for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine?debug=2", "/debug/vars", "/debug", "/.env", "/config", "/v1/config", "/v1/debug/pprof/"} {
				// Whoever may see everything learns that it is not there.
				if got := c.ask(t, token, "GET", path, ""); got.Status != 404 && (token == admin || got.Status != 401 && got.Status != 403) || strings.Contains(got.Body, "goroutine") {
					t.Errorf("%s, %s: %d %.80q", door, path, got.Status, got.Body)
				}
			}
			counts := c.ask(t, token, "GET", "/metrics", "")
			if door == "the API" && token != admin && counts.Status == 200 {
				t.Errorf("%s gives its counts to %.5q", door, token)
			}
			for _, value := range []string{hidden, apptest.Key, agent, admin, "/notes"} {
				if strings.Contains(counts.Body, value) {
					t.Errorf("the counts of %s name %s", door, value)
				}
			}
		}
	}
	if got := rest.ask(t, admin, "GET", "/metrics", ""); got.Status != 200 || !strings.Contains(got.Body, "notes.read-as") && !strings.Contains(got.Body, "kimbap_") {
		t.Errorf("there are no counts: %d %.200s", got.Status, got.Body)
	}
}

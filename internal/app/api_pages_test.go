package app_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// operatorOf makes a token that may do all that the API can.
func operatorOf(t *testing.T, k *apptest.Kimbap) string {
	t.Helper()
	token, _ := tokenOf(t, k, app.TokenGrant{Agent: "operator", Roles: []string{runtime.RoleOperator, runtime.RoleAdmin}, TTL: 12 * time.Hour})
	return token
}

// Seconds are seconds, however many: a token that is asked for two hours was made for one.
func TestALifeInSecondsIsKeptTo(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c, token := newAPI(t, k), operatorOf(t, k)
	var made struct{ Created, Expires time.Time }
	got := c.ask(t, token, "POST", "/v1/tokens", `{"agent":"x","scopes":["*"],"ttl":7200}`)
	if err := json.Unmarshal([]byte(got.Body), &made); err != nil || got.Status != 201 || made.Expires.Sub(made.Created) != 2*time.Hour {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	longer, _ := tokenOf(t, k, app.TokenGrant{Agent: "longer", Roles: []string{runtime.RoleOperator, runtime.RoleAdmin}, TTL: 48 * time.Hour})
	got = c.ask(t, longer, "POST", "/v1/tokens", `{"agent":"x","scopes":["*"],"ttl":"1d"}`)
	if err := json.Unmarshal([]byte(got.Body), &made); err != nil || got.Status != 201 || made.Expires.Sub(made.Created) != 24*time.Hour {
		t.Errorf("a day: %d %s", got.Status, got.Body)
	}
	for _, ttl := range []string{"0", `"0"`, `"0s"`, "null", "-5", "1e300", "1e10", `"721h"`, `"31d"`, `"1d12h"`} {
		if got := c.ask(t, token, "POST", "/v1/tokens", `{"agent":"x","scopes":["*"],"ttl":`+ttl+`}`); got.Status != 400 {
			t.Errorf("ttl %s: %d %s", ttl, got.Status, got.Body)
		}
	}
}

// What stands in the query of a page that takes none would change what is done, if it did
// anything: it is refused, and nothing is done.
func TestAQueryThatMeansNothingIsRefused(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c, token := newAPI(t, k), operatorOf(t, k)
	_, id := tokenOf(t, k, app.TokenGrant{})
	for _, page := range [][3]string{
		{"POST", "/v1/actions/notes/get-note:execute?dry_run=true", `{"input":{"id":1}}`},
		{"POST", "/v1/exec?allow=notes.*", `{"code":"return 1"}`},
		{"GET", "/v1/exec/exe_1?full=true", ""},
		{"POST", "/v1/exec/exe_1/resume?wait=1", ""},
		{"GET", "/v1/actions/notes/get-note?full=true", ""},
		{"POST", "/v1/approvals/apr_1:result?wait=1m", ""},
		{"POST", "/v1/approvals/apr_1:accept?for=1m", ""},
		{"POST", "/v1/approvals/apr_1:reject?reason=no", ""},
		{"POST", "/v1/tokens?ttl=1m", `{"agent":"x","scopes":["*"]}`},
		{"DELETE", "/v1/tokens/" + id + "?dry_run=true", ""},
		{"PUT", "/v1/vault/notes.token?hosts=x", `{"value":"x"}`},
		{"DELETE", "/v1/vault/notes.token?version=1", ""},
		{"GET", "/v1/policy?version=1", ""},
		{"PUT", "/v1/policy?dry_run=true", `{}`},
		{"GET", "/v1/actions?servce=notes", ""},
	} {
		got := c.ask(t, token, page[0], page[1], page[2])
		if p := got.problem(t); got.Status != 400 || p.Code != runtime.CodeInvalidInput {
			t.Errorf("%s %s: %d %s", page[0], page[1], got.Status, got.Body)
		}
	}
	if n := len(k.Up.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	if p := c.ask(t, token, "GET", "/v1/actions?servce=notes", "").problem(t); p.Detail != `there is no parameter "servce"; did you mean service?` || p.Hint != "known here: limit, cursor, service" {
		t.Errorf("%+v", p)
	}
}

// A search for records of a kind that there is not is a mistake, and not an empty trail.
func TestAnUnknownKindOfRecordsIsRefused(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c, token := newAPI(t, k), operatorOf(t, k)
	for query, want := range map[string]int{"kind=nope": 400, "effect=ask": 400, "code=forbiden": 400, "code=forbidden": 200, "code=unknown": 200, "kind=": 200, "kind=intent&effect=allow": 200, "effect=require_approval": 200, "kind=event": 200} {
		if got := c.ask(t, token, "GET", "/v1/audit?"+query, ""); got.Status != want {
			t.Errorf("%s: %d %s", query, got.Status, got.Body)
		}
	}
}

// A page that takes another method says which (RFC 9110 section 15.5.6).
func TestTheMethodsOfAPageAreTold(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c, token := newAPI(t, k), operatorOf(t, k)
	for _, want := range [][3]string{
		{"PUT", "/v1/actions", "GET, HEAD"}, {"POST", "/v1/policy", "GET, HEAD, PUT"}, {"PUT", "/v1/tokens", "GET, HEAD, POST"}, {"GET", "/v1/exec", "POST"},
		{"HEAD", "/v1/exec", "POST"}, {"HEAD", "/v1/actions/notes/get-note:execute", "POST"}, {"HEAD", "/v1/vault/notes.token", "PUT, DELETE"},
		{"GET", "/v1/actions/notes/get-note:execute", "POST"}, {"PUT", "/v1/actions/notes/get-note:execute", "POST"},
		{"GET", "/v1/approvals/apr_1:accept", "POST"}, {"HEAD", "/v1/approvals/apr_1:reject", "POST"}, {"PUT", "/v1/approvals/apr_1:result", "POST"},
		{"POST", "/v1/vault/notes.token", "PUT, DELETE"}, {"DELETE", "/healthz", "GET, HEAD"},
	} {
		if got := c.ask(t, token, want[0], want[1], ""); got.Status != 405 || got.Header.Get("Allow") != want[2] {
			t.Errorf("%s %s: %d, Allow %q", want[0], want[1], got.Status, got.Header.Get("Allow"))
		}
	}
}

// HEAD is answered as GET is, in status and header, without the body (RFC 9110 section 9.3.2):
// on every page that takes GET, well or not.
func TestHeadIsAnsweredAsGet(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c, token := &api{k.ServeAPI(t, app.APIOptions{Proxy: true}), newAPI(t, k).client}, operatorOf(t, k)
	d := describedBy(t, c)
	tag := c.ask(t, token, "GET", "/v1/policy", "").Header.Get("ETag")
	compare := func(target, token string, headers ...string) {
		t.Helper()
		get, head := c.ask(t, token, "GET", target, "", headers...), c.ask(t, token, "HEAD", target, "", headers...)
		for _, h := range []heard{get, head} { // which differ by their time
			h.Header.Del("Date")
			h.Header.Del("X-Request-Id")
		}
		if strings.HasPrefix(target, "/metrics") || head.Header.Get("Content-Length") == "" { // counts go on; and a long answer has none
			get.Header.Del("Content-Length")
			head.Header.Del("Content-Length")
		}
		if head.Status != get.Status || !reflect.DeepEqual(head.Header, get.Header) || head.Body != "" {
			t.Errorf("%s: GET is %d %v, HEAD %d %v %q", target, get.Status, get.Header, head.Status, head.Header, head.Body)
		}
	}
	d.each(func(page string, _ map[string]any) {
		if path, is := strings.CutPrefix(page, "GET "); is {
			compare(strings.NewReplacer("{service}", "notes", "{action}", "get-note", "{", "", "}", "").Replace(path), token)
			compare(path+"?no_such=1", token)
			compare(strings.NewReplacer("{", "", "}", "").Replace(path), "")
		}
	})
	compare("/v1/policy", token, "If-None-Match", tag)
	for named, status := range map[string]int{ // RFC 9110 section 13.1.2: a list, compared weakly
		tag: 304, "W/" + tag: 304, `"other", W/` + tag: 304, "*": 304, `"other"`: 200, "": 200, strings.Trim(tag, `"`): 200,
	} {
		if got := c.ask(t, token, "GET", "/v1/policy", "", "If-None-Match", named); got.Status != status {
			t.Errorf("If-None-Match: %s is answered with %d", named, got.Status)
		}
	}
	compare("/v1/actions?limit=2", token)
	compare("/nothing", token)
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "kimbap-proxy", "Kimbap-Run", "x", "Kimbap-Address", "127.0.0.1:1"}
	if got := c.ask(t, token, "HEAD", "/v1/proxy/connection", "", upgrade...); got.Status != 400 {
		t.Errorf("HEAD makes a connection the proxy's: %d", got.Status)
	}
}

// Who sends a key that is empty, as from a variable that is not set, would take the request
// for one that is done once.
func TestAnEmptyKeyIsNoKey(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c, token := newAPI(t, k), operatorOf(t, k)
	got := c.ask(t, token, "POST", "/v1/actions/notes/create-note:execute", `{"input":{"text":"x"}}`, "Idempotency-Key", "")
	if got.Status != 400 || len(k.Up.Requests()) != 0 {
		t.Errorf("%d %s, sent %d times", got.Status, got.Body, len(k.Up.Requests()))
	}
}

package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// described are the pages that a server says it has: "GET /v1/actions".
func described(t testing.TB, c *api) []string {
	t.Helper()
	var d struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal([]byte(c.ask(t, "", "GET", "/openapi.json", "").Body), &d); err != nil {
		t.Fatal(err)
	}
	var out []string
	for path, methods := range d.Paths {
		for method := range methods {
			out = append(out, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(out)
	return out
}

// RA-001: who gets what on every page stands in testdata/api-matrix.txt, and a page
// without a line in it fails. KIMBAP_UPDATE=1 writes the file anew.
func TestRA001WhoMayDoWhat(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "policy: {source: api}\n", Scripts: apptest.Worker(t)})
	c := newAPI(t, k)
	lapsed := newAPI(t, k) // asked with tokens that are over: one server tells a hundred strangers why
	a, _ := tokenOf(t, k, app.TokenGrant{Agent: "a"})
	b, _ := tokenOf(t, k, app.TokenGrant{Agent: "b"})
	operator, _ := tokenOf(t, k, app.TokenGrant{Agent: "op", Roles: []string{runtime.RoleOperator}})
	admin, _ := tokenOf(t, k, app.TokenGrant{Agent: "ad", Roles: []string{runtime.RoleAdmin}})
	expired, _ := tokenOf(t, k, app.TokenGrant{TTL: time.Nanosecond})
	revoked, id := tokenOf(t, k, app.TokenGrant{})
	if ok, err := k.Open(t, "").RevokeToken(t.Context(), id); err != nil || !ok {
		t.Fatal(ok, err)
	}
	n := 0
	ask := func() string {
		n++
		return c.ask(t, a, "POST", "/v1/actions/notes/delete-note:execute", fmt.Sprintf(`{"input":{"id":%d}}`, n)).problem(t).ApprovalID
	}
	shared := ask()
	tag := c.ask(t, admin, "GET", "/v1/policy", "").Header.Get("ETag")
	who := []struct{ name, token string }{
		{"none", ""}, {"garbage", "kmb_garbage"}, {"expired", expired}, {"revoked", revoked}, {"A", a}, {"B", b}, {"operator", operator}, {"admin", admin},
	}
	var got strings.Builder
	got.WriteString("page none garbage expired revoked A B operator admin\n")
	for _, page := range described(t, c) {
		method, path, _ := strings.Cut(page, " ")
		got.WriteString(page)
		for _, w := range who {
			approval, token := shared, "tok_none"
			if w.token == operator || w.token == admin {
				if strings.Contains(path, ":accept") || strings.Contains(path, ":reject") {
					approval = ask()
				}
				if strings.Contains(path, "/tokens/") {
					_, token = tokenOf(t, k, app.TokenGrant{})
				}
			}
			target := strings.NewReplacer("{service}", "notes", "{action}", "get-note", "{name}", "spare").Replace(path)
			if strings.Contains(path, "tokens") {
				target = strings.ReplaceAll(target, "{id}", token)
			}
			target = strings.ReplaceAll(target, "{id}", approval)
			body, headers := "", []string{}
			switch page {
			case "POST /v1/actions/{service}/{action}:execute":
				body = `{"input":{"id":1}}`
			case "POST /v1/tokens":
				body = `{"agent":"x","scopes":["notes.*"],"ttl":"1m"}`
			case "PUT /v1/vault/{name}":
				body = `{"value":"spare-value-1234","hosts":["api.notes.test:443"]}`
			case "PUT /v1/policy":
				body, headers = "version: 1\n", []string{"Content-Type", "application/yaml", "If-Match", tag}
			case "POST /v1/exec":
				body = `{"code":""}`
			case "DELETE /v1/vault/{name}":
				c.ask(t, admin, "PUT", "/v1/vault/spare", `{"value":"spare-value-1234","hosts":["api.notes.test:443"]}`)
			}
			at := c
			if w.token == expired || w.token == revoked {
				at = lapsed
			}
			fmt.Fprintf(&got, " %d", at.ask(t, w.token, method, target, body, headers...).Status)
		}
		got.WriteString("\n")
	}
	const file = "testdata/api-matrix.txt"
	if os.Getenv("KIMBAP_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got.String() {
		t.Errorf("%v: got\n%s", err, got.String())
	}
}

// RA-002: a name that somebody's DNS may have pointed here is not ours.
func TestRA002OnlyOurOwnNames(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "serve: {hosts: [kimbap.example]}\n"})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	for host, want := range map[string]int{
		"evil.test:8080": 421, "127.0.0.1.evil.test": 421, "localhost.evil.test": 421, "localhost": 200, "127.0.0.1:1": 200, "[::1]": 200, "kimbap.example:8080": 200,
	} {
		for _, path := range []string{"/v1/services", "/healthz", "/openapi.json"} {
			if got := c.ask(t, agent, "GET", path, "", "Host", host); got.Status != want {
				t.Errorf("Host %s on %s: %d, want %d", host, path, got.Status, want)
			}
		}
	}
}

// RA-003, RA-005: pages of browsers change nothing and read nothing, and no answer
// invites them.
func TestRA003PagesOfBrowsers(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	operator, _ := tokenOf(t, k, app.TokenGrant{Roles: []string{runtime.RoleOperator}})
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	held := c.ask(t, agent, "POST", "/v1/actions/notes/delete-note:execute", `{"input":{"id":3}}`).problem(t).ApprovalID
	for _, headers := range [][]string{
		{"Origin", "https://evil.test"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-origin"},
		{"Origin", "https://evil.test", "Cookie", "session=1"},
	} {
		for _, verb := range []string{":accept", ":reject"} {
			got := c.ask(t, operator, "POST", "/v1/approvals/"+held+verb, "", headers...)
			if got.Status != http.StatusForbidden || got.Header.Get("Set-Cookie") != "" {
				t.Errorf("%v: %d %v", headers, got.Status, got.Header)
			}
		}
		for _, path := range []string{"/v1/vault", "/openapi.json?callback=x", "/healthz"} {
			if got := c.ask(t, operator, "GET", path, "", headers...); got.Status != http.StatusForbidden {
				t.Errorf("%v %s: %d", headers, path, got.Status)
			}
		}
	}
	preflight := c.ask(t, "", "OPTIONS", "/v1/approvals/"+held+":accept", "", "Origin", "https://evil.test", "Access-Control-Request-Method", "POST")
	normal := c.ask(t, agent, "GET", "/v1/services", "")
	for _, got := range []heard{preflight, normal} {
		for name := range got.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: %s", name, got.Header.Get(name))
			}
		}
	}
	if got := c.ask(t, agent, "GET", "/v1/services?callback=x", ""); got.Status != 400 {
		t.Errorf("callback: %d", got.Status)
	}
}

// RA-004: what a page can send without asking first is not taken.
func TestRA004OnlyJSON(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	before := len(k.Up.Requests())
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/json"} {
		got := c.ask(t, agent, "POST", "/v1/actions/notes/get-note:execute", `{"input":{"id":1}}`, "Content-Type", media)
		if got.Status != http.StatusUnsupportedMediaType {
			t.Errorf("%q: %d %s", media, got.Status, got.Body)
		}
	}
	if len(k.Up.Requests()) != before {
		t.Error("something was sent")
	}
}

// RA-007: an address that others can reach needs TLS, or a flag that says otherwise.
func TestRA007OthersCannotReachIt(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	a := k.Open(t, "serve")
	if at := a.Config().Serve.Listen; at != "127.0.0.1:8080" {
		t.Errorf("by default it listens on %s", at)
	}
	for _, at := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0"} {
		err := a.ServeAPI(t.Context(), app.APIOptions{Listen: at})
		if e := runtime.AsError(err); err == nil || e.Reason != runtime.ReasonInsecureScheme {
			t.Errorf("%s: %v", at, err)
		}
	}
	over, end := context.WithCancel(t.Context()) // what is taken all the same is not served
	end()
	for _, half := range []app.APIOptions{{Cert: "x"}, {Key: "x"}} {
		half.Listen = "127.0.0.1:0"
		if e := runtime.AsError(a.ServeAPI(over, half)); e == nil || !strings.Contains(e.Msg, "--tls-cert and --tls-key go together") {
			t.Errorf("half of a certificate: %v", e)
		}
	}
	if e := runtime.AsError(a.ServeAPI(t.Context(), app.APIOptions{Listen: "0.0.0.0:0", Cert: "nowhere", Key: "nowhere"})); e == nil || e.Reason != runtime.ReasonNotFound {
		t.Errorf("a certificate that is not there: %v", e)
	}
}

// RA-008: the router, the scopes and the action read one and the same path.
func TestRA008OneFormOfAPath(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	base := strings.TrimPrefix(newAPI(t, k).base, "http://")
	agent, _ := tokenOf(t, k, app.TokenGrant{Scopes: []string{"notes.get-*"}})
	before := len(k.Up.Requests())
	for _, path := range []string{
		"/v1/actions/notes%2Fdelete-note:execute", "/v1/actions/notes%2Fget-note/delete-note:execute", "//v1/actions/notes/get-note:execute",
		"/v1/../v1/actions/notes/get-note:execute", "/v1/actions/notes/get-note:EXECUTE", "/v1/actions/notes/get-note.:execute", "/v1/actions/notes/get-note;x:execute",
		"/v1/actions/notes/get-note:execute;x", "/v1/actions/notes/get-note:execute/", "/v1/actions/notes/get-note%3Aexecute", "/V1/actions/notes/get-note:execute",
		"/v1/actions/notes/%67et-note:execute", "/v1/actions/notes/%64elete-note:execute", "/v1/actions/notes./get-note:execute", "/v1/actions/notes/get-note:execute:execute", "/v1/actions/notes/../notes/get-note:execute",
	} {
		conn, err := net.Dial("tcp", base)
		if err != nil {
			t.Fatal(err)
		}
		body := `{"input":{"id":1}}`
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", path, agent, len(body), body)
		var status int
		want := []int{400, 404, 405}
		switch path { // another spelling of the same name is that name, for the scopes too
		case "/v1/actions/notes/%67et-note:execute", "/v1/actions/notes/get-note%3Aexecute":
			want = append(want, 200)
		case "/v1/actions/notes/%64elete-note:execute":
			want = append(want, 403)
		}
		if _, err := fmt.Fscanf(conn, "HTTP/1.1 %d", &status); err != nil || !slices.Contains(want, status) {
			t.Errorf("%s: %d %v", path, status, err)
		}
		_ = conn.Close()
	}
	for _, r := range k.Up.Requests()[before:] {
		if !strings.HasPrefix(r.Line, "GET /notes/1 ") {
			t.Errorf("sent %s", r.Line)
		}
	}
}

// RA-009: bodies that two readers could read in two ways, or that never end.
func TestRA009Bodies(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	before := len(k.Up.Requests())
	const read, write, object = "get-note", "create-note", "create-key"
	for what, try := range map[string]struct {
		action, body string
		status       int
		reason       runtime.Reason
		says         string
	}{
		"unknown field":  {read, `{"input":{"id":1},"tenant":"x"}`, 400, runtime.ReasonInvalidJSON, `no member "tenant"`},
		"same key twice": {read, `{"input":{"id":1},"input":{"id":2}}`, 400, runtime.ReasonDuplicateKey, `"input" stands twice`},
		"inside":         {read, `{"input":{"id":1,"id":2}}`, 400, runtime.ReasonDuplicateKey, `"id" stands twice`},
		"escaped twin":   {read, `{"input":{"id":1,"\u0069d":2}}`, 400, runtime.ReasonDuplicateKey, `"id" stands twice`},
		"too long":       {read, `{"input":{"id":"` + strings.Repeat("x", 100<<20) + `"}}`, 413, runtime.ReasonBodyTooLarge, "over"},
		"deep lists":     {read, `{"input":{"id":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}}`, 400, runtime.ReasonInvalidJSON, "not JSON from byte"}, // too deep for the decoder
		"deep objects":   {read, `{"input":` + strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000) + `}`, 400, runtime.ReasonInvalidJSON, "not JSON from byte"},
		"lists":          {object, `{"input":{"fields":{"a":` + strings.Repeat("[", 62) + strings.Repeat("]", 62) + `}}}`, 400, runtime.ReasonInvalidJSON, "nested deeper than 64"},
		"objects":        {object, `{"input":{"fields":` + strings.Repeat(`{"a":`, 63) + "1" + strings.Repeat("}", 63) + `}}`, 400, runtime.ReasonInvalidJSON, "nested deeper than 64"},
		"no UTF-8":       {write, "{\"input\":{\"text\":\"\xff\xfe\"}}", 400, runtime.ReasonInvalidJSON, "not UTF-8"},
		"half":           {read, `{"input":{"id":1`, 400, runtime.ReasonInvalidJSON, "ends too early"},
		"more behind":    {read, `{"input":{"id":1}} {}`, 400, runtime.ReasonTrailingData, "follows the object"},
		"a list":         {read, `[1]`, 400, runtime.ReasonInvalidJSON, "not an object"},
		"a wrong type":   {read, `{"input":[1]}`, 400, runtime.ReasonInvalidJSON, "input must be an object"},
	} {
		got := c.ask(t, agent, "POST", "/v1/actions/notes/"+try.action+":execute", try.body)
		if p := got.problem(t); got.Status != try.status || p.Reason != try.reason || !strings.Contains(p.Detail, try.says) {
			t.Errorf("%s: %d %.300s", what, got.Status, got.Body)
		}
	}
	if len(k.Up.Requests()) != before {
		t.Error("something was sent")
	}
}

// RA-010: under one key a request is done once, and who asks again gets the same.
func TestRA010IdempotencyKeys(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	theirs := acmes(t, k)
	k.Write(t, "tenants/acme/policy.yaml", "version: 1\n")
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	other, _ := tokenOf(t, k, app.TokenGrant{})
	const body = `{"input":{"text":"once"}}`
	do := func(token, key, body string) heard {
		return c.ask(t, token, "POST", "/v1/actions/notes/create-note:execute", body, "Idempotency-Key", key)
	}
	before := len(k.Up.Requests())
	var wg sync.WaitGroup
	answers := make([]heard, 50)
	for i := range answers {
		wg.Go(func() { answers[i] = do(agent, "k1", body) })
	}
	wg.Wait()
	for _, got := range answers {
		if got.Status != 200 || got.Body != answers[0].Body {
			t.Fatalf("%d %s, first %s", got.Status, got.Body, answers[0].Body)
		}
		if id := got.Header.Get("X-Request-Id"); id == "" || id != answers[0].Header.Get("X-Request-Id") {
			t.Errorf("an answer that was told again has the id %q, which the trail does not know", id)
		}
	}
	if n := len(k.Up.Requests()) - before; n != 1 {
		t.Errorf("done %d times", n)
	}
	if got := do(agent, "k1", `{"input":{"text":"twice"}}`); got.Status != 422 || got.problem(t).Reason != runtime.ReasonIdempotency {
		t.Errorf("another request: %d %s", got.Status, got.Body)
	}
	if got := do(other, "k1", `{"input":{"text":"twice"}}`); got.Status != 200 || len(k.Up.Requests())-before != 2 {
		t.Errorf("another caller: %d %s", got.Status, got.Body)
	}
	if got := do(theirs, "k1", body); got.Status != 200 || len(k.Up.Requests())-before != 3 || k.Up.Last(t).Header.Get("Authorization") != "Bearer "+keyOf {
		t.Errorf("another tenant: %d %s, with %q", got.Status, got.Body, k.Up.Last(t).Header.Get("Authorization"))
	}
	if got := do(agent, strings.Repeat("k", 300), body); got.Status != 400 {
		t.Errorf("a long key: %d", got.Status)
	}
}

// RA-011: numbers and cursors of a list are ours or refused.
func TestRA011Pages(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	operator, _ := tokenOf(t, k, app.TokenGrant{Agent: "op", Roles: []string{runtime.RoleOperator}})
	other, _ := tokenOf(t, k, app.TokenGrant{Agent: "op2", Roles: []string{runtime.RoleOperator}})
	for _, list := range []string{"/v1/actions", "/v1/tokens", "/v1/audit", "/v1/services", "/v1/vault", "/v1/approvals"} {
		for _, query := range []string{
			"?limit=-1", "?limit=0", "?limit=x", "?limit=1e9", "?cursor=x", "?cursor=" + strings.Repeat("A", 80), "?sort=;drop%20table", "?limit=1&limit=2", "?x='%20OR%201=1%20--",
		} {
			if got := c.ask(t, operator, "GET", list+query, ""); got.Status != 400 {
				t.Errorf("%s%s: %d %s", list, query, got.Status, got.Body)
			}
		}
		if got := c.ask(t, operator, "GET", list+"?limit=1000000000", ""); got.Status != 200 {
			t.Errorf("%s: a large limit: %d", list, got.Status)
		}
	}
	for _, list := range []string{"/v1/actions", "/v1/tokens", "/v1/audit?kind=event"} {
		join := "?"
		if strings.Contains(list, "?") {
			join = "&"
		}
		all, _ := c.ask(t, operator, "GET", list, "").items(t)
		var walked []map[string]any
		next := ""
		for range len(all) + 1 {
			query := list + join + "limit=1"
			if next != "" {
				query += "&cursor=" + next
			}
			page, after := c.ask(t, operator, "GET", query, "").items(t)
			walked = append(walked, page...)
			if next = after; next == "" {
				break
			}
			if got := c.ask(t, other, "GET", list+join+"cursor="+next, ""); got.Status != 400 {
				t.Errorf("%s: another caller's cursor: %d", list, got.Status)
			}
			if got := c.ask(t, operator, "GET", "/v1/vault?cursor="+next, ""); got.Status != 400 {
				t.Errorf("%s: the cursor of another list: %d", list, got.Status)
			}
		}
		if fmt.Sprint(walked) != fmt.Sprint(all) || len(all) < 2 {
			t.Errorf("%s: page by page %d items, at once %d", list, len(walked), len(all))
		}
	}
	if got := c.ask(t, operator, "GET", "/v1/audit?text='%20OR%201=1%20--", ""); got.Status != 200 || !strings.Contains(got.Body, `"items":[]`) {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

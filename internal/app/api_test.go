package app_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// What a token's scopes do not cover is neither found nor advised.
func TestSearchAndAdviceShowWhatTheTokenMayDo(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	narrow, _ := tokenOf(t, k, app.TokenGrant{Scopes: []string{"notes.get-note"}})
	none, _ := tokenOf(t, k, app.TokenGrant{Scopes: []string{"elsewhere.*"}})
	for _, page := range []string{"/v1/tools/search", "/v1/tools/advice", "/v1/tools/advice?name=notes"} {
		if r := c.ask(t, narrow, "GET", page, ""); r.Status != 200 || !strings.Contains(r.Body, "notes.getNote") || strings.Contains(r.Body, "deleteNote") {
			t.Errorf("%s: %d %s", page, r.Status, r.Body)
		}
		if r := c.ask(t, none, "GET", page, ""); r.Status != 200 || strings.Contains(r.Body, "notes") {
			t.Errorf("%s without the scope: %d %s", page, r.Status, r.Body)
		}
	}
}

// The offset that an answer names leads to the others.
func TestASearchGoesOn(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	page := func(query string) (names []string, next int) {
		t.Helper()
		var found struct {
			Items      []struct{ Name string }
			NextOffset int
		}
		r := c.ask(t, agent, "GET", "/v1/tools/search?query=note"+query, "")
		if err := json.Unmarshal([]byte(r.Body), &found); err != nil || r.Status != 200 {
			t.Fatalf("%s: %d %s", query, r.Status, r.Body)
		}
		for _, one := range found.Items {
			names = append(names, one.Name)
		}
		return names, found.NextOffset
	}
	all, _ := page("&limit=100")
	got, next := page("&limit=2&offset=0")
	rest, end := page("&limit=100&offset=" + strconv.Itoa(next))
	if len(all) < 3 || next != 2 || end != 0 || !slices.Equal(all, append(got, rest...)) {
		t.Errorf("of %v came %v, then %v", all, got, rest)
	}
	for _, bad := range []string{"-1", "x", "1.5"} {
		if r := c.ask(t, agent, "GET", "/v1/tools/search?offset="+bad, ""); r.Status != 400 {
			t.Errorf("offset %s: %d %s", bad, r.Status, r.Body)
		}
	}
}

func TestAnActionIsDoneOverREST(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	agent, id := tokenOf(t, k, app.TokenGrant{Scopes: []string{"notes.*"}})
	mark := k.Mark(t)
	got := c.ask(t, agent, "POST", "/v1/actions/notes/get-note:execute", `{"input":{"id":7}}`)
	var answer struct{ Result json.RawMessage }
	if err := json.Unmarshal([]byte(got.Body), &answer); err != nil || got.Status != 200 || len(answer.Result) == 0 {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if sent := k.Up.Last(t); sent.Header.Get("Authorization") != "Bearer "+apptest.Key || sent.Target != "/notes/7" {
		t.Errorf("the upstream got %s with %q", sent.Target, sent.Header.Get("Authorization"))
	}
	if strings.Contains(got.Body, apptest.Key) {
		t.Error("the credential came back")
	}
	apptest.Eventually(t, "both records", func() bool { return len(k.Requests(t, mark)) == 2 })
	for _, r := range k.Requests(t, mark) {
		if !strings.Contains(r.Line, `"surface":"rest"`) || !strings.Contains(r.Line, id) || !strings.Contains(r.Line, got.Header.Get("X-Request-Id")) {
			t.Errorf("recorded as %s, answered as %s", r.Line, got.Header.Get("X-Request-Id"))
		}
	}
	raw := c.ask(t, agent, "POST", "/v1/actions/notes/get-note:execute", `{"input":{"id":7},"raw":true}`)
	if quoted, _ := json.Marshal(raw.Body); raw.Status != 200 || !bytes.Equal(quoted, answer.Result) {
		t.Errorf("raw: %d %q, want %s", raw.Status, raw.Body, answer.Result)
	}
	if denied := c.ask(t, agent, "POST", "/v1/actions/notes/create-key:execute", `{"input":{"fields":{"a":1}}}`); denied.Status != 403 || denied.problem(t).Code != runtime.CodeForbidden {
		t.Errorf("%d %s", denied.Status, denied.Body)
	}
	if read := c.ask(t, agent, "GET", "/v1/actions/notes/get-note:execute", ""); read.Status != 405 || read.problem(t).Reason != runtime.ReasonMethodNotAllowed {
		t.Errorf("done by GET: %d %s", read.Status, read.Body)
	}
	if unknown := c.ask(t, agent, "POST", "/v1/actions/notes/get-nothing:execute", `{}`); unknown.Status != 404 || unknown.problem(t).Code != runtime.CodeUnknownAction {
		t.Errorf("%d %s", unknown.Status, unknown.Body)
	}
}

func TestAnAgentCollectsWhatAnOperatorAccepted(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	other, _ := tokenOf(t, k, app.TokenGrant{Agent: "other"})
	operator, _ := tokenOf(t, k, app.TokenGrant{Agent: "op", Roles: []string{runtime.RoleOperator}})
	before := len(k.Up.Requests())
	held := c.ask(t, agent, "POST", "/v1/actions/notes/delete-note:execute", `{"input":{"id":3}}`).problem(t)
	if held.Code != runtime.CodeApprovalPending || held.ResultURL != "/v1/approvals/"+held.ApprovalID || len(k.Up.Requests()) != before {
		t.Fatalf("%+v", held)
	}
	path := "/v1/approvals/" + held.ApprovalID
	if got := c.ask(t, other, "GET", path, ""); got.Status != 404 {
		t.Errorf("another agent sees it: %d %s", got.Status, got.Body)
	}
	if got := c.ask(t, agent, "POST", path+":result", `{}`); got.problem(t).Code != runtime.CodeApprovalPending {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if got := c.ask(t, agent, "POST", path+":accept", ""); got.problem(t).Reason != runtime.ReasonNotOperator {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if got := c.ask(t, operator, "GET", path, ""); got.Status != 200 || !strings.Contains(got.Body, "delete-note") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if items, _ := c.ask(t, agent, "GET", "/v1/approvals", "").items(t); len(items) != 1 {
		t.Errorf("its own are %v", items)
	}
	if items, _ := c.ask(t, other, "GET", "/v1/approvals?all=true", "").items(t); len(items) != 0 {
		t.Errorf("others' are %v", items)
	}
	if got := c.ask(t, operator, "POST", path+":accept", ""); got.Status != 200 || !strings.Contains(got.Body, `"approved"`) {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if got := c.ask(t, agent, "POST", path+":result", ""); got.Status != 200 || !strings.Contains(got.Body, `"result"`) {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if got := c.ask(t, agent, "POST", path+":result", ""); got.Status == 200 || len(k.Up.Requests()) != before+1 {
		t.Errorf("again: %d %s, %d requests", got.Status, got.Body, len(k.Up.Requests())-before)
	}
}

// Who calls the API is told of pages, and of no commands of a machine that is not the caller's.
func TestTheAPIHintsAtPages(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	operator, _ := tokenOf(t, k, app.TokenGrant{Agent: "op", Roles: []string{runtime.RoleOperator}})
	id := c.ask(t, agent, "POST", "/v1/actions/notes/delete-note:execute", `{"input":{"id":3}}`).problem(t).ApprovalID
	if got := c.ask(t, operator, "POST", "/v1/approvals/"+id+":reject", ""); got.Status != 200 {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	for _, page := range []struct{ method, path, body, want string }{
		{"POST", "/v1/actions/nothing/at-all:execute", `{}`, "GET /v1/services"},
		{"GET", "/v1/tools?name=nothing", "", "GET /v1/services"},
		{"GET", "/v1/tools/advice?name=nothing", "", "GET /v1/services"},
		{"POST", "/v1/actions/notes/zz:execute", `{}`, "GET /v1/actions"},
		{"POST", "/v1/approvals/" + id + ":accept", "", "GET /v1/approvals"},
		{"POST", "/v1/approvals/" + id + ":revoke", "", "GET /v1/standing"},
		{"POST", "/v1/approvals/apr_none:revoke", "", "GET /v1/approvals"},
	} {
		if got := c.ask(t, operator, page.method, page.path, page.body).problem(t); !strings.Contains(got.Hint, page.want) || strings.Contains(got.Hint, "kimbap ") {
			t.Errorf("%s: %s", page.path, got.Hint)
		}
	}
}

// Who can give a yes for a while over the API sees there what it allows, and takes it back.
func TestAnOperatorTakesBackWhatItAllowed(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	operator, _ := tokenOf(t, k, app.TokenGrant{Agent: "op", Roles: []string{runtime.RoleOperator}})
	if err := k.Open(t, "").CreateTenant(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	theirs, _, err := k.OpenAs(t, "acme").CreateToken(t.Context(), app.TokenGrant{Agent: "op", Scopes: []string{"*"}, Roles: []string{runtime.RoleOperator}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	other := theirs.Reveal()
	del := func() heard {
		return c.ask(t, agent, "POST", "/v1/actions/notes/delete-note:execute", `{"input":{"id":3}}`)
	}
	id := del().problem(t).ApprovalID
	if got := c.ask(t, operator, "POST", "/v1/approvals/"+id+":accept", `{"for":"10m"}`); got.Status != 200 {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	for range 2 {
		if got := del(); got.Status != 200 {
			t.Fatalf("it is allowed: %d %s", got.Status, got.Body)
		}
	}
	items, _ := c.ask(t, operator, "GET", "/v1/standing", "").items(t)
	if len(items) != 1 || items[0]["id"] != id || items[0]["action"] != "notes.delete-note" || items[0]["agent"] != "agent" {
		t.Errorf("stands: %v", items)
	}
	for token, want := range map[string]int{agent: 403, other: 404} {
		if got := c.ask(t, token, "POST", "/v1/approvals/"+id+":revoke", ""); got.Status != want {
			t.Errorf("ended by somebody else: %d %s", got.Status, got.Body)
		}
	}
	if items, _ := c.ask(t, other, "GET", "/v1/standing", "").items(t); len(items) > 0 {
		t.Errorf("stands in another tenant: %v", items)
	}
	if got := c.ask(t, operator, "POST", "/v1/approvals/"+id+":revoke", ""); got.Status != 200 || !strings.Contains(got.Body, `"executed"`) {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if items, _ := c.ask(t, operator, "GET", "/v1/standing", "").items(t); len(items) > 0 {
		t.Errorf("stands: %v", items)
	}
	if got := del().problem(t); got.Code != runtime.CodeApprovalPending {
		t.Errorf("still allowed: %+v", got)
	}
	if got := c.ask(t, operator, "GET", "/v1/audit?text="+id, ""); !strings.Contains(got.Body, `"approval.revoke"`) {
		t.Errorf("not recorded: %s", got.Body)
	}
}

// An operator's token decides neither its own requests nor those of a token it made,
// and makes none that is more than itself.
func TestATokenNeitherDecidesItsOwnNorWidensItself(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	operator, _ := tokenOf(t, k, app.TokenGrant{Agent: "op", Scopes: []string{"notes.*"}, Roles: []string{runtime.RoleOperator, "developer"}})
	made := c.ask(t, operator, "POST", "/v1/tokens", `{"agent":"child","scopes":["notes.delete-*"],"roles":["developer"],"ttl":"5m"}`)
	var child struct{ ID, Token string }
	if err := json.Unmarshal([]byte(made.Body), &child); err != nil || made.Status != 201 || child.Token == "" {
		t.Fatalf("%d %s", made.Status, made.Body)
	}
	for _, asker := range []string{operator, child.Token} {
		held := c.ask(t, asker, "POST", "/v1/actions/notes/delete-note:execute", fmt.Sprintf(`{"input":{"id":%d}}`, len(asker)+slices.Index([]string{operator, child.Token}, asker))).problem(t)
		for _, verb := range []string{":accept", ":reject"} {
			if got := c.ask(t, operator, "POST", "/v1/approvals/"+held.ApprovalID+verb, ""); got.Status != 403 || got.problem(t).Reason != runtime.ReasonOwnRequest {
				t.Errorf("%s: %d %s", verb, got.Status, got.Body)
			}
		}
	}
	for what, body := range map[string]string{
		"a wider scope": `{"agent":"x","scopes":["*"]}`, "another role": `{"agent":"x","scopes":["notes.*"],"roles":["finance"]}`,
		"a role of the API": `{"agent":"x","scopes":["notes.*"],"roles":["kimbap.operator"]}`, "a group": `{"agent":"x","scopes":["notes.*"],"groups":["leads"]}`,
		"a longer life": `{"agent":"x","scopes":["notes.*"],"ttl":"2h"}`,
	} {
		if got := c.ask(t, operator, "POST", "/v1/tokens", body); got.Status != 403 {
			t.Errorf("%s: %d %s", what, got.Status, got.Body)
		}
	}
	if got := c.ask(t, operator, "DELETE", "/v1/tokens/"+child.ID, ""); got.Status != 204 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if got := c.ask(t, child.Token, "GET", "/v1/services", ""); got.Status != 401 {
		t.Errorf("revoked: %d", got.Status)
	}
}

func TestSecretsAreWrittenAndNeverRead(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	admin, _ := tokenOf(t, k, app.TokenGrant{Roles: []string{runtime.RoleAdmin}})
	const value = "sk-live-written-over-rest-71aa"
	if got := c.ask(t, admin, "PUT", "/v1/vault/short", `{"value":"xyz","hosts":["api.notes.test:443"]}`); got.Status != 200 || !strings.Contains(got.Body, `"warning":"so short a value is not masked`) {
		t.Errorf("what cannot be masked: %d %s", got.Status, got.Body)
	}
	if got := c.ask(t, admin, "PUT", "/v1/vault/short", `{"value":" sp-key-abcdefgh ","hosts":["api.notes.test:443"]}`); got.Status != 400 || !strings.Contains(got.Body, "begins or ends with a blank") {
		t.Errorf("with blanks around it: %d %s", got.Status, got.Body)
	}
	if got := c.ask(t, admin, "PUT", "/v1/vault/latin", `{"value":"caf\u00e9-abcdefgh","hosts":["api.notes.test:443"]}`); got.Status != 200 || !strings.Contains(got.Body, `"warning":"the value has characters beyond ASCII`) {
		t.Errorf("beyond ASCII: %d %s", got.Status, got.Body)
	}
	if got := c.ask(t, admin, "PUT", "/v1/vault/notes.token", `{"value":"`+value+`"}`); got.Status != 200 || strings.Contains(got.Body, value) {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if got := c.ask(t, admin, "POST", "/v1/actions/notes/get-note:execute", `{"input":{"id":1}}`); got.Status != 200 || k.Up.Last(t).Header.Get("Authorization") != "Bearer "+value {
		t.Errorf("%d, sent %q", got.Status, k.Up.Last(t).Header.Get("Authorization"))
	}
	for _, path := range []string{"/v1/vault", "/v1/audit", "/v1/vault/notes.token"} {
		if got := c.ask(t, admin, "GET", path, ""); strings.Contains(got.Body, value) {
			t.Errorf("%s shows it", path)
		}
	}
	if strings.Contains(k.Log.String(), value) {
		t.Error("the log has it")
	}
	if got := c.ask(t, admin, "DELETE", "/v1/vault/notes.token", ""); got.Status != 204 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if got := c.ask(t, admin, "DELETE", "/v1/vault/notes.token", ""); got.Status != 404 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

func TestAPolicyIsReplacedByWhoHasSeenIt(t *testing.T) {
	t.Parallel()
	const deny = "version: 1\nrules: [{name: shut, match: {action: notes.get-note}, then: deny}]\n"
	send := func(c *api, token, tag, text string) heard {
		return c.ask(t, token, "PUT", "/v1/policy", text, "Content-Type", "application/yaml", "If-Match", tag)
	}
	k := apptest.New(t, apptest.Options{Config: "policy: {source: api}\n"})
	c := newAPI(t, k)
	admin, _ := tokenOf(t, k, app.TokenGrant{Roles: []string{runtime.RoleAdmin}})
	now := c.ask(t, admin, "GET", "/v1/policy", "")
	tag := now.Header.Get("ETag")
	if now.Status != 200 || tag == "" {
		t.Fatalf("%d %v", now.Status, now.Header)
	}
	for want, try := range map[int][2]string{428: {"", deny}, 412: {`"other"`, deny}, 400: {tag, "version: 1\nrules: [{nonsense: 1}]\n"}} {
		if got := send(c, admin, try[0], try[1]); got.Status != want {
			t.Errorf("%d %s, want %d", got.Status, got.Body, want)
		}
	}
	done := send(c, admin, tag, deny)
	if done.Status != 204 || done.Header.Get("ETag") == tag {
		t.Fatalf("%d %s", done.Status, done.Body)
	}
	apptest.Eventually(t, "the rule", func() bool {
		return c.ask(t, admin, "POST", "/v1/actions/notes/get-note:execute", `{"input":{"id":1}}`).Status == 403
	})
	if got := send(c, admin, tag, deny); got.Status != 412 {
		t.Errorf("an old tag: %d", got.Status)
	}
	newer := done.Header.Get("ETag")
	if any, weak := send(c, admin, "*", deny), send(c, admin, "W/"+newer, deny); any.Status != 428 || weak.Status != 412 {
		t.Errorf("any policy: %d, a weak tag: %d", any.Status, weak.Status)
	}
	if got := send(c, admin, tag+", "+newer, deny); got.Status != 204 {
		t.Errorf("one of two tags: %d", got.Status)
	}

	files := apptest.New(t, apptest.Options{})
	c = newAPI(t, files)
	admin, _ = tokenOf(t, files, app.TokenGrant{Roles: []string{runtime.RoleAdmin}})
	if got := send(c, admin, c.ask(t, admin, "GET", "/v1/policy", "").Header.Get("ETag"), deny); got.problem(t).Reason != runtime.ReasonReadOnly {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// A file that policy.path names and that is away, as on a volume that is not mounted, is no empty
// policy: its rules are in force, and nothing is written in its place.
func TestAPolicyThatIsAwayIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k := apptest.New(t, apptest.Options{Config: fmt.Sprintf("policy: {source: api, path: %q}\n", file)})
	c := newAPI(t, k)
	admin, _ := tokenOf(t, k, app.TokenGrant{Roles: []string{runtime.RoleAdmin}})
	tag := c.ask(t, admin, "GET", "/v1/policy", "").Header.Get("ETag") // of an empty text
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]heard{
		"asked for": c.ask(t, admin, "GET", "/v1/policy", ""),
		"replaced":  c.ask(t, admin, "PUT", "/v1/policy", "version: 1\n", "Content-Type", "application/yaml", "If-Match", tag),
	} {
		if got.Status != 400 || strings.Contains(got.Body, dir) {
			t.Errorf("%s: %d %s", what, got.Status, got.Body)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it was written where nothing is")
	}
}

// In TLS, and with what has begun let end when it stops.
func TestTheAPIEndsWhatHasBegun(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	cert, key := certificate(t)
	a := k.Open(t, "serve")
	ctx, stop := context.WithCancel(t.Context())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- a.ServeAPI(ctx, app.APIOptions{Listen: "127.0.0.1:0", Cert: cert, Key: key, Ready: func(url, _ string) { ready <- url }})
	}()
	base := <-ready
	if !strings.HasPrefix(base, "https://") {
		t.Errorf("it says %s", base)
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	c := &api{base, &http.Client{Transport: transport, Timeout: 30 * time.Second}}
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	operator, _ := tokenOf(t, k, app.TokenGrant{Roles: []string{runtime.RoleOperator}})
	answered := make(chan heard, 1)
	go func() {
		answered <- c.ask(t, agent, "POST", "/v1/actions/notes/delete-note:execute", `{"input":{"id":3},"wait":"1m"}`)
	}()
	var id string
	apptest.Eventually(t, "the question", func() bool {
		items, _ := c.ask(t, operator, "GET", "/v1/approvals", "").items(t)
		if len(items) == 1 {
			id = items[0]["id"].(string)
		}
		return id != ""
	})
	stop()
	if _, err := k.Open(t, "").Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; got.Status != 200 {
		t.Errorf("what had begun: %d %s", got.Status, got.Body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

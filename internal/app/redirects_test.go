package app_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// redirecting is an upstream that has moved: what was asked for is at another path or host, and
// what a POST has made is at /made.
func redirecting() servicestest.Options {
	moved := func(head string) servicestest.Behave {
		return func(c *servicestest.Conn, r *servicestest.Request) bool {
			const body = `{"said":"of the redirect"}`
			return c.ReadBody(r) == nil && c.Send(fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body))
		}
	}
	found := func(c *servicestest.Conn, _ *servicestest.Request) bool {
		return c.Send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{\"id\":7}")
	}
	return servicestest.Options{Routes: map[string]servicestest.Behave{
		"/moved": moved("301 Moved Permanently\r\nLocation: /notes/7"), "/asked": moved("302 Found\r\nLocation: /made"),
		"/strict":  moved("303 See Other\r\nLocation: /busy"),
		"/garbled": moved("303 See Other\r\nLocation: /unreadable"),
		"/unreadable": func(c *servicestest.Conn, _ *servicestest.Request) bool {
			return c.Send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\xff\xfe")
		},
		"/keys":    moved("303 See Other\r\nLocation: https://elsewhere.test/"),
		"/away":    moved("302 Found\r\nLocation: https://elsewhere.test/"),
		"/notes":   moved("303 See Other\r\nLocation: /made"),
		"/notes/9": moved("307 Temporary Redirect\r\nLocation: /notes/7"),
		"/notes/7": found, "/made": found, "/busy": func(c *servicestest.Conn, _ *servicestest.Request) bool { return c.Send(tooMany) },
	}}
}

const asksFor = "version: 1\nrules:\n  - {name: asks, match: {action: notes.read-as}, when: '%s', then: require_approval}\n  - {name: rest, match: {action: \"*\"}, then: allow}\n"

// A script gets what a call gets: what stands behind a redirect, or an error, and each request
// of it is recorded as of the script's call.
func TestAScriptFollowsRedirects(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: fmt.Sprintf(asksFor, "false"), Upstream: redirecting()})
	session := mcpProcess(t, k)
	for code, want := range map[string]string{
		`return await tools.notes.readAs({how: "moved"})`:  `{"id":7}`,
		`return await tools.notes.createNote({text: "a"})`: `{"id":7}`,
	} {
		got := use(t, session, "execute", map[string]any{"code": code})
		if got.Failed || !got.Success || string(got.Value) != want {
			t.Errorf("%s: %s", code, got.Text)
		}
	}
	for code, want := range map[string]string{
		`await tools.notes.readAs({how: "away"})`: "redirects to another host",
		`await tools.notes.deleteNote({id: 9})`:   "answered a DELETE with a redirect (307)",
	} {
		if got := use(t, session, "execute", map[string]any{"code": code}); !got.Failed || !strings.Contains(got.Text, want) {
			t.Errorf("%s: %s", code, got.Text)
		}
	}
	got := use(t, session, "execute", map[string]any{"code": `await tools.notes.readAs({how: "moved"})`, "allow": []string{"notes.read-as"}})
	if !got.Failed || !strings.Contains(got.Text, "what this execution may use does not cover this action") {
		t.Errorf("beyond the list of the script: %s", got.Text)
	}
	_, id, _ := strings.Cut(use(t, session, "execute", map[string]any{"code": `await tools.notes.readAs({how: "moved"})`}).Text, `"executionId":"`)
	id, _, _ = strings.Cut(id, `"`)
	if n, err := app.Begun(t.Context(), k.Open(t, ""), runtime.DefaultTenant, id); err != nil || n != 1 {
		t.Errorf("%s has begun %d calls: %v", id, n, err)
	}
	apptest.Eventually(t, "the records of the hops", func() bool {
		return slices.ContainsFunc(k.Records(t), func(r apptest.Record) bool {
			return r.Action == "notes.get-note" && r.Kind == "intent" && strings.Contains(r.Line, `"execution":"exe_`) && strings.Contains(r.Line, `"step":1`)
		})
	})
}

// A person who is asked about where a redirect leads says yes to that, and the script goes on
// from its call; but not behind what must not be done twice.
func TestAScriptAsksAboutARedirect(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: fmt.Sprintf(asksFor, `args.how == "made"`), Upstream: redirecting()})
	session := mcpProcess(t, k)
	got := use(t, session, "execute", map[string]any{"code": `return await tools.notes.readAs({how: "asked"})`})
	if got.Paused == nil {
		t.Fatalf("a redirect to what must be asked: %s", got.Text)
	}
	if _, err := k.Open(t, "").Accept(t.Context(), got.Paused.ApprovalID, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if got = use(t, session, "resume", map[string]any{"id": got.Paused.ExecutionID}); !strings.Contains(got.Text, `"id":7`) {
		t.Errorf("after a yes: %s", got.Text)
	}
	got = use(t, session, "execute", map[string]any{"code": `
		try { await tools.notes.createNote({text: "a"}) } catch (e) { return {retryable: e.retryable, message: e.message} }`})
	var said struct {
		Retryable bool
		Message   string
	}
	if err := json.Unmarshal(got.Value, &said); err != nil || said.Retryable || !strings.Contains(said.Message, "notes.create-note was done") || !strings.Contains(said.Message, "a person would have to approve") {
		t.Errorf("behind a POST: %v in %s", err, got.Text)
	}
	posts := 0
	for _, r := range k.Up.Requests() {
		if r.Method == "POST" {
			posts++
		}
	}
	if posts != 1 {
		t.Errorf("the POST was sent %d times", posts)
	}
}

// Whoever is told that a redirect was not followed is told too that the request before it was
// done: the next thing would be to send it again.
func TestARedirectBehindWhatWasDoneSaysSo(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: fmt.Sprintf(asksFor, "false"), Upstream: redirecting()})
	session := mcpProcess(t, k)
	got := use(t, session, "call", map[string]any{"action": "notes.create-key", "args": map[string]any{"fields": map[string]any{"name": "a"}}})
	for _, said := range []string{"notes.create-key was done", "redirects to another host", "do not send it again"} {
		if !got.Failed || !strings.Contains(got.Text, said) {
			t.Errorf("%q is not said: %s", said, got.Text)
		}
	}
}

// What a person said yes to is followed as it is without a question, and each hop is judged.
func TestARedirectIsFollowedAfterAYes(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: fmt.Sprintf(asksFor, `args.how in ["moved", "away", "asked", "made"]`), Upstream: redirecting()})
	owner, session, api := k.Open(t, ""), mcpProcess(t, k), newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	over := func(how string) (string, runtime.Code) { // a question over REST, and its result
		id := api.ask(t, agent, "POST", "/v1/actions/notes/read-as:execute", `{"input":{"how":"`+how+`"}}`).problem(t).ApprovalID
		if _, err := owner.Accept(t.Context(), id, app.Yes{}); err != nil {
			t.Fatal(err)
		}
		got := api.ask(t, agent, "POST", "/v1/approvals/"+id+":result", `{}`)
		if got.Status == 200 {
			return got.Body, ""
		}
		return got.Body, got.problem(t).Code
	}
	if got, code := over("moved"); code != "" || !strings.Contains(got, `{"id":7}`) {
		t.Errorf("over REST: %s", got)
	}
	if got, code := over("away"); code != runtime.CodeUpstream || !strings.Contains(got, "redirects to another host") {
		t.Errorf("to another host: %s", got)
	}
	got, code := over("asked")
	if code != runtime.CodeApprovalPending {
		t.Errorf("to what must be asked: %s", got)
	}
	_, further, _ := strings.Cut(got, `"approval_id":"`)
	further, _, _ = strings.Cut(further, `"`)
	if _, err := owner.Accept(t.Context(), further, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if got := api.ask(t, agent, "POST", "/v1/approvals/"+further+":result", `{}`); got.Status != 200 || !strings.Contains(got.Body, `{"id":7}`) {
		t.Errorf("what was asked about behind a redirect: %d %s", got.Status, got.Body)
	}
	asked := use(t, session, "call", map[string]any{"action": "notes.read-as", "args": map[string]any{"how": "moved"}})
	if _, err := owner.Accept(t.Context(), asked.Pending.ApprovalID, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if got := use(t, session, "resume", map[string]any{"id": asked.Pending.ApprovalID}); got.Failed || got.Status != 200 || string(got.Result) != `{"id":7}` {
		t.Errorf("over MCP: %s", got.Text)
	}
}

// Nor is what it redirects to, when that is busy or cannot be read, a reason to try again: who obeys
// has it done twice. So it is with an answer of its own that cannot be read.
func TestAnAnswerBehindWhatWasDoneIsNoReasonToTryAgain(t *testing.T) {
	t.Parallel()
	const more = `  make-busy: {description: Make, method: POST, path: /strict, risk: {level: medium}}
  make-garbled: {description: Make, method: POST, path: /garbled, risk: {level: medium}}
  make-unreadable: {description: Make, method: POST, path: /unreadable, risk: {level: medium}}
`
	k := apptest.New(t, apptest.Options{Policy: fmt.Sprintf(asksFor, "false"), Upstream: redirecting(), Services: []string{apptest.Notes + more}})
	session := mcpProcess(t, k)
	const behind = "was done, and what it redirects to was not read: "
	for action, said := range map[string][]string{
		"notes.make-busy":       {behind + "notes answered 429 Too Many Requests", "do not send it again for that"},
		"notes.make-garbled":    {behind + "the answer says that it is gzip", "do not send it again for that"},
		"notes.make-unreadable": {"the answer says that it is gzip", "it was done: do not send it again for that"},
	} {
		got := use(t, session, "call", map[string]any{"action": action})
		for _, want := range said {
			if !got.Failed || !strings.Contains(got.Text, want) {
				t.Errorf("%s: %q is not said: %s", action, want, got.Text)
			}
		}
		if strings.Contains(got.Text, "try again") || strings.Contains(got.Text, string(runtime.CodeRateLimited)) {
			t.Errorf("%s is to be tried again: %s", action, got.Text)
		}
	}
}

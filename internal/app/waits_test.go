package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// waiters are a REST server and an MCP server over one home, whose callers wait.
type waiters struct {
	rest, mcp *app.App
	api       *api
	url       string // of MCP
	ends      chan string
}

func newWaiters(t *testing.T, k *apptest.Kimbap) *waiters {
	t.Helper()
	w := &waiters{rest: k.Open(t, "serve"), mcp: k.Open(t, "mcp"), ends: make(chan string, 10)}
	ctx, stop := context.WithCancel(context.Background())
	urls, done := make(chan string, 2), make(chan error, 2)
	go func() {
		done <- w.rest.ServeAPI(ctx, app.APIOptions{Listen: "127.0.0.1:0", Ready: func(url, _ string) { urls <- url }})
	}()
	transport := &http.Transport{}
	w.api = &api{<-urls, &http.Client{Transport: transport, Timeout: time.Minute}}
	go func() {
		done <- w.mcp.ServeMCP(ctx, app.MCPOptions{Listen: "127.0.0.1:0", Version: "test", Ready: func(at net.Addr) { urls <- "http://" + at.String() + "/mcp" }})
	}()
	w.url = <-urls
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	return w
}

// ask waits over REST, until the end is told.
func (w *waiters) ask(t *testing.T, token, path, body string) {
	go func() {
		a := w.api.ask(t, token, "POST", path, body)
		var p runtime.Problem
		_ = json.Unmarshal([]byte(a.Body), &p) // what is no problem has no code
		w.ends <- fmt.Sprintf("%s: %d %s %s", path, a.Status, p.Code, p.Reason)
	}()
}

// use waits for a tool, until the end is told.
func (w *waiters) use(t *testing.T, session *sdk.ClientSession, tool string, args map[string]any) {
	go func() {
		r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			w.ends <- tool + ": " + err.Error()
			return
		}
		text, _ := json.Marshal(r.StructuredContent)
		var said struct{ Error runtime.Problem }
		_ = json.Unmarshal(text, &said) // what is no error has none
		w.ends <- fmt.Sprintf("%s: %d %s %s", tool, http.StatusUnauthorized, said.Error.Code, said.Error.Reason)
	}()
}

// Who waits for a person hears that the token is no longer good, whatever for and however
// long the caller would wait. Others wait on, and nothing is sent.
func TestAWaitEndsWithItsToken(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"token_revoked", "token_expired"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			var ahead atomic.Int64
			k := apptest.New(t, apptest.Options{
				Policy: askWrites, Scripts: apptest.Worker(t), Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
			})
			w := newWaiters(t, k)
			token, id := tokenOf(t, k, app.TokenGrant{})
			other, _ := tokenOf(t, k, app.TokenGrant{TTL: 3 * time.Hour})
			session := mcpOver(t, w.url, token)
			const create = "/v1/actions/notes/create-note:execute"
			held := w.api.ask(t, token, "POST", create, `{"input":{"text":"held"}}`).problem(t).ApprovalID
			w.ask(t, other, create, `{"input":{"text":"another's"},"wait":"1h"}`)
			w.ask(t, token, create, `{"input":{"text":"call"},"wait":"1h"}`)
			w.ask(t, token, "/v1/approvals/"+held+":result", `{"wait":"1h"}`)
			w.ask(t, token, "/v1/exec", `{"code":"return await tools.notes.createNote({text: 'script'})","wait":"1h"}`)
			w.use(t, session, "call", map[string]any{"action": "notes.create-note", "args": map[string]any{"text": "tool"}, "wait": 300})
			w.use(t, session, "resume", map[string]any{"id": held, "wait": 300})
			w.use(t, session, "execute", map[string]any{"code": "return await tools.notes.createNote({text: 'tool script'})", "wait": 300})
			apptest.Within(t, soon, "all who wait, and the scripts no longer in a call", func() bool {
				paused := 0
				for _, r := range k.Records(t) {
					if r.Event == "exec.pause" {
						paused++
					}
				}
				return paused == 2 && app.Waiting(w.rest) == 4 && app.Waiting(w.mcp) == 3
			})
			before := k.Up.Received()
			if reason == "token_expired" {
				ahead.Store(int64(time.Hour))
			} else if revoked, err := k.Open(t, "").RevokeToken(t.Context(), id); err != nil || !revoked {
				t.Fatal(revoked, err)
			}
			late := time.After(soon)
			for range 6 {
				select {
				case end := <-w.ends:
					if !strings.HasSuffix(end, ": 401 unauthenticated "+reason) {
						t.Error(end)
					}
				case <-late:
					t.Fatalf("%d and %d wait still", app.Waiting(w.rest), app.Waiting(w.mcp))
				}
			}
			owner := k.Open(t, "")
			list, err := owner.ListApprovals(t.Context(), false)
			if err != nil || len(list) != 6 {
				t.Errorf("%d are pending: %v", len(list), err)
			}
			for _, p := range list {
				if _, err := owner.Reject(t.Context(), p.ID, "no"); err != nil {
					t.Error(err)
				}
			}
			if end := <-w.ends; !strings.Contains(end, "approval_rejected") {
				t.Errorf("another's: %s", end)
			}
			if got := k.Up.Received(); got != before {
				t.Errorf("the upstream got %d bytes", got-before)
			}
		})
	}
}

// A command has no watch, and hears of it all the same.
func TestTheWaitOfACommandEndsWithItsToken(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	token, id := tokenOf(t, k, app.TokenGrant{})
	held := apptest.Send(t, k.Client(t, token), write, `{"text":"held"}`).Problem.Approval
	command := k.Open(t, "")
	ended := make(chan error, 1)
	go func() {
		ended <- app.WaitAs(t.Context(), command, runtime.Caller{Token: runtime.NewSecret(token)}, held)
	}()
	apptest.Within(t, soon, "the wait", func() bool { return app.Waiting(command) == 1 })
	if revoked, err := k.Open(t, "").RevokeToken(t.Context(), id); err != nil || !revoked {
		t.Fatal(revoked, err)
	}
	select {
	case err := <-ended:
		if e := runtime.AsError(err); e == nil || e.Code != runtime.CodeUnauthenticated || e.Reason != runtime.ReasonTokenRevoked {
			t.Error(err)
		}
	case <-time.After(soon):
		t.Error("it waits still")
	}
}

// Of a tenant that is removed all is gone at once, the approvals too: who waits for one, or
// begins to before it is known here, hears of the token, as where that was revoked.
func TestAWaitEndsWithItsTenant(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	token := acmes(t, k)
	w := newWaiters(t, k)
	session := mcpOver(t, w.url, token)
	const create = "/v1/actions/notes/create-note:execute"
	held := w.api.ask(t, token, "POST", create, `{"input":{"text":"held"}}`).problem(t).ApprovalID
	for n := range 8 {
		w.ask(t, token, create, fmt.Sprintf(`{"input":{"text":"%d"},"wait":"1h"}`, n))
		w.ask(t, token, "/v1/approvals/"+held+":result", `{"wait":"1h"}`)
	}
	w.use(t, session, "resume", map[string]any{"id": held, "wait": 300})
	apptest.Within(t, soon, "all who wait", func() bool { return app.Waiting(w.rest) == 16 && app.Waiting(w.mcp) == 1 })
	command := k.Open(t, "")
	caller := runtime.Caller{Token: runtime.NewSecret(token)}
	knows, stop := context.WithCancel(t.Context())
	known := make(chan error, 1)
	go func() { known <- app.WaitAs(knows, command, caller, held) }()
	apptest.Within(t, soon, "the command", func() bool { return app.Waiting(command) == 1 })
	stop()
	if err := <-known; runtime.CodeOf(err) != runtime.CodeCanceled {
		t.Fatal(err)
	}
	if _, removed, err := k.Open(t, "").RemoveTenant(t.Context(), acme, true, agrees); err != nil || !removed {
		t.Fatal(removed, err)
	}
	if e := runtime.AsError(app.WaitAs(t.Context(), command, caller, held)); e == nil || e.Code != runtime.CodeUnauthenticated || e.Reason != runtime.ReasonTokenUnknown {
		t.Errorf("a command: %v", e)
	}
	late := time.After(soon)
	for range 17 {
		select {
		case end := <-w.ends:
			if !strings.HasSuffix(end, ": 401 unauthenticated token_unknown") {
				t.Error(end)
			}
		case <-late:
			t.Fatalf("%d and %d wait still", app.Waiting(w.rest), app.Waiting(w.mcp))
		}
	}
}

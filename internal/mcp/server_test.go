package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/runtime"
)

func TestNewRefusesWhatIsMissing(t *testing.T) {
	for name, drop := range map[string]func(*Options){
		"Identify": func(o *Options) { o.Identify = nil }, "Call": func(o *Options) { o.Call = nil },
		"Collect": func(o *Options) { o.Collect = nil }, "Version": func(o *Options) { o.Version = "" },
	} {
		o := whole()
		drop(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// Numbers keep their digits on the way in, and text its characters on the way out.
func TestArgumentsAreTakenAsWritten(t *testing.T) {
	session := serve(t, whole(), "", nil)
	_, text := call(t, session, "call", json.RawMessage(`{"action":"a.b","args":{"n":12345678901234567890,"f":1.0,"s":"<é>"}}`))
	var args struct{ N, F json.Number }
	if err := json.Unmarshal([]byte(text), &args); err != nil || args.N != "12345678901234567890" || args.F != "1.0" {
		t.Errorf("%s %v", text, err)
	}
	if _, text := call(t, session, "search", map[string]any{}); text != `{"text":"<&>"}` {
		t.Errorf("%s", text)
	}
}

// An empty list of what a script may use is no leave to use all, as over REST.
func TestAnEmptyListAllowsNotEverything(t *testing.T) {
	o := whole()
	o.Execute = func(context.Context, runtime.Caller, Script) (Execution, error) {
		t.Error("it ran")
		return Execution{}, nil
	}
	if r, text := call(t, serve(t, o, "", nil), "execute", map[string]any{"code": "return 1", "allow": []string{}}); !r.IsError || !strings.HasPrefix(text, "invalid_input: ") {
		t.Errorf("%s", text)
	}
}

func TestAPanicIsAToolError(t *testing.T) {
	session := serve(t, whole(), "", nil)
	if r, text := call(t, session, "describe", map[string]any{"name": "x"}); !r.IsError || strings.Contains(text, "secret") || !strings.HasPrefix(text, "internal: ") {
		t.Errorf("%s", text)
	}
	if r, _ := call(t, session, "search", map[string]any{}); r.IsError {
		t.Error("it does not live any more")
	}
}

// A model has no terminal: where a hint has flags, it is told of members.
func TestHintsAreWithoutFlags(t *testing.T) {
	o := whole()
	o.Execute = func(context.Context, runtime.Caller, Script) (Execution, error) {
		return Execution{}, &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "no", Hint: "--for 10m", Ask: `"for": "10m"`}
	}
	r, text := call(t, serve(t, o, "", nil), "execute", map[string]any{"code": "return 1"})
	whole, err := json.Marshal(r.StructuredContent)
	if err != nil || !strings.HasSuffix(text, "\nhint: \"for\": \"10m\"") || strings.Contains(string(whole), "--for") {
		t.Errorf("%s, %s, %v", text, whole, err)
	}
}

// Nor has it the pages of the REST API.
func TestAnIDThatNobodyKnowsIsToldOfTheTool(t *testing.T) {
	o := whole()
	o.Collect = func(context.Context, runtime.Caller, Resumption) (Answer, error) {
		return Answer{}, &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "none", Hint: "kimbap approve list --all", Ask: "GET /v1/approvals"}
	}
	if _, text := call(t, serve(t, o, "", nil), "resume", map[string]any{"id": "apr_x"}); strings.Contains(text, "/v1/") || !strings.Contains(text, "approvalId or executionId") {
		t.Error(text)
	}
}

// A client that asks for more than fits is told, and gets its place back.
func TestCallsAtOnceAreBounded(t *testing.T) {
	o := whole()
	entered, leave := make(chan struct{}), make(chan struct{})
	o.Call = func(context.Context, runtime.Caller, Call) (Answer, error) {
		entered <- struct{}{}
		<-leave
		return Answer{}, nil
	}
	session := serve(t, o, "", nil)
	var wg sync.WaitGroup
	for range maxInFlight {
		wg.Go(func() {
			if r, text := call(t, session, "call", map[string]any{"action": "a.b"}); r.IsError {
				t.Error(text)
			}
		})
	}
	for range maxInFlight {
		<-entered
	}
	if r, text := call(t, session, "search", map[string]any{}); !r.IsError || !strings.HasPrefix(text, "rate_limited: ") {
		t.Errorf("%s", text)
	}
	close(leave)
	wg.Wait()
	if r, text := call(t, session, "search", map[string]any{}); r.IsError {
		t.Error(text)
	}
}

// Over HTTP the calls of one caller leave room for those of others.
func TestOneCallerLeavesRoomForOthers(t *testing.T) {
	o := whole()
	o.RequireToken = true
	o.Identify = func(_ context.Context, c runtime.Caller) (runtime.Principal, error) {
		return runtime.Principal{ID: "token:" + c.Token.Reveal(), Tenant: runtime.DefaultTenant}, nil
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	of := func(token string) *sdk.CallToolRequest {
		return &sdk.CallToolRequest{Extra: &sdk.RequestExtra{Header: http.Header{"Authorization": {"Bearer " + token}}}}
	}
	var leave func()
	for i := range maxInFlight / 2 {
		if leave, err = s.enter(t.Context(), of("greedy")); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if _, err := s.enter(t.Context(), of("greedy")); runtime.CodeOf(err) != runtime.CodeRateLimited {
		t.Errorf("one more: %v", err)
	}
	if _, err := s.enter(t.Context(), of("other")); err != nil {
		t.Errorf("another: %v", err)
	}
	leave()
	if _, err := s.enter(t.Context(), of("greedy")); err != nil {
		t.Errorf("once there is room: %v", err)
	}
	for i := range maxInFlight/2 - 1 { // beside the one of other
		if _, err := s.enter(t.Context(), of("crowd")); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	for token, want := range map[string]string{"greedy": "32 tools run or wait already", "late": "64 tools of all callers run or wait already"} {
		if _, err := s.enter(t.Context(), of(token)); err == nil || runtime.AsError(err).Msg != want {
			t.Errorf("%s, where there is no room: %v", token, err)
		}
	}
}

// A notice that nobody answers delays nothing, and ends with the server.
func TestNoticesAreNotWaitedFor(t *testing.T) {
	o := whole()
	o.Call = func(_ context.Context, _ runtime.Caller, c Call) (Answer, error) {
		c.Pending("apr_1", time.Now().Add(time.Hour))
		return Answer{}, &runtime.Error{Code: runtime.CodeApprovalPending, ApprovalID: "apr_1", Msg: "a person must decide"}
	}
	shown := make(chan string, 1)
	session := serve(t, o, "2025-11-25", &sdk.ClientOptions{
		ElicitationHandler: func(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			shown <- r.Params.Message
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	r, text := call(t, session, "call", map[string]any{"action": "a.b"})
	if r.IsError || !strings.Contains(text, "apr_1") {
		t.Errorf("%s", text)
	}
	if message := <-shown; !strings.Contains(message, "apr_1") || !strings.Contains(message, "decides nothing") {
		t.Errorf("%s", message)
	}
}

// A call that waits for a person does not keep the process.
func TestWaitingCallsEndWithTheServer(t *testing.T) {
	o := whole()
	began, ended := make(chan struct{}), make(chan error, 1)
	o.Call = func(ctx context.Context, _ runtime.Caller, _ Call) (Answer, error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return Answer{}, ctx.Err()
	}
	t.Cleanup(func() {
		if err := <-ended; err == nil { // after the server has ended
			t.Error("it was not told")
		}
	})
	session := serve(t, o, "", nil)
	go func() {
		_, _ = session.CallTool(context.Background(), &sdk.CallToolParams{Name: "call", Arguments: map[string]any{"action": "a.b", "wait": 300}})
	}()
	<-began
}

// A client that does not read what it asked for does not keep the process either.
func TestAClientThatDoesNotReadKeepsNoServer(t *testing.T) {
	s, err := New(whole())
	if err != nil {
		t.Fatal(err)
	}
	s.patience = 50 * time.Millisecond
	in, toServer := io.Pipe()
	_, out := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, in, out) }()
	if _, err := io.WriteString(toServer, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it was told to end, and goes on")
		_ = out.Close()
	}
}

// What a caller's actions cannot do, the hints do not warn of; with an unknown
// caller they warn of everything.
func TestHintsAreThoseOfTheWorstAction(t *testing.T) {
	for _, c := range []struct {
		reach                          Reach
		readOnly, destructive, repeats bool
	}{
		{Reach{}, false, true, false}, {Reach{Harmless: true}, false, false, false},
		{Reach{ReadOnly: true, Harmless: true, Repeatable: true}, true, false, true},
	} {
		o := whole()
		o.Reach = func(*runtime.Principal) Reach { return c.reach }
		list, err := serve(t, o, "", nil).ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			a := tool.Annotations
			if tool.Name != "search" && tool.Name != "describe" && (a.ReadOnlyHint != c.readOnly || *a.DestructiveHint != c.destructive || a.IdempotentHint != c.repeats) {
				t.Errorf("%+v: %s is %+v", c.reach, tool.Name, a)
			}
		}
	}
	o := whole()
	o.Reach = func(*runtime.Principal) Reach { return Reach{ReadOnly: true} }
	o.Identify = func(context.Context, runtime.Caller) (runtime.Principal, error) {
		return runtime.Principal{}, &runtime.Error{Code: runtime.CodeUnauthenticated}
	}
	list, err := serve(t, o, "", nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if tool.Name == "call" && tool.Annotations.ReadOnlyHint {
			t.Error("nobody's tools are called harmless")
		}
	}
}

// What the list of tools says depends on who asks: no cache may give it to others.
func TestTheListOfToolsIsForWhoAsked(t *testing.T) {
	list, err := serve(t, whole(), "", nil).ListTools(t.Context(), nil)
	if err != nil || list.CacheScope != "private" {
		t.Errorf("%+v %v", list, err)
	}
}

package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

// whole are options with everything that a test does not look at.
func whole() Options {
	return Options{
		Identify: func(context.Context, runtime.Caller) (runtime.Principal, error) {
			return runtime.Principal{ID: "x"}, nil
		},
		Reach:    func(*runtime.Principal) Reach { return Reach{} },
		Search:   func(context.Context, runtime.Caller, Search) (any, error) { return map[string]any{"text": "<&>"}, nil },
		Describe: func(context.Context, runtime.Caller, string) (any, error) { panic("secret-in-panic") },
		Call: func(_ context.Context, _ runtime.Caller, c Call) (Answer, error) {
			text, err := json.Marshal(c.Args)
			return Answer{Status: 200, Value: text}, err
		},
		Execute: func(context.Context, runtime.Caller, Script) (Execution, error) {
			return Execution{Body: map[string]any{}}, nil
		},
		Resume: func(context.Context, runtime.Caller, Resumption) (Execution, error) {
			return Execution{Body: map[string]any{}}, nil
		},
		Collect: func(context.Context, runtime.Caller, Resumption) (Answer, error) { return Answer{}, nil },
		Health:  func(context.Context) error { return nil },
		Version: "test", Log: zerolog.Nop(),
	}
}

// byToken is a server whose callers are who their token says, and a place to serve at.
func byToken(t *testing.T) (*Server, net.Listener) {
	t.Helper()
	o := whole()
	o.RequireToken = true
	o.Identify = func(_ context.Context, c runtime.Caller) (runtime.Principal, error) {
		return runtime.Principal{ID: c.Token.Reveal()}, nil
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return s, ln
}

// serve runs a server over pipes and returns a client of it.
func serve(t *testing.T, o Options, version string, client *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, s, version, client)
}

// connect runs s over pipes and returns a client of it.
func connect(t *testing.T, s *Server, version string, client *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { done <- s.Run(ctx, in, out) }()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, client).
		Connect(t.Context(), &sdk.IOTransport{Reader: fromServer, Writer: toServer}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop() // with the client still there
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = session.Close()
	})
	return session
}

func call(t *testing.T, session *sdk.ClientSession, tool string, args any) (result *sdk.CallToolResult, text string) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range result.Content {
		if part, is := c.(*sdk.TextContent); is {
			text += part.Text
		}
	}
	return result, text
}

// overPipes starts a server, and returns what it hears and says, and how it ends.
func overPipes(t *testing.T) (toServer io.WriteCloser, fromServer io.Reader, done <-chan error) {
	t.Helper()
	s, err := New(whole())
	if err != nil {
		t.Fatal(err)
	}
	in, to := io.Pipe()
	from, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context(), in, out) }()
	return to, from, ended
}

package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/mcp"
	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// maxClients bounds the connections of an MCP server over HTTP; those of nobody give way.
const maxClients = 256

// dawdling is how long such a client may leave one piece of an answer untaken.
const dawdling = 30 * time.Second

// MCPOptions say how an MCP server is reached.
type MCPOptions struct {
	In      io.ReadCloser  // of the one client, with Out; not used with Listen
	Out     io.WriteCloser // closed with In
	Listen  string         // host:port of this machine alone, where a token must be shown; "": In and Out
	Version string
	Ready   func(addr net.Addr) // told where, with Listen; may be nil
}

// ServeMCP serves actions and scripts as tools of the Model Context Protocol
// until ctx ends, or the client on In goes.
func (a *App) ServeMCP(ctx context.Context, o MCPOptions) error {
	m := a.mcpOptions(o.Version)
	m.RequireToken = o.Listen != ""
	listen, transport := "", "stdio"
	var ln net.Listener
	var err error
	if o.Listen == "" {
		if m.Caller, err = a.Caller(ctx); err == nil {
			_, err = a.identity.Identify(ctx, m.Caller) // a token that is not valid is said at once
		}
	} else if ln = a.entrance.ln; ln == nil {
		ln, err = mcpListener(o.Listen)
	}
	if err != nil {
		return err
	}
	if ln != nil {
		a.listeners.Add(ln.Addr())
		listen, transport = ln.Addr().String(), "http"
	}
	server, err := mcp.New(m)
	if err == nil {
		a.addState(roster.MCP, listen)
		defer a.removeState()
		err = a.inLedger(ctx, a.mcpEvent("mcp.start", transport, listen))
	}
	if err != nil {
		if ln != nil {
			_ = ln.Close()
		}
		return err
	}
	defer server.Close()
	defer a.watching(ctx, nil, unproxied{})()
	if ln == nil {
		defer a.mcpSessions.add(server)()
		err = server.Run(ctx, o.In, o.Out)
	} else {
		bounded := socket.Bounded(ln, socket.Bounds{Most: maxClients, Patience: dawdling, Clock: a.o.Clock})
		err = serveHTTP(ctx, server.HTTP(), bounded, server.Close, o.Ready)
	}
	last := a.mcpEvent("mcp.stop", transport, listen)
	last.Fields = stopFields(ctx, last.Fields)
	_ = a.told(last)
	return err
}

// mcpSessions are the MCP servers with a session that lives on, each with its one client.
type mcpSessions struct {
	mu  sync.Mutex
	all map[*mcp.Server]struct{}
}

// add has s told of other services until done.
func (m *mcpSessions) add(s *mcp.Server) (done func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[*mcp.Server]struct{}{}
	}
	m.all[s] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.all, s)
	}
}

// toolsChanged tells all of them that the services are others.
func (m *mcpSessions) toolsChanged() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.all {
		s.ToolsChanged()
	}
}

// mcpOptions are what every MCP server of this kimbap does.
func (a *App) mcpOptions(version string) mcp.Options {
	return mcp.Options{
		Identify: a.identity.Identify, Reach: a.mcpReach, Search: a.mcpSearch, Describe: a.mcpDescribe,
		Call: a.mcpCall, Execute: a.mcpExecute, Resume: a.mcpResume, Collect: a.mcpCollect, Health: a.Health,
		Version: version, Log: a.o.Log,
	}
}

func (a *App) mcpEvent(kind, transport, listen string) record.Event {
	fields := map[string]string{"transport": transport}
	if listen != "" {
		fields["listen"] = listen
	}
	return record.Event{Kind: kind, Principal: a.Operator().ID, Fields: fields}
}

// mcpListener listens on this machine alone.
func mcpListener(where string) (net.Listener, error) {
	if host, _, err := net.SplitHostPort(where); err != nil || !socket.Loopback(host) {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "--listen is not an address of this machine alone: tokens would be sent in clear",
			Hint: "kimbap mcp --listen 127.0.0.1:7790",
		}
	}
	return socket.Listen(where, "kimbap mcp --listen 127.0.0.1:0")
}

// serveHTTP serves until ctx ends, then drains; what does not end by itself is cut.
func serveHTTP(ctx context.Context, server *http.Server, ln net.Listener, cut func(), ready func(net.Addr)) error {
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	if ready != nil {
		ready(ln.Addr())
	}
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		if server.Shutdown(stopping) != nil {
			cut()
			_ = server.Close()
		}
		err = <-done
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

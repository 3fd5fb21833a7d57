package app

import (
	"context"
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
	server, err := mcp.New(m)
	if err != nil {
		if ln != nil {
			_ = ln.Close()
		}
		return err
	}
	defer server.Close()
	if ln == nil {
		return a.announced(ctx, serving{kind: roster.MCP, event: mcpEvent("stdio"), follow: unproxied{}, serve: func() error {
			defer a.mcpSessions.add(server)()
			return server.Run(ctx, o.In, o.Out)
		}})
	}
	event := mcpEvent("http")
	event.Fields["listen"] = ln.Addr().String()
	return a.announced(ctx, serving{kind: roster.MCP, ln: ln, event: event, follow: unproxied{}, serve: func() error {
		if o.Ready != nil {
			o.Ready(ln.Addr())
		}
		return drained(ctx, drain, cutOff{server.HTTP(), server.Close}, socket.Bounded(ln, socket.Bounds{Most: maxClients, Patience: dawdling, Clock: a.o.Clock}))
	}})
}

// cutOff is an HTTP server whose sessions do not end by themselves.
type cutOff struct {
	*http.Server
	cut func()
}

// Shutdown waits for what runs, until ctx ends; then that is cut off.
func (c cutOff) Shutdown(ctx context.Context) error {
	err := c.Server.Shutdown(ctx)
	if err != nil {
		c.cut()
		_ = c.Server.Close()
	}
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

func mcpEvent(transport string) record.Event {
	return record.Event{Kind: "mcp", Fields: map[string]string{"transport": transport}}
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

package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/mcp"
	"github.com/kimbap-run/kimbap/internal/server"
	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
)

// runClients bounds the MCP clients of one run.
const runClients = 16

// MCPSocket is where a run serves MCP: beside the socket that KIMBAP_SOCKET names. What
// is on it is what `kimbap mcp` has on stdin and stdout.
func MCPSocket(socket string) string { return filepath.Join(filepath.Dir(socket), "mcp.sock") }

// mcpForRun serves MCP to the clients of a run: what they start as `kimbap mcp` has no
// home to open, since that is covered.
func (a *App) mcpForRun(path string, as func(runtime.Caller) runtime.Caller, version string) (hangUp func(), err error) {
	ln, err := socket.ListenUnix(path, "kimbap run --help")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	clients.Go(func() {
		room, crowd := make(chan struct{}, runClients), make(chan struct{}, runClients)
		for {
			conn, err := socket.Accept(ctx, ln)
			if err != nil { // the run hangs up
				return
			}
			place, do := room, func() error { return a.mcpOver(ctx, conn, as, version) }
			select {
			case room <- struct{}{}:
			default:
				select { // more than this is told no at a time; others wait for it in the kernel's queue
				case room <- struct{}{}:
				case crowd <- struct{}{}:
					place, do = crowd, func() error { return refuseMCP(ctx, conn) }
				}
			}
			clients.Go(func() {
				defer func() { <-place }()
				defer func() { _ = conn.Close() }()
				if err := contained(do); err != nil {
					a.o.Log.Info().Err(err).Msg("an MCP client of this run")
				}
			})
		}
	})
	return func() { stop(); _ = ln.Close(); clients.Wait() }, nil
}

// contained runs do; a panic over what a client has sent is its error.
func contained(do func() error) (err error) {
	defer runtime.Contain(&err)
	return do()
}

// refusalTime is how long a client for which there is no room may take to ask.
const refusalTime = 5 * time.Second

// refuseMCP says no to a client in its own protocol.
func refuseMCP(ctx context.Context, conn net.Conn) error {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(refusalTime))
	return mcp.Refuse(conn, fmt.Sprintf("this kimbap run has %d MCP clients already: end one of them, and start this one again", runClients))
}

// mcpOver serves one client until it hangs up or ctx ends.
func (a *App) mcpOver(ctx context.Context, conn net.Conn, as func(runtime.Caller) runtime.Caller, version string) error {
	m := a.mcpOptions(version)
	m.Caller = as(runtime.Caller{Peer: server.PeerOf(conn)})
	if _, err := a.identity.Identify(ctx, m.Caller); err != nil {
		return err
	}
	s, err := mcp.New(m)
	if err != nil {
		return err
	}
	defer s.Close()
	defer a.mcpSessions.add(s)()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	return s.Run(ctx, io.NopCloser(conn), conn)
}

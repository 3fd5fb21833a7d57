package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

const mcpLong = `Serve actions and scripts as tools of the Model Context Protocol.

A client that starts it speaks to it over stdin and stdout, as the owner's own
program, or as the token in KIMBAP_TOKEN. With --listen it serves streamable HTTP
at /mcp, on this machine alone, and every request must show a token.

The tools are search, describe, call, execute and resume. What they do is judged
and recorded like every other request; what needs a person's approval is answered
as pending, and only kimbap approve decides it.`

func newMCPCommand(c *cli) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "mcp [--listen ADDR]",
		Short: "Serve actions and scripts to MCP clients",
		Long:  mcpLong,
		Example: `  claude mcp add --scope user kimbap -- kimbap mcp
  codex mcp add kimbap -- kimbap mcp
  kimbap mcp --listen 127.0.0.1:7790`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if conn := c.mcpOfRun(); conn != nil && listen == "" {
				return relay(conn, os.Stdin, os.Stdout)
			}
			c.outliveReaders()
			conceal()
			enter := func(a *app.App) error { return a.EnterMCP(listen) }
			return c.with(cmd.Context(), app.Options{Create: true, Slot: "mcp", StartLocked: true, Entrance: enter}, func(ctx context.Context, a *app.App) error {
				c.warnLocked(a.Locked(), "")
				c.warnIdle(ctx, a)
				longLived()
				return a.ServeMCP(ctx, app.MCPOptions{
					In: os.Stdin, Out: writeCloser{c.out, os.Stdout}, Listen: listen, Version: currentVersion().Version,
					Ready: func(addr net.Addr) { fmt.Fprintf(c.err, "listening on http://%s/mcp\n", addr) },
				})
			})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "serve HTTP on this address instead of stdin and stdout")
	return cmd
}

// writeCloser is what is written in one way and closed in another.
type writeCloser struct {
	io.Writer
	io.Closer
}

// mcpOfRun is a connection to the MCP server of the run that this command is a program
// of, nil outside of one.
func (c *cli) mcpOfRun() *net.UnixConn {
	socket := c.runSocket()
	if socket == "" || c.getenv("KIMBAP_TOKEN") != "" { // a token of its own is for what this process would serve
		return nil
	}
	conn, err := net.Dial("unix", app.MCPSocket(socket))
	if err != nil {
		return nil
	}
	return conn.(*net.UnixConn)
}

// relay passes on what a client says and hears, until the other side hangs up.
func relay(conn *net.UnixConn, in io.Reader, out io.Writer) error {
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = io.Copy(conn, in)
		_ = conn.CloseWrite()
	}()
	_, err := io.Copy(out, conn)
	return err
}

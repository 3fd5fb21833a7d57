package main

import (
	"context"
	"fmt"
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
		Example: `  claude mcp add kimbap -- kimbap mcp
  codex mcp add kimbap -- kimbap mcp
  kimbap mcp --listen 127.0.0.1:7790`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conceal()
			return c.with(cmd.Context(), app.Options{Create: true, Slot: "mcp", StartLocked: true}, func(ctx context.Context, a *app.App) error {
				c.warnLocked(a.Locked(), "")
				app.RelaxCollector()
				return a.ServeMCP(ctx, app.MCPOptions{
					In: os.Stdin, Out: os.Stdout, Listen: listen, Version: currentVersion().Version,
					Ready: func(addr net.Addr) { fmt.Fprintf(c.err, "listening on http://%s/mcp\n", addr) },
				})
			})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "serve HTTP on this address instead of stdin and stdout")
	return cmd
}

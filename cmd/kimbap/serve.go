package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newServeCommand(c *cli) *cobra.Command {
	var listen string
	var o app.APIOptions
	cmd := &cobra.Command{
		Use:   "serve [--listen ADDR] [--tls-cert FILE --tls-key FILE] [--proxy] [--console]",
		Short: "Serve the actions over a REST API",
		Long: `Serve the actions over a REST API.

Every request must show a kimbap token (Authorization: Bearer …). A token with the role
kimbap.operator decides approvals, makes and revokes tokens and reads the trail; one
with kimbap.admin also writes secrets and the policy. GET /openapi.json describes it.
An address that others can reach requires TLS.

With --proxy it also lends a proxy: kimbap run --server and kimbap proxy --server
elsewhere forward what their programs send, each connection with its token.

With --console there is also a page for browsers, where an operator's token signs in.`,
		Example: "  kimbap serve\n  kimbap serve --listen 127.0.0.1:0\n  kimbap serve --listen 0.0.0.0:8443 --tls-cert chain.pem --tls-key key.pem",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.outliveReaders()
			conceal()
			c.setFlag("serve.listen", listen)
			enter := func(a *app.App) error {
				o.Listen = a.Config().Serve.Listen
				return a.EnterAPI(o)
			}
			return c.with(cmd.Context(), app.Options{Create: true, Slot: "serve", StartLocked: true, Stdout: os.Stdout, Entrance: enter}, func(ctx context.Context, a *app.App) error {
				hup, stop := c.untilEnded(ctx, a)
				defer stop()
				o.Reload = hup
				o.Ready = func(url, pages string) {
					fmt.Fprintf(c.err, "serving on %s\n", url)
					if pages != "" {
						fmt.Fprintf(c.err, "console at %s\n", pages)
					}
				}
				return a.ServeAPI(ctx, o)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "", "address to listen on (default 127.0.0.1:8080)")
	f.StringVar(&o.Cert, "tls-cert", "", "certificate chain, PEM")
	f.StringVar(&o.Key, "tls-key", "", "its private key, PEM")
	f.BoolVar(&o.Proxy, "proxy", false, "lend a proxy to kimbap run --server and kimbap proxy --server")
	f.BoolVar(&o.Console, "console", false, "serve the page for browsers too: approvals, the trail, tokens")
	f.BoolVar(&o.Insecure, "insecure-listen", false, "allow a listener beyond loopback, in clear")
	return cmd
}

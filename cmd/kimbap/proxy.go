package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newProxyCommand(c *cli) *cobra.Command {
	var listen, auth, sidecar string
	var insecure bool
	var pins []string
	cmd := &cobra.Command{
		Use:   "proxy [--listen ADDR] [--auth local|token] [--sidecar ADDR|unix:PATH]",
		Short: "Run the proxy for this user's programs",
		Long: `Run the proxy for this user's programs.

Only programs of the same user may use it without a token. A listener that others
can reach requires --auth token. Services and policy are reloaded when their files
change, and on SIGHUP.

It also serves scripts over HTTP (POST /v1/exec): on a socket in the home that only
this user can use, or where --sidecar says. Over TCP every request must show a token.

With --server it has no services and no keys: what this user's programs send goes to
the proxy of that kimbap serve, with the server's token. With --auth token and
--insecure-listen as well, containers reach it; they show a token of its port, which
kimbap env --server URL --shell docker gives them.`,
		Example: "  kimbap proxy\n  kimbap proxy --listen 127.0.0.1:0 --auth token\n  kimbap proxy --sidecar 127.0.0.1:7789\n  kimbap proxy --server https://kimbap.example.com --token-file ~/.kimbap/token",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.outliveReaders()
			if c.serverURL() != "" {
				containers := auth == "token" && insecure
				if cmd.Flags().Changed("sidecar") || !containers && (auth != "" || insecure) {
					return usage("leave --auth, --sidecar and --insecure-listen out; for containers: --listen ADDR --auth token --insecure-listen", "with --server the proxy is for this user's programs alone")
				}
				return c.proxyConnected(cmd.Context(), app.ForwardOptions{
					Listen: cmp.Or(listen, "127.0.0.1:7788"), Pins: pins, Folder: c.serverFolder(), Say: func(line string) { c.say("kimbap: %s", c.atHome(line)) },
					Containers: containers,
					Keys:       c.sayKeys,
					Ready:      func(addr net.Addr) { fmt.Fprintf(c.err, "listening on http://%s\n", addr) },
				})
			}
			if len(pins) > 0 {
				return usage("leave --pin out", "--pin is for --server")
			}
			conceal()
			c.setFlag("proxy.listen", listen)
			c.setFlag("proxy.auth", auth)
			if insecure {
				c.setFlag("insecure-listen", "true")
			}
			enter := func(a *app.App) error { return a.EnterProxy(sidecar) }
			return c.with(cmd.Context(), app.Options{Create: true, Slot: "proxy", StartLocked: true, Stdout: os.Stdout, Entrance: enter}, func(ctx context.Context, a *app.App) error {
				hup, stop := c.untilEnded(ctx, a)
				defer stop()
				return a.Serve(ctx, app.ServeOptions{
					Listen: a.Config().Proxy.Listen, RequireToken: a.Config().Proxy.Auth == "token",
					Reload: hup, State: true,
					Sidecar: sidecar, SidecarSay: c.saySidecar,
					Ready: func(addr net.Addr) { fmt.Fprintf(c.err, "listening on http://%s\n", addr) },
				})
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "", "address to listen on (default 127.0.0.1:7788)")
	f.StringVar(&auth, "auth", "", "local: programs of this user; token: a kimbap token")
	f.StringSliceVar(&pins, "pin", nil, "with --server: SHA-256 of its root certificate, as kimbap ca show says there")
	f.BoolVar(&insecure, "insecure-listen", false, "allow a listener beyond loopback, in clear")
	f.StringVar(&sidecar, "sidecar", "unix:", "where scripts are served: host:port, unix:PATH, or empty for nowhere")
	return cmd
}

// sayKeys says where the address with the token of a port is, and the CA.
func (c *cli) sayKeys(dir string) {
	fmt.Fprintf(c.err, "programs show a token on this system: HTTPS_PROXY=\"$(cat %s)\", and trust %s\n", filepath.Join(dir, "url"), filepath.Join(dir, "ca.pem"))
}

// saySidecar says where scripts are served, or why they are not.
func (c *cli) saySidecar(where string, err error) {
	if err != nil {
		fmt.Fprintf(c.err, "warning: no scripts over HTTP: %s\n", runtime.AsError(err).Msg)
		return
	}
	fmt.Fprintf(c.err, "scripts on %s\n", where)
}

// setFlag gives a configuration key the value of a flag that was used.
func (c *cli) setFlag(key, value string) {
	if value == "" {
		return
	}
	if c.flags == nil {
		c.flags = map[string]string{}
	}
	c.flags[key] = value
}

package main

import (
	"context"
	"net"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

// remoteFlags say that a run's proxy is elsewhere: a bare proxy with --remote, that
// of a kimbap serve with --server.
type remoteFlags struct {
	url  string
	pins []string
}

func (r *remoteFlags) register(f *pflag.FlagSet) {
	f.StringVar(&r.url, "remote", "", "a proxy elsewhere instead of one here: http://HOST:PORT")
	f.StringSliceVar(&r.pins, "pin", nil, "with --remote or --server: SHA-256 of its root certificate, as kimbap ca show says there")
}

// check refuses what does not go together.
func (r *remoteFlags) check(c *cli, o *app.RunOptions) error {
	const fix = "kimbap run --remote http://HOST:7788 --token-file FILE --pin SHA256 -- CMD"
	server := c.serverURL() != ""
	switch {
	case r.url != "" && server:
		return usage(fix+", with --server ''", "--remote is a proxy and --server a kimbap serve: there can be one of them")
	case r.url == "" && !server && (c.flags["server.token_file"] != "" || len(r.pins) > 0):
		return usage(fix, "--token-file and --pin are for --remote and --server")
	case r.url == "" && !server:
		return nil
	case r.url != "" && len(r.pins) == 0:
		return usage(fix, "--remote needs --pin: its certificate comes in clear, and is believed only when it is the one you mean")
	case o.Isolate && o.NoCover:
		return isolateCovers(o)
	case r.url != "" && (o.Unattended || o.Agent != ""):
		return usage("kimbap token create --agent NAME", "with --remote, --unattended and --agent are a matter of the token, over there")
	}
	return nil
}

// runRemote starts a program behind a proxy elsewhere.
func (c *cli) runRemote(ctx context.Context, r *remoteFlags, o app.RunOptions) error {
	token, file := runtime.NewSecret(c.getenv("KIMBAP_TOKEN")), c.flags["server.token_file"]
	if file != "" {
		var err error
		if token, err = tokenIn(file); err != nil {
			return err
		}
	}
	if token.Empty() {
		return usage("kimbap token create --agent NAME --scope '*' on its machine, then --token-file FILE", "--remote needs a token")
	}
	if at, err := url.Parse(r.url); err == nil {
		if ip := net.ParseIP(at.Hostname()); at.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			c.say("kimbap: the token goes to %s in clear: use it in a network you trust", printable(at.Host))
		}
	}
	here, err := c.here()
	if err != nil {
		return err
	}
	code, err := here.RunBare(ctx, app.RemoteOptions{Run: o, URL: r.url, Token: token, TokenFile: file, Pins: r.pins})
	return ofChild(code, err)
}

// runConnected starts a program behind the proxy of a kimbap serve elsewhere.
func (c *cli) runConnected(ctx context.Context, r *remoteFlags, o app.RunOptions) error {
	there, err := c.remote()
	if err != nil {
		return err
	}
	defer there.Close()
	here, err := c.here()
	if err != nil {
		return err
	}
	connected := app.ConnectedOptions{Run: o, There: there, Pins: r.pins}
	if _, connected.TokenFile, err = c.serverToken(); err != nil {
		return err
	}
	code, err := here.Run(ctx, connected)
	return ofChild(code, c.unreachable(err))
}

// proxyConnected hands this user's connections to the proxy of a kimbap serve elsewhere.
func (c *cli) proxyConnected(ctx context.Context, o app.ForwardOptions) error {
	ctx, stop := c.bounded(ctx)
	defer stop()
	var err error
	if o.There, err = c.remote(); err != nil {
		return err
	}
	defer o.There.Close()
	here, err := c.here()
	if err != nil {
		return err
	}
	conceal()
	return c.unreachable(here.Forward(ctx, o))
}

// here is this machine's side of a kimbap elsewhere. No home is opened; the configuration
// is checked as for every command.
func (c *cli) here() (*app.Machine, error) {
	a, err := c.unopened()
	if err != nil {
		return nil, err
	}
	return a.Here(), nil
}

// ofChild is the end of a program that was run.
func ofChild(code int, err error) error {
	if err == nil && code != 0 {
		return childExit(code)
	}
	return err
}

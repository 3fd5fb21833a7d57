package main

import (
	"context"
	"net"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"github.com/kimbap-run/kimbap/internal/app"
)

// remoteFlags say that a run's proxy is elsewhere.
type remoteFlags struct {
	url, tokenFile string
	pins           []string
}

func (r *remoteFlags) register(f *pflag.FlagSet) {
	f.StringVar(&r.url, "remote", "", "a proxy elsewhere instead of one here: http://HOST:PORT")
	f.StringVar(&r.tokenFile, "token-file", "", "with --remote: file with the token to show there (or KIMBAP_TOKEN)")
	f.StringSliceVar(&r.pins, "pin", nil, "with --remote: SHA-256 of its root certificate, as kimbap ca show says there")
}

// check refuses what does not go together.
func (r *remoteFlags) check(o *app.RunOptions) error {
	const fix = "kimbap run --remote http://HOST:7788 --token-file FILE --pin SHA256 -- CMD"
	switch {
	case r.url == "" && (r.tokenFile != "" || len(r.pins) > 0):
		return usage(fix, "--token-file and --pin are for --remote")
	case r.url == "":
		return nil
	case len(r.pins) == 0:
		return usage(fix, "--remote needs --pin: its certificate comes in clear, and is believed only when it is the one you mean")
	case o.Isolate:
		return usage(fix, "--isolate has its proxy on this machine; for a proxy elsewhere let the network be the wall (docs/containers.md)")
	case o.Unattended || o.Agent != "":
		return usage("kimbap token create --agent NAME", "--unattended and --agent are a matter of the token, over there")
	}
	return nil
}

// runRemote starts a program behind a proxy elsewhere.
func (c *cli) runRemote(ctx context.Context, r *remoteFlags, o app.RunOptions) error {
	token := c.getenv("KIMBAP_TOKEN")
	if r.tokenFile != "" {
		secret, err := c.readSecret(r.tokenFile, "token")
		if err != nil {
			return err
		}
		token = secret.Reveal()
	}
	if token == "" {
		return usage("kimbap token create --agent NAME --scope '*' on its machine, then --token-file FILE", "--remote needs a token")
	}
	secret, err := secretFrom([]byte(token))
	if err != nil {
		return err
	}
	if at, err := url.Parse(r.url); err == nil {
		if ip := net.ParseIP(at.Hostname()); at.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			c.say("kimbap: the token goes to %s in clear: use it in a network you trust", printable(at.Host))
		}
	}
	a, err := app.New(app.Options{Home: c.homeDir(), Env: c.env, UID: c.uid, Clock: time.Now})
	if err != nil {
		return err
	}
	code, err := a.RunRemote(ctx, app.RemoteOptions{RunOptions: o, URL: r.url, Token: secret, Pins: r.pins})
	if err == nil && code != 0 {
		return childExit(code)
	}
	return err
}

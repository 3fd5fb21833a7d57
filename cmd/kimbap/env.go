package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/system"
)

func newEnvCommand(c *cli) *cobra.Command {
	var o app.EnvOptions
	var pins []string
	cmd := &cobra.Command{
		Use:   "env [--shell sh|fish|pwsh|cmd|dotenv|docker|json] [--proxy URL] [--unset]",
		Short: "Print the variables that send a shell's programs through the proxy",
		Example: `  eval "$(kimbap env)"
  eval "$(kimbap env --unset)"
  kimbap env | Out-String | Invoke-Expression                              (PowerShell)
  for /f "delims=" %i in ('kimbap env --shell cmd') do @%i                 (cmd)
  docker run $(kimbap env --shell docker) IMAGE
  eval "$(kimbap env --server https://kimbap.example.com --token-file ~/.kimbap/token)"`,
		Long: `Print the variables that send a shell's programs through the proxy.

The values that the shell had before are kept in KIMBAP_ENV_BEFORE, and --unset restores
them, in sh, fish, PowerShell and cmd. Keys behind placeholders, and proxies with a password,
are not kept: every program of the shell could read them.

With --server they lead to the kimbap proxy --server of this machine, which it finds by
itself; none of them holds the server's token. For docker it has to be one that containers
can reach (--auth token --insecure-listen).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.envForm(cmd, &o); err != nil {
				return err
			}
			if c.serverURL() != "" {
				return c.envConnected(cmd.Context(), o, pins)
			}
			if len(pins) > 0 {
				return usage("leave --pin out", "--pin is for --server")
			}
			return c.with(cmd.Context(), shows(), func(ctx context.Context, a *app.App) error {
				text, notes, err := a.Env(ctx, o)
				if err != nil {
					return err
				}
				err = c.sayEnv(text, notes)
				if err == nil && c.outTTY && c.output == "text" && o.Proxy == "" && !cmd.Flags().Changed("shell") {
					c.advise("nothing is set yet: this shell takes them with: " + app.TakeVariables(c.getenv, o.Unset))
				}
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Shell, "shell", app.UsualShell(c.getenv), "form: sh, fish, pwsh, cmd, dotenv, docker or json")
	f.StringVar(&o.Proxy, "proxy", "", "proxy URL (default: the running proxy, else proxy.listen)")
	f.BoolVar(&o.Unset, "unset", false, "take the variables back, and give back what was set before")
	f.StringSliceVar(&pins, "pin", nil, "with --server: SHA-256 of its root certificate, as kimbap ca show says there")
	return cmd
}

// envForm refuses a proxy that no program could read, and makes -o and --jq mean the form
// json, which is the one that they can show.
func (c *cli) envForm(cmd *cobra.Command, o *app.EnvOptions) error {
	if o.Proxy != "" && !isProxyURL(o.Proxy) {
		return usage("kimbap env --proxy http://127.0.0.1:7788", "--proxy is not the URL of a proxy")
	}
	switch {
	case c.output == "text" || o.Shell == "json":
	case cmd.Flags().Changed("shell"):
		return usage("kimbap env --shell json", "-o and --jq show the form json, and --shell %s is another one", o.Shell)
	default:
		o.Shell = "json"
	}
	return nil
}

// isProxyURL reports whether programs can read it; that it names a host is seen later.
func isProxyURL(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// sayEnv prints the variables, and notes beside them.
func (c *cli) sayEnv(text string, notes []string) error {
	for _, note := range notes {
		c.advise(note)
	}
	if c.output != "text" {
		return c.show(json.RawMessage(text), nil)
	}
	_, err := fmt.Fprint(c.out, text)
	return err
}

// envConnected prints the variables for the proxy of a kimbap serve elsewhere. To take
// them back nobody is asked.
func (c *cli) envConnected(ctx context.Context, env app.EnvOptions, pins []string) error {
	here, err := c.here()
	if err != nil {
		return err
	}
	o := app.EnvConnectedOptions{Form: env, Server: c.serverURL(), Folder: c.serverFolder(), Pins: pins}
	if !env.Unset {
		if o.There, err = c.remote(); err != nil {
			return err
		}
		defer o.There.Close()
	}
	text, notes, err := here.Env(ctx, o)
	if err != nil {
		return c.unreachable(err)
	}
	return c.sayEnv(text, notes)
}

// serverFolder is where what this user's programs need of the server is kept.
func (c *cli) serverFolder() string {
	caches := c.getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(caches) {
		caches = filepath.Join(system.UserDir(c.getenv), ".cache")
	}
	if local := c.getenv("LOCALAPPDATA"); goruntime.GOOS == "windows" && local != "" {
		caches = local
	}
	return app.ServerFolder(caches, strings.TrimSuffix(c.serverURL(), "/"))
}

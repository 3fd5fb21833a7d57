package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newEnvCommand(c *cli) *cobra.Command {
	var o app.EnvOptions
	cmd := &cobra.Command{
		Use:   "env [--shell sh|fish|pwsh|dotenv|docker|json] [--proxy URL] [--unset]",
		Short: "Print the variables that lead a shell's programs through the proxy",
		Example: `  eval "$(kimbap env)"
  eval "$(kimbap env --unset)"
  docker run $(kimbap env --shell docker) IMAGE`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.envForm(cmd, &o); err != nil {
				return err
			}
			return c.with(cmd.Context(), app.Options{Despite: true}, func(ctx context.Context, a *app.App) error {
				text, notes, err := a.Env(ctx, o)
				if err != nil {
					return err
				}
				for _, note := range notes {
					c.say("%s", note)
				}
				if c.output != "text" {
					return c.show(json.RawMessage(text), nil)
				}
				_, err = fmt.Fprint(c.out, text)
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Shell, "shell", "sh", "form: sh, fish, pwsh, dotenv, docker or json")
	f.StringVar(&o.Proxy, "proxy", "", "proxy URL (default: the running proxy, else proxy.listen)")
	f.BoolVar(&o.Unset, "unset", false, "take the variables back")
	return cmd
}

// envForm makes -o and --jq mean the form json, which is the one that they can show.
func (c *cli) envForm(cmd *cobra.Command, o *app.EnvOptions) error {
	switch {
	case c.output == "text" || o.Shell == "json":
	case cmd.Flags().Changed("shell"):
		return usage("kimbap env --shell json", "-o and --jq show the form json, and --shell %s is another one", o.Shell)
	default:
		o.Shell = "json"
	}
	return nil
}

package main

import (
	"context"
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
			return c.with(cmd.Context(), app.Options{Despite: true}, func(ctx context.Context, a *app.App) error {
				text, notes, err := a.Env(ctx, o)
				if err != nil {
					return err
				}
				for _, note := range notes {
					c.say("%s", note)
				}
				fmt.Fprint(c.out, text)
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Shell, "shell", "sh", "form: sh, fish, pwsh, dotenv, docker or json")
	f.StringVar(&o.Proxy, "proxy", "", "proxy URL (default: the running proxy, else proxy.listen)")
	f.BoolVar(&o.Unset, "unset", false, "take the variables back")
	return cmd
}

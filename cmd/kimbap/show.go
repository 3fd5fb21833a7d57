package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newShowCommand(c *cli) *cobra.Command {
	return jsonFlag(c, &cobra.Command{
		Use:   "show [SERVICE[.ACTION]]",
		Short: "What a script may call, as TypeScript",
		Example: `  kimbap show
  kimbap show github
  kimbap show github.list-pull-requests --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			return c.with(cmd.Context(), app.Options{Dir: c.dir()}, func(ctx context.Context, a *app.App) error {
				text, definitions, err := a.ShowTools(ctx, name)
				if err != nil {
					return err
				}
				return c.show(definitions, func() { fmt.Fprint(c.out, text) })
			})
		},
	})
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
)

func newShowCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "show [SERVICE[.ACTION]]",
		Short: "Show what a script may call, as TypeScript",
		Example: `  kimbap show
  kimbap show github
  kimbap show github.list-pull-requests --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			var text string
			var definitions any
			err := c.elsewhereOr(cmd.Context(), func(ctx context.Context, there *remote.Client) error {
				var shown struct {
					TypeScript  string          `json:"typescript"`
					Definitions json.RawMessage `json:"definitions"`
				}
				err := there.Get(ctx, "/v1/tools?name="+url.QueryEscape(name), &shown)
				text, definitions = shown.TypeScript, shown.Definitions
				return err
			}, func(ctx context.Context, a *app.App) (err error) {
				text, definitions, err = a.ShowTools(ctx, name)
				return err
			})
			if err != nil {
				return err
			}
			return c.show(definitions, func() { fmt.Fprint(c.out, c.seen(text)) })
		},
	}
}

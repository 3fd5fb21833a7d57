package main

import (
	"context"
	"encoding/json"
	"errors"
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
			var shown struct {
				TypeScript  string          `json:"typescript"`
				Definitions json.RawMessage `json:"definitions"`
			}
			err := c.elsewhere(cmd.Context(), func(ctx context.Context, there *remote.Client) error {
				return there.Get(ctx, "/v1/tools?name="+url.QueryEscape(name), &shown)
			})
			if err == nil {
				return c.show(shown.Definitions, func() { fmt.Fprint(c.out, c.seen(shown.TypeScript)) })
			}
			if !errors.Is(err, errHere) {
				return err
			}
			return c.with(cmd.Context(), app.Options{Dir: c.dir(), Despite: true, StartLocked: true, Storeless: true}, func(ctx context.Context, a *app.App) error {
				text, definitions, err := a.ShowTools(ctx, name)
				if err != nil {
					return err
				}
				return c.show(definitions, func() { fmt.Fprint(c.out, c.seen(text)) })
			})
		},
	}
}

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
)

func newListCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List what can be used here, and where it comes from",
		Example: "  kimbap list\n  kimbap list --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []app.Available
			err := c.elsewhereOr(cmd.Context(), func(ctx context.Context, there *remote.Client) (err error) {
				list, err = listOf[app.Available](ctx, there, "/v1/services", nil, 0)
				return err
			}, func(ctx context.Context, a *app.App) (err error) {
				list, err = a.ListAvailable(ctx)
				return err
			})
			if err != nil {
				return err
			}
			return c.sayAvailable(list)
		},
	}
}

// sayAvailable shows what can be used.
func (c *cli) sayAvailable(list []app.Available) error {
	var rows [][]string
	for _, s := range list {
		key := "linked"
		switch {
		case !s.NeedsKey:
			key = "needs none"
		case s.Linked == nil:
			key = "not known"
		case !*s.Linked:
			key = c.atHome("no key: kimbap link " + s.Name)
		case s.SignInOver:
			key = c.atHome("sign-in over: kimbap link " + s.Name)
		}
		rows = append(rows, []string{s.Name, s.Description, fmt.Sprint(s.Actions), s.Scope, s.Source, key})
	}
	return c.show(list, func() {
		c.list([]string{"service", "description", "actions", "scope", "source", "key"}, rows, c.noService())
	})
}

// noService is what is said where a list of services is empty: there may be one whose file
// cannot be read, as a warning has told.
func (c *cli) noService() string {
	if c.faulty {
		return "no service is installed whose file can be read"
	}
	return "no service is installed; see: kimbap service list --catalog"
}

package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newSearchCommand(c *cli) *cobra.Command {
	limit := 10
	cmd := jsonFlag(c, &cobra.Command{
		Use:     "search QUERY",
		Short:   "Find actions by words",
		Example: "  kimbap search pull requests\n  kimbap search 'create issue' --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), app.Options{Dir: c.dir()}, func(ctx context.Context, a *app.App) error {
				found, err := a.SearchTools(ctx, strings.Join(args, " "), limit)
				if err != nil {
					return err
				}
				var rows [][]string
				for _, item := range found.Items {
					asks := ""
					if item.Approval {
						asks = "approval"
					}
					rows = append(rows, []string{"tools." + item.Path, string(item.Risk), asks, item.Description})
				}
				return c.show(found, func() {
					if len(rows) == 0 {
						c.say("nothing of the installed services fits; see: kimbap list")
						return
					}
					c.table([]string{"tool", "risk", "", "description"}, rows)
					if found.HasMore {
						c.say("%d more; use --limit", found.Total-len(rows))
					}
				})
			})
		},
	})
	cmd.Flags().IntVar(&limit, "limit", limit, "how many to show, at most 100")
	return cmd
}

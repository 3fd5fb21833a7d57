package main

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
)

func newSearchCommand(c *cli) *cobra.Command {
	limit := 10
	cmd := &cobra.Command{
		Use:     "search QUERY",
		Short:   "Search for actions by words",
		Example: "  kimbap search pull requests\n  kimbap search 'create issue' --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := strings.Join(args, " ")
			var found app.FoundTools
			var bring []string
			err := c.elsewhereOr(cmd.Context(), func(ctx context.Context, there *remote.Client) error {
				q := url.Values{"query": {query}}
				if limit > 0 {
					q.Set("limit", strconv.Itoa(limit))
				}
				return there.Get(ctx, "/v1/tools/search?"+q.Encode(), &found)
			}, func(ctx context.Context, a *app.App) (err error) {
				found, err = a.SearchTools(ctx, query, limit)
				if len(found.Items) == 0 || found.Partial {
					bring = a.Bring(strings.Fields(strings.ToLower(query)))
				}
				return err
			})
			if err != nil {
				return err
			}
			return c.sayFound(found, bring)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "how many to show; over 100 is taken for 100")
	return cmd
}

// sayFound shows what was found. Where that is nothing, bring are the commands for what
// was meant and is not in force.
func (c *cli) sayFound(found app.FoundTools, bring []string) error {
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
			c.advise("nothing of the installed services fits; see: " + strings.Join(append(bring, "kimbap list"), ", "))
			return
		}
		if found.Partial {
			c.advise("none has all these words; these have some" + strings.Join(append([]string{""}, bring...), "; see also: "))
		}
		c.table([]string{"tool", "risk", "", "description"}, rows)
		if found.HasMore {
			c.say("%d more; use --limit", found.Total-len(rows))
		}
	})
}

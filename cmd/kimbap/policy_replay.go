package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newPolicyReplayCommand(c *cli) *cobra.Command {
	var draft, agent string
	since := 24 * time.Hour
	cmd := &cobra.Command{
		Use:   "replay --draft FILE|FOLDER [--since 24h] [--agent GLOB]",
		Short: "Judge recorded requests by a draft, and list what would change",
		Long: `Judge recorded requests by a draft, and list what would change.

The trail does not hold queries, bodies, headers and secret arguments. A rule that looks
at them is listed as unknown for those requests. Rate limits are not counted.`,
		Example: "  kimbap policy replay --draft policy.new.yaml --since 7d",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.reading(cmd.Context(), func(ctx context.Context, a *app.App) error {
				d, err := a.Draft(draft)
				if err != nil {
					return err
				}
				_, done := c.working("judging recorded requests")
				result, err := a.Replay(ctx, d, replayQuery(since, agent))
				done()
				if err != nil {
					return err
				}
				return c.show(result, func() { c.sayReplay(result) })
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&draft, "draft", "", "the policy to judge by (default: the one in force)")
	f.Var(lastingDays(&since), "since", "how far back: 24h, 7d")
	f.StringVar(&agent, "agent", "", "glob over agent names")
	return cmd
}

func replayQuery(since time.Duration, agent string) app.ReplayQuery {
	return app.ReplayQuery{Since: time.Now().Add(-since), Agent: runtime.Glob(agent)}
}

// sayReplay shows changes of one kind on one line, with the first request of it.
func (c *cli) sayReplay(r *app.Replay) {
	for _, part := range []struct {
		title string
		list  []app.Rejudged
	}{{"changes", r.Changes}, {"unknown", r.Unknown}} {
		counts, first, order := map[string]int{}, map[string]app.Rejudged{}, []string{}
		for _, change := range part.list {
			key := strings.Join([]string{change.Agent, string(change.Action), string(change.Was), string(change.Now), change.NowBy, change.Why}, "\x00")
			if counts[key]++; counts[key] == 1 {
				first[key] = change
				order = append(order, key)
			}
		}
		var rows [][]string
		for _, key := range order {
			one := first[key]
			now := string(one.Now)
			if now == "" {
				now = "?"
			}
			rows = append(rows, []string{
				fmt.Sprint(counts[key]), one.Agent, string(one.Action), string(one.Was) + " → " + now, one.NowBy, one.ID, one.Why,
			})
		}
		if len(rows) > 0 {
			c.table([]string{part.title, "agent", "action", "effect", "rule", "first", "why"}, rows)
		}
	}
	fmt.Fprintf(c.out, "%s: %d the same, %d would change, %d unknown\n", count(r.Requests, "request"), r.Same, len(r.Changes), len(r.Unknown))
}

func newPolicySuggestCommand(c *cli) *cobra.Command {
	var agent string
	since := time.Hour
	cmd := &cobra.Command{
		Use:   "suggest [--since 1h] [--agent GLOB]",
		Short: "Suggest the narrowest rules and token scopes for what agents were seen doing",
		Long: `Suggest the narrowest rules and token scopes for what agents were seen doing.

The policy goes to stdout, the scopes to stderr. Before anything is printed the
recorded requests are replayed: none that was let through is denied by it. That
says nothing of requests that were not made: all else is denied to these agents.
Where a person was asked only at times, the rules ask every time, and a note says so.`,
		Example: `  kimbap policy suggest --since 1h --agent claude > policy.new.yaml
  kimbap policy replay --draft policy.new.yaml --since 1h --agent claude`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.reading(cmd.Context(), func(ctx context.Context, a *app.App) error {
				_, done := c.working("reading recorded requests")
				s, err := a.Suggest(ctx, replayQuery(since, agent))
				done()
				if err != nil {
					return err
				}
				return c.show(s, func() { c.saySuggestion(s) })
			})
		},
	}
	f := cmd.Flags()
	f.Var(lastingDays(&since), "since", "how far back: 1h, 7d")
	f.StringVar(&agent, "agent", "", "glob over agent names")
	return cmd
}

func (c *cli) saySuggestion(s *app.Suggestion) {
	fmt.Fprint(c.out, c.seen(s.Policy))
	c.say("replayed %s: %d that were let through or asked about are judged the same by it; nothing is known of others", count(s.Requests, "recorded request"), s.Kept)
	for _, agent := range slices.Sorted(maps.Keys(s.Scopes)) {
		if len(s.Scopes[agent]) == 0 {
			continue
		}
		line := "kimbap token create --agent " + agent
		for _, scope := range s.Scopes[agent] {
			line += " --scope " + string(scope)
		}
		c.say("scopes: %s", c.atHome(printable(line)))
	}
	for _, asks := range s.Stricter {
		c.say("warning: %s was let through (%s) and would be asked about by %s: the same action was asked about at other times",
			printable(asks.ID), printable(asks.By), printable(asks.NowBy))
	}
	for _, wider := range s.Wider {
		c.say("warning: %s was denied (%s) and would be %s by %s: the same action was let through with other arguments",
			printable(wider.ID), printable(wider.By), wider.Now, printable(wider.NowBy))
	}
}

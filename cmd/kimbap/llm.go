package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
)

// llmText is what an agent has to know of scripts before any service's own advice.
const llmText = `# kimbap: how to act on APIs from here

Write one script instead of many calls, and run it with kimbap exec:

    kimbap exec <<'EOF'
    const open = await tools.github.listPullRequests({ owner: "acme", repo: "api" });
    return open.filter(p => !p.draft).map(p => p.title);
    EOF

- tools is the only capability: no imports, no fetch, no files, no process.
- Each tool takes one object and returns a promise of the API's own JSON.
- Find tools with: kimbap search WORDS, or await tools.search({query}).
- See arguments with: kimbap show SERVICE.ACTION, or await tools.describe.tool({path}).
- Promise.all runs calls together. What is not awaited is cut off at the end.
- A call that fails throws a ToolError with code, status and retryable.
- Some calls need a person. The execution is then paused (exit code 6): tell the
  person in charge, and go on with kimbap exec --resume ID. Do not work around it.
- You hold no key and need none: kimbap adds it.
`

func newLLMCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "llm [SERVICE]",
		Short:   "Tell an agent how to use kimbap, or one service",
		Example: "  kimbap llm\n  kimbap llm github",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			var list []app.Advice
			err := c.elsewhereOr(cmd.Context(), func(ctx context.Context, there *remote.Client) error {
				return there.Get(ctx, "/v1/tools/advice?name="+url.QueryEscape(name), &list)
			}, func(ctx context.Context, a *app.App) (err error) {
				list, err = a.Advise(ctx, name)
				return err
			})
			if err != nil {
				return err
			}
			return c.show(list, func() {
				if name == "" {
					fmt.Fprint(c.out, llmText)
				}
				for _, s := range list {
					c.sayAdvice(&s, name != "")
				}
			})
		},
	}
}

// sayAdvice prints how to use a service; whole also names its tools.
func (c *cli) sayAdvice(s *app.Advice, whole bool) {
	var b strings.Builder
	if !whole {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "## %s: %s\n", s.Service, s.Description)
	if s.Use != "" {
		fmt.Fprintf(&b, "Use it %s", s.Use)
		if len(s.InsteadOf) > 0 {
			fmt.Fprintf(&b, ", instead of %s", strings.Join(s.InsteadOf, " or "))
		}
		b.WriteString(".\n")
	}
	for _, g := range s.Gotchas {
		fmt.Fprintf(&b, "- When %s: %s. %s\n", g.Symptom, g.LikelyCause, g.Recovery)
	}
	for _, r := range s.Recipes {
		fmt.Fprintf(&b, "To %s: %s\n", r.Name, r.Description)
		for i, step := range r.Steps {
			fmt.Fprintf(&b, "  %d. %s\n", i+1, step)
		}
	}
	if whole {
		fmt.Fprintf(&b, "Tools (kimbap show %s: their arguments):\n", s.Service)
		for _, tool := range s.Actions {
			fmt.Fprintf(&b, "  %s\n", tool)
		}
	} else {
		fmt.Fprintf(&b, "%s; more: kimbap llm %s\n", count(len(s.Actions), "tool"), s.Service)
	}
	fmt.Fprint(c.out, printableLines(b.String()))
}

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newExplainCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "explain METHOD URL | REQUEST_ID",
		Short: "Explain what kimbap would do with a request, or did, and why",
		Example: `  kimbap explain GET https://api.github.com/repos/cli/cli/pulls
  kimbap explain req_…`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && !strings.HasPrefix(args[0], "req_") {
				return usage("kimbap explain GET https://api.github.com/user, or kimbap explain req_…", "%q is neither a request's id nor a method with a URL", args[0])
			}
			if len(args) == 1 {
				return c.reading(cmd.Context(), func(ctx context.Context, a *app.App) error {
					return c.explainRequest(ctx, a, args[0])
				})
			}
			return c.with(cmd.Context(), app.Options{StartLocked: true}, func(ctx context.Context, a *app.App) error {
				x, err := a.Explain(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				c.sayOwner(x.Action, args[1])
				return c.show(x, func() { c.sayExplanation(x) })
			})
		},
	}
}

// sayOwner tells who asks about a host that kimbap could know, and does not yet, why it
// is treated as any other.
func (c *cli) sayOwner(action runtime.Ref, rawURL string) {
	if action != runtime.ActionPass {
		return
	}
	switch name, insecure := app.CatalogOwner(rawURL); {
	case insecure:
		c.say("this host is one of %s, which is not in use here and speaks https only: in cleartext the request passes without a key, and with %s in use it would be refused (insecure_scheme)", name, name)
	case name != "":
		c.say("this host is one of %s, which is not in use here: kimbap link %s", name, name)
	}
}

// argLines are arguments by name, each as a person reads it.
func argLines(args runtime.Args) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		value := args[name]
		if value == nil {
			value = "null"
		}
		lines = append(lines, fmt.Sprintf("%s = %v", name, value))
	}
	return lines
}

// unseenInTunnel says what is judged of a request that goes through a tunnel.
const unseenInTunnel = "its opening is judged, CONNECT; kimbap does not look into it, and sees no method, path, header field or body"

func (c *cli) sayExplanation(x *app.Explanation) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(c.out, "%-11s %s\n", name, printable(value))
		}
	}
	line("request", x.Method+" "+x.URL)
	line("host", x.Host)
	if x.Tunnel {
		line("tunnel", unseenInTunnel)
	}
	line("service", x.Service)
	if x.Refused != "" {
		line("refused", x.Refused)
		return
	}
	line("action", string(x.Action)+", risk "+string(x.Risk))
	line("defined in", x.Source)
	judged := func(r app.ReadAs) {
		for _, text := range argLines(r.Args) {
			line("", text)
		}
		for _, step := range r.Steps {
			line("rule", step.Rule+": "+step.Why)
		}
	}
	judged(app.ReadAs{Args: x.Args, Steps: x.Steps})
	if x.ReadAs != nil {
		line("read as", string(x.ReadAs.Action)+", by some servers")
		judged(*x.ReadAs)
	}
	for _, l := range x.Limits {
		line("limit", limitText(l))
	}
	effect := x.Effect
	if x.NeedsBody {
		effect = "depends on the body, decided"
	}
	verdict := effect + " by " + x.Rule
	if x.Reason != "" {
		verdict += ": " + x.Reason
	}
	line("verdict", verdict)
	line("credential", c.atHome(x.Credential))
	line("user name", c.atHome(x.Username))
	line("", "nothing was sent")
}

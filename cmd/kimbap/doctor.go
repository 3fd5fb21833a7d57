package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newDoctorCommand(c *cli) *cobra.Command {
	keys := false
	var clients []string
	cmd := &cobra.Command{
		Use:   "doctor [--keys] [--client curl,node,…]",
		Short: "Look for common problems, and say how to fix them",
		Long: `Look for common problems, and say how to fix them.

With --keys it lists what a program of kimbap run could still read: logins of
other tools, private keys, variables. It says names only, never a value.

With --client it starts those that are installed, as kimbap run would, with your
own settings, lets them fetch from an upstream on this machine that wants a key, and
says what to set for those that do not get through. "all" tries every one it knows.`,
		Example: "  kimbap doctor\n  kimbap doctor --keys\n  kimbap doctor --client curl,node,java",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(clients) > 0 {
				return c.tryClients(cmd.Context(), clients)
			}
			if keys {
				return c.exposedKeys(cmd.Context())
			}
			c.finds = true
			return c.with(cmd.Context(), app.Options{Despite: true, StartLocked: true, Storeless: true}, func(ctx context.Context, a *app.App) error {
				_, done := c.working("looking at all there is")
				findings := a.Doctor(ctx)
				done()
				for i := range findings {
					findings[i].Fix = c.atHome(findings[i].Fix)
				}
				failed := 0
				err := c.show(findings, func() {
					for _, f := range findings {
						fmt.Fprintf(c.out, "%-5s %-12s %s\n", f.State, f.Check, strings.ReplaceAll(printableLines(f.Said), "\n", "\n"+findingIndent))
						if f.Fix != "" {
							fmt.Fprintf(c.out, "%-5s %-12s fix: %s\n", "", "", f.Fix)
						}
					}
				})
				for _, f := range findings {
					if f.State == "fail" {
						failed++
					}
				}
				if err == nil && failed > 0 {
					return found(fmt.Sprintf("%d of %d checks failed", failed, len(findings)), "", "")
				}
				return err
			})
		},
	}
	cmd.Flags().StringSliceVar(&clients, "client", nil, "try these clients: all, or some of "+strings.Join(app.ProbeNames(), ", "))
	cmd.Flags().BoolVar(&keys, "keys", false, "list the keys that a program of kimbap run could still read")
	return cmd
}

// findingIndent keeps the following lines of what was found under its first.
const findingIndent = "                   "

// exposedKeys lists them, one a line.
func (c *cli) exposedKeys(ctx context.Context) error {
	return c.with(ctx, app.Options{Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
		keys, err := a.ExposedKeys(ctx)
		if err != nil {
			return err
		}
		return c.show(keys, func() {
			w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
			for _, k := range keys {
				hidden := ""
				if k.Sealed {
					hidden = "run --isolate hides it"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", printable(k.Name), printable(k.Where), hidden)
			}
			_ = w.Flush()
			if len(keys) == 0 {
				c.say("a program of kimbap run finds no key in the places that kimbap knows")
			}
		})
	})
}

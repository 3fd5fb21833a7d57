package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newInitCommand(c *cli) *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "init [--strict]",
		Short: "Make the home: master key, CA, default policy",
		Long: `Make the home: master key, CA, default policy.

You do not have to run it: the commands that need a home make one. With --strict,
writes ask a person and hosts without a service are refused. At a terminal it
offers a PIN, which shows that a person decides.`,
		Example: "  kimbap init\n  kimbap init --strict",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{Create: true, Strict: strict}, func(ctx context.Context, a *app.App) error {
				ca, err := a.CA(ctx)
				if err != nil {
					return err
				}
				if c.inTTY && c.errTTY && !c.yes {
					if err := c.offerPin(ctx, a); err != nil {
						return err
					}
				}
				if !a.Fresh() {
					c.say("%s is a kimbap home already; nothing was changed", a.Home().Dir)
					if strict {
						c.say("--strict is for a new home; for this one write what it would say into %s:\n  defaults: {medium: require_approval, unmatched: deny}", a.Home().Policy())
					}
				}
				data := map[string]any{
					"home": a.Home().Dir, "fresh": a.Fresh(), "policy": a.Home().Policy(),
					"ca": ca.CAFile(), "ca_fingerprint": ca.Fingerprint(),
				}
				return c.show(data, func() {
					fmt.Fprintf(c.out, "home    %s\npolicy  %s\nca      %s\n        SHA-256 %s\n", a.Home().Dir, a.Home().Policy(), ca.CAFile(), ca.Fingerprint())
					if !c.quiet {
						fmt.Fprintf(c.out, "\n%s", c.atHome(c.firstScreen()))
					}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "ask before writes, refuse hosts that have no service")
	return cmd
}

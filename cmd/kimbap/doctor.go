package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newDoctorCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "doctor",
		Short:   "Look for what commonly goes wrong, and say how to fix it",
		Example: "  kimbap doctor",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				findings := a.Doctor(ctx)
				failed := 0
				err := c.show(findings, func() {
					for _, f := range findings {
						fmt.Fprintf(c.out, "%-5s %-12s %s\n", f.State, f.Check, printable(f.Said))
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
					return &failure{what: fmt.Sprintf("%d of %d checks failed", failed, len(findings)), exit: exitOther}
				}
				return err
			})
		},
	}
}

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newLockCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "lock",
		Short: "Stop using stored credentials, everywhere, until unlock",
		Long: `Stop using stored credentials, everywhere, until unlock.

Running proxies close the vault within a second: hosts of services get 503
vault_locked, other hosts pass. It stays so when kimbap or the machine starts
again.`,
		Example: "  kimbap lock -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{Despite: true, Emergency: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				if err := a.LockVault(ctx); err != nil {
					return err
				}
				c.reach(ctx, a)
				proxies := append([]app.Running{}, a.Proxies()...)
				return c.show(map[string]any{"vault": "locked", "proxies": proxies}, func() {
					fmt.Fprintf(c.out, "locked: no stored credential is used until kimbap unlock\n")
				})
			})
		},
	}
}

func newUnlockCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "unlock",
		Short:   "Use stored credentials again after lock",
		Example: "  kimbap unlock",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				if err := a.UnlockVault(ctx); err != nil {
					return err
				}
				return c.show(map[string]any{"vault": "open"}, func() { fmt.Fprintln(c.out, "unlocked") })
			})
		},
	}
}

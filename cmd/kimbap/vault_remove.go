package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newVaultRemoveCommand(c *cli) *cobra.Command {
	var keyring bool
	cmd := &cobra.Command{
		Use:   "remove NAME | --keyring",
		Short: "Remove a stored credential, or an old master key from the system's keyring",
		Long: `Remove a stored credential, or an old master key from the system's keyring.

With --keyring it removes this home's master key from the system's keyring. It
asks first, and refuses where that may be the only key: where master_key.source is
keyring, or the vault does not open with the key that is kept elsewhere. For a home
that is no more, name the folder that it was in with --home.`,
		Example: "  kimbap vault remove github.token\n  kimbap vault remove --keyring",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case keyring == (len(args) == 1):
				return usage("kimbap vault list", "give the name of a credential, or --keyring, one of the two")
			case keyring:
				return c.forgetKeyring(cmd.Context())
			}
			return c.vaultRemove(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVar(&keyring, "keyring", false, "remove this home's master key from the system's keyring")
	return cmd
}

func (c *cli) vaultRemove(ctx context.Context, name string) error {
	return c.with(ctx, takesAway(), func(ctx context.Context, a *app.App) error {
		became := a.SignIns().GiveBack(ctx, name)
		removed, err := a.RemoveSecret(ctx, name)
		if err != nil {
			return err
		}
		if !removed {
			return missing("kimbap vault list", "no credential named %q is stored", name)
		}
		c.sayReturned(became, name)
		c.reach(ctx, a)
		return c.show(map[string]any{"removed": name}, func() { fmt.Fprintf(c.out, "removed %s\n", name) })
	})
}

// forgetKeyring takes a home that is no more as well: its entry has outlived it.
func (c *cli) forgetKeyring(ctx context.Context) error {
	err := c.with(ctx, app.Options{}, func(ctx context.Context, a *app.App) error {
		return c.forgetKeyringOf(ctx, a, "its key is kept elsewhere")
	})
	if err == nil || runtime.AsError(err).Reason != runtime.ReasonNoHome || c.homeDir() == "" || c.runSocket() != "" {
		return err
	}
	ctx, stop := c.bounded(ctx)
	defer stop()
	a, err := c.unopened()
	if err != nil {
		return err
	}
	return c.forgetKeyringOf(ctx, a, "there is no such folder; what a copy of it holds cannot be opened any more")
}

func (c *cli) forgetKeyringOf(ctx context.Context, a *app.App, why string) error {
	found, removed, err := a.ForgetKeyring(ctx, func() (bool, error) {
		return c.sure(ctx, fmt.Sprintf("remove the master key of %s from the keyring for ever (%s)?", a.Home().Dir, why))
	})
	switch {
	case err != nil:
		return err
	case !found:
		return missing("nothing is to be done; a home that was elsewhere is named with --home", "the keyring has no master key of %s", a.Home().Dir)
	case !removed:
		return nil
	}
	return c.show(map[string]any{"removed": "keyring", "home": a.Home().Dir}, func() {
		fmt.Fprintf(c.out, "removed the master key of %s from the keyring\n", a.Home().Dir)
	})
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newLockCommand(c *cli) *cobra.Command {
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "lock [--for D]",
		Short: "Stop using stored credentials, everywhere, until unlock",
		Long: `Stop using stored credentials, everywhere, until unlock.

Running proxies close the vault within a second: tunnels to hosts of services end
and new ones get 503 vault_locked, other hosts pass. It stays so when kimbap or the
machine starts again.

The master key is sealed under your PIN (kimbap approve pin sets one) and removed
from where it was, and programs of kimbap run have to be started again afterwards.
A key of the environment (master_key.source: env) stays there.

With --for it is a pause: it ends by itself, so the key stays where it is, needs no
PIN, and programs of kimbap run go on afterwards.`,
		Example: "  kimbap lock\n  kimbap lock --for 8h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("for") && length <= 0 {
				return usage("kimbap lock --for 8h", "--for wants a length of time above zero")
			}
			o := takesAway()
			o.Storeless = true
			return c.with(cmd.Context(), o, func(ctx context.Context, a *app.App) error {
				done, err := a.LockVault(ctx, length)
				if err == nil || a.Locked() != nil { // it may be locked, and not all done
					c.reach(ctx, a)
				}
				if err != nil {
					return err
				}
				return c.sayLocked(a, done, length)
			})
		},
	}
	cmd.Flags().Var(lastingDays(&length), "for", "unlock by itself after this long: 8h, 2d")
	return cmd
}

func (c *cli) sayLocked(a *app.App, done app.Locking, length time.Duration) error {
	proxies := append([]app.Running{}, a.Proxies()...)
	shown := map[string]any{"vault": "locked", "sealed": done.Sealed, "runs_ended": done.Runs, "proxies": proxies}
	until := "until kimbap unlock"
	if length > 0 {
		shown["for"] = runtime.Span(length)
		until = "for " + runtime.Span(length) + ", or " + until
	}
	return c.show(shown, func() {
		fmt.Fprintf(c.out, "locked: no stored credential is used %s\n", until)
		switch {
		case done.Sealed:
			c.say("the master key is sealed under your PIN, and nowhere else; without the PIN nothing opens it")
		case length > 0:
			c.say("a pause: the master key stays where it is")
		default:
			c.say("the master key comes from the environment, where kimbap cannot seal it: remove it there")
		}
		if done.Runs > 0 {
			c.say("%s ended: start %s again after kimbap unlock", count(done.Runs, "run"), map[bool]string{true: "it", false: "them"}[done.Runs == 1])
		}
	})
}

func newUnlockCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "unlock",
		Short: "Use stored credentials again after a lock",
		Long: `Use stored credentials again after a lock.

It asks for your PIN, if you have one, at the terminal.`,
		Example: "  kimbap unlock",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				was, err := a.IsLocked(ctx)
				if err != nil {
					return err
				}
				said := "nothing was locked: stored credentials are used"
				if was {
					if err := c.unlock(ctx, a); err != nil {
						return err
					}
					said = "unlocked"
				}
				return c.show(map[string]any{"vault": "open", "was_locked": was}, func() { fmt.Fprintln(c.out, said) })
			})
		},
	}
}

func (c *cli) unlock(ctx context.Context, a *app.App) error {
	pin, err := c.unlockPin(ctx, a)
	if err != nil {
		return err
	}
	if err := a.UnlockVault(ctx, pin); err != nil {
		return err
	}
	c.reach(ctx, a)
	return nil
}

// unlockPin asks for the PIN that opening needs, none when there is none.
func (c *cli) unlockPin(ctx context.Context, a *app.App) (runtime.Secret, error) {
	who, err := a.UnlockNeeds(ctx)
	if err != nil || who == "" {
		return runtime.Secret{}, err
	}
	t, err := openTerminal()
	if err != nil {
		return runtime.Secret{}, usage("in a terminal: kimbap unlock", "the vault is opened with a PIN, which is read from a terminal only, and there is none here")
	}
	defer t.close()
	return t.secret(ctx, "PIN of "+who)
}

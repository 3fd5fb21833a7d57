package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

const installLong = `Let this machine's programs trust the CA, also those that read no variables.

kimbap run and kimbap env do not need it: they tell programs through variables. It is
for programs that read none, such as a browser. The stores:

  system       the system's, by its own command (Debian, Fedora, SUSE, Arch;
               on macOS the login keychain, on Windows the user's roots)
  nss          Chromium's and Firefox's, by certutil; nss:FOLDER for one
  java         Java's, by keytool; java:FILE for one key store

It shows the commands first, and asks; what only root may run has sudo in front.
What is installed is limited by name constraints to the hosts of installed services
and of the catalogue, and hosts below them: whoever got the CA's key, which the master
key seals, could pose as those hosts to this machine's programs. Most programs keep to
that limit; Java does not, and could be shown any host. After installing a service with
hosts of its own, run it again. kimbap ca uninstall takes the CA out of all stores.`

func newCAInstallCommand(c *cli) *cobra.Command {
	var words []string
	var show bool
	cmd := &cobra.Command{
		Use:     "install [--store system|nss|java|nss:FOLDER|java:FILE]... [--show]",
		Short:   "Add the CA to this machine's trust stores",
		Long:    installLong,
		Example: "  kimbap ca install\n  kimbap ca install --store system,nss --yes\n  kimbap ca install --store java:$JAVA_HOME/lib/security/cacerts --show",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{Despite: true}, func(ctx context.Context, a *app.App) error {
				plan, err := a.PlanInstall(ctx, words)
				if err != nil {
					return err
				}
				return c.anchor(ctx, a, plan, show, "installed in")
			})
		},
	}
	cmd.Flags().StringSliceVar(&words, "store", []string{"system"}, "system, nss, java, nss:FOLDER or java:FILE")
	cmd.Flags().BoolVar(&show, "show", false, "say what would be run, and run nothing")
	return cmd
}

func newCAUninstallCommand(c *cli) *cobra.Command {
	var words []string
	var show bool
	cmd := &cobra.Command{
		Use:     "uninstall [--store …]... [--show]",
		Short:   "Remove the CA from the trust stores",
		Long:    "Take the CA, and roots of this home before it, out of all trust stores that kimbap ca install put them into;\nwith --store only out of that one.",
		Example: "  kimbap ca uninstall\n  kimbap ca uninstall --store java --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				plan, err := a.PlanUninstall(words)
				if err != nil {
					return err
				}
				if len(plan.Stores) == 0 {
					c.say("nothing to do: kimbap ca install has put it into no trust store")
				}
				return c.anchor(ctx, a, plan, show, "gone from")
			})
		},
	}
	cmd.Flags().StringSliceVar(&words, "store", nil, "only out of this one")
	cmd.Flags().BoolVar(&show, "show", false, "say what would be run, and run nothing")
	return cmd
}

// anchor shows a plan, asks, does it and says where.
func (c *cli) anchor(ctx context.Context, a *app.App, plan *app.Anchoring, show bool, done string) error {
	if show || len(plan.Stores) == 0 {
		return c.show(plan, func() {
			for _, command := range plan.Commands {
				fmt.Fprintln(c.out, command)
			}
		})
	}
	c.sayReach(plan)
	c.say("this will be run:")
	for _, command := range plan.Commands {
		c.say("  %s", command)
	}
	if sure, err := c.sure(ctx, "go on?"); err != nil || !sure {
		return err
	}
	if err := a.Anchor(ctx, plan); err != nil {
		return err
	}
	return c.show(plan, func() {
		for _, store := range plan.Stores {
			fmt.Fprintf(c.out, "%s %s\n", done, store)
		}
	})
}

// sayReach says what a root that is installed could stand for, and how it goes again.
func (c *cli) sayReach(plan *app.Anchoring) {
	switch {
	case plan.Removes():
		return
	case len(plan.Hosts) == 0:
		c.say("with the CA's key, which the master key seals, any host could be shown to the programs of this machine (proxy.intercept is all)")
	default:
		c.say("with the CA's key, which the master key seals, %s and those below them could be shown to the programs of this machine: %s", count(len(plan.Hosts), "host"), few(plan.Hosts))
		c.say("Java holds a root to no hosts: its programs could be shown any")
	}
	c.say("undo: kimbap ca uninstall")
}

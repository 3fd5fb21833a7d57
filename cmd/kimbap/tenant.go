package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newTenantCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tenant",
		Short: "Tenants: create, list, remove",
		Long: `Tenants: create, list, remove.

A tenant has a policy, credentials, tokens, approvals and records of its own, and
sees nothing of another's. Agents belong to the tenant of their token; programs
without a token to the one named default. Commands work on it with --tenant NAME
or KIMBAP_TENANT. Services are installed for all, and linked by each.`,
		Example: `  kimbap tenant create acme
  kimbap --tenant acme link github --file ./acme.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTenantCreateCommand(c), newTenantListCommand(c), newTenantRemoveCommand(c))
	return cmd
}

func newTenantCreateCommand(c *cli) *cobra.Command {
	var strict, join bool
	cmd := &cobra.Command{
		Use:   "create NAME [--strict] [--join]",
		Short: "Make a tenant, with a policy of its own",
		Long: `Make a tenant, with a policy of its own.

Where machines share a store, each has its own files with the rules of a tenant: --join
makes them here for a tenant that another machine has made.`,
		Example: "  kimbap tenant create acme\n  kimbap --tenant acme link github --file ./acme.key",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), app.Options{}, func(ctx context.Context, a *app.App) error {
				name := runtime.Tenant(args[0])
				create := a.CreateTenant
				if join {
					create = a.JoinTenant
				}
				if err := create(ctx, name, strict); err != nil {
					return err
				}
				c.reach(ctx, a)
				file := a.PolicyFileOf(name)
				return c.show(map[string]any{"tenant": name, "policy": file}, func() {
					fmt.Fprintf(c.out, "made tenant %s; its policy is %s\n", name, file)
					c.say("its own key:   kimbap --tenant %s link SERVICE", name)
					c.say("its agents:    kimbap --tenant %s run -- CMD, or a token of kimbap --tenant %s token create", name, name)
				})
			})
		},
	}
	cmd.Flags().BoolVar(&join, "join", false, "make this machine's rules for a tenant that another machine has made")
	cmd.Flags().BoolVar(&strict, "strict", false, "ask before writes, refuse hosts that have no service")
	return cmd
}

func newTenantListCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the tenants and what each has",
		Example: "  kimbap tenant list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				list, err := a.ListTenants(ctx)
				if err != nil {
					return err
				}
				var rows [][]string
				for _, t := range list {
					rows = append(rows, []string{string(t.Name), fmt.Sprint(t.Secrets), fmt.Sprint(t.Tokens), fmt.Sprint(t.Pending), t.Policy})
				}
				return c.show(list, func() {
					c.table([]string{"tenant", "credentials", "tokens", "approvals", "policy"}, rows)
				})
			})
		},
	}
}

func newTenantRemoveCommand(c *cli) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "remove NAME [--force]",
		Short: "Remove a tenant: its keys, credentials, tokens and approvals",
		Long: `Remove a tenant: its keys, credentials, tokens and approvals.

Nobody can open or compare any more what was sealed or hashed for it.
Its records stay, and the trail can still be verified; its rules are put aside. A
tenant made anew under the name sees nothing of it. Running proxies close its
tunnels within a second. While it has valid tokens, or approvals that wait, --force
is needed.`,
		Example: "  kimbap tenant remove acme\n  kimbap tenant remove acme --force --yes",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), app.Options{Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				gone, removed, err := a.RemoveTenant(ctx, runtime.Tenant(args[0]), force, func(t app.RemovedTenant) (bool, error) { return c.sureToRemove(ctx, t) })
				if err != nil || !removed {
					return err
				}
				return c.show(gone, func() {
					fmt.Fprintf(c.out, "removed tenant %s: %s\n", gone.Name, whatGoes(&gone))
					for _, name := range gone.Grants {
						c.say("the grant of %s is forgotten here, and could not be given back: take it away in your account at the provider (the token of a client without a person ends there by itself)", name)
					}
					if gone.Folder != "" {
						c.say("its rules are in %s; remove them when nobody needs them", gone.Folder)
					}
					c.say("copies of the database hold its key still, wrapped: after kimbap vault rotate --master-key a copy needs the old master key")
				})
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "remove it even with valid tokens, or approvals that wait")
	return cmd
}

func (c *cli) sureToRemove(ctx context.Context, t app.RemovedTenant) (bool, error) {
	return c.sure(ctx, fmt.Sprintf("remove tenant %s for ever (%s)?", t.Name, whatGoes(&t)))
}

func whatGoes(t *app.RemovedTenant) string {
	return fmt.Sprintf("%s, %s, %s", count(t.Secrets, "credential"), count(len(t.Tokens), "valid token"), count(len(t.Approvals), "pending approval"))
}

// forAll are the commands that are about the whole home, so that --tenant would
// promise what they do not do: a lock closes the vault for everybody, and a proxy
// serves every tenant, each by its tokens.
var forAll = map[string]bool{
	"init": true, "proxy": true, "lock": true, "unlock": true, "ca": true, "config": true, "service": true,
	"actions": true, "tenant": true, "version": true, "doctor": true, "completion": true,
}

// checkTenant refuses --tenant where it has no meaning. KIMBAP_TENANT, which
// stands for a whole shell, is simply of no use there.
func (c *cli) checkTenant(cmd *cobra.Command) error {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	if !forAll[cmd.Name()] {
		return nil
	}
	if c.tenant != "" {
		return usage("leave --tenant out", "kimbap %s is about all tenants", cmd.Name())
	}
	c.forAll = true
	return nil
}

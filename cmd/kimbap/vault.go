package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newVaultCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vault",
		Short: "Stored credentials: set, list, remove",
		Long: `Stored credentials: set, list, remove.

No command prints a stored value. A value comes from stdin, a file or a prompt,
never from an argument, because arguments show in the process list.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newVaultSetCommand(c), newVaultListCommand(c), newVaultRemoveCommand(c))
	return cmd
}

func newVaultSetCommand(c *cli) *cobra.Command {
	var file string
	var hosts []string
	cmd := &cobra.Command{
		Use:     "set NAME",
		Short:   "Store a credential under a name",
		Example: "  kimbap vault set github.token < token.txt\n  kimbap vault set acme.key --host api.acme.example:443 --file key.txt",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), app.Options{Create: true}, func(ctx context.Context, a *app.App) error {
				secret, err := c.readSecret(file, "value of "+args[0])
				if err != nil {
					return err
				}
				version, bound, err := a.SetSecret(ctx, args[0], secret, hosts)
				if err != nil {
					return err
				}
				data := map[string]any{"name": args[0], "version": version, "hosts": bound}
				return c.show(data, func() {
					fmt.Fprintf(c.out, "stored %s (version %d), for %s only\n", args[0], version, few(bound))
				})
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "read the value from this file")
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "authority it may be sent to; repeat for more")
	return cmd
}

type secretInfo struct {
	Name     string     `json:"name"`
	Version  int        `json:"version"`
	Hosts    []string   `json:"hosts"`
	Created  time.Time  `json:"created"`
	LastUsed *time.Time `json:"last_used,omitempty"`
}

func newVaultListCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List stored credentials by name; values are never shown",
		Example: "  kimbap vault list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{}, func(ctx context.Context, a *app.App) error {
				stored, err := a.Vault().List(ctx, runtime.DefaultTenant)
				if err != nil {
					return err
				}
				list, rows := []secretInfo{}, [][]string{}
				for _, s := range stored {
					info := secretInfo{Name: s.Name, Version: s.Version, Hosts: s.Authorities, Created: s.Created}
					used := "never"
					if !s.LastUsed.IsZero() {
						info.LastUsed, used = &s.LastUsed, c.when(s.LastUsed)
					}
					list = append(list, info)
					rows = append(rows, []string{s.Name, fmt.Sprint(s.Version), few(s.Authorities), c.when(s.Created), used})
				}
				return c.show(list, func() { c.table([]string{"name", "version", "hosts", "created", "last used"}, rows) })
			})
		},
	}
}

func newVaultRemoveCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a stored credential",
		Example: "  kimbap vault remove github.token",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), app.Options{}, func(ctx context.Context, a *app.App) error {
				removed, err := a.RemoveSecret(ctx, args[0])
				if err != nil {
					return err
				}
				if !removed {
					return missing("kimbap vault list", "no credential named %q is stored", args[0])
				}
				return c.show(map[string]any{"removed": args[0]}, func() { fmt.Fprintf(c.out, "removed %s\n", args[0]) })
			})
		},
	}
}

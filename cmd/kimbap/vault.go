package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/runtime"
)

func newVaultCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vault",
		Short: "Stored credentials: set, list, rotate, remove, export, import",
		Long: `Stored credentials: set, list, rotate, remove, export, import.

No command prints a stored value. A value comes from stdin, a file or a prompt,
never from an argument, because arguments show in the process list.`,
		Example: `  kimbap vault list
  kimbap vault set acme.token --host api.acme.example --file ./acme.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newVaultSetCommand(c), newVaultListCommand(c), newVaultRotateCommand(c), newVaultRemoveCommand(c),
		newVaultExportCommand(c), newVaultImportCommand(c),
	)
	return cmd
}

// vaultSet is what `kimbap vault set` was told.
type vaultSet struct {
	file, expires string
	hosts, env    []string
	ttl           time.Duration
	command       []string // of a reference, after --
}

func newVaultSetCommand(c *cli) *cobra.Command {
	o := &vaultSet{}
	cmd := &cobra.Command{
		Use:   "set NAME [flags] [-- COMMAND ARG...]",
		Short: "Store a credential under a name",
		Long: `Store a credential under a name.

The value comes from stdin, from --file, or from a prompt. With a command after
--, kimbap stores the command instead: whenever the value is needed, it runs it
and takes what it prints, one line, and keeps that in memory for --ttl. If the
command fails, the request is refused. It gets none of kimbap's variables, and of
the shell's only the usual ones and those that --env names.`,
		Example: `  kimbap vault set acme.key --host api.acme.example:443 < key.txt
  kimbap vault set acme.key --host api.acme.example:443 --file key.txt --expires 90d
  kimbap vault set acme.key --host api.acme.example:443 --ttl 10m -- op://Private/acme/key
  kimbap vault set acme.key --host api.acme.example:443 --env VAULT_ADDR -- vault kv get -field=key secret/acme
  kimbap vault set acme.key --host api.acme.example:443 -- pass show acme`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				if dash != 1 || len(args) < 2 {
					return fmt.Errorf("a command stands after --, and one name before it")
				}
				return nil
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args[1:]
			return c.with(cmd.Context(), app.Options{Create: true, Despite: len(o.hosts) > 0}, func(ctx context.Context, a *app.App) error {
				return c.vaultSet(ctx, a, args[0], o)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.file, "file", "", "read the value from this file")
	f.StringArrayVar(&o.hosts, "host", nil, "authority it may be sent to; repeat for more")
	f.StringVar(&o.expires, "expires", "", "do not use it after this time: 90d, 12h, 2027-01-31 or with a time of day")
	f.Var(lastingDays(&o.ttl), "ttl", "with a command: keep what it prints in memory this long (default: for the one request)")
	f.StringArrayVar(&o.env, "env", nil, "with a command: a variable that it gets; repeat for more")
	return cmd
}

func (c *cli) vaultSet(ctx context.Context, a *app.App, name string, o *vaultSet) error {
	expires, err := parseExpiry(o.expires, time.Now())
	if err != nil {
		return err
	}
	so := app.SecretOptions{Hosts: o.hosts, Expires: expires}
	var version int
	var bound []string
	if len(o.command) > 0 {
		if o.file != "" {
			return usage("leave --file out", "a command and a file are two values")
		}
		version, bound, err = a.SetReference(ctx, name, app.Reference{Command: o.command, Env: o.env, TTL: o.ttl}, so)
	} else {
		if o.ttl != 0 || len(o.env) > 0 {
			return usage("kimbap vault set NAME --ttl 10m -- pass show NAME", "--ttl and --env are for a command, and there is none after --")
		}
		var secret runtime.Secret
		if secret, err = c.readKey(ctx, o.file, "value of "+name); err == nil {
			version, bound, err = a.SetSecret(ctx, name, secret, so)
		}
	}
	if err != nil {
		return err
	}
	c.reach(ctx, a)
	return c.show(map[string]any{"name": name, "version": version, "hosts": bound}, func() {
		fmt.Fprintf(c.out, "stored %s (version %d), for %s only\n", name, version, few(bound))
	})
}

// parseExpiry reads a time to come: a length of time, a date or a moment.
func parseExpiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := config.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d.Duration()), nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("write 90d, 12h, 2027-01-31 or 2027-01-31T18:00:00Z", "%q is not a time to come", text)
}

func newVaultListCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List stored credentials by name; values are never shown",
		Example: "  kimbap vault list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), listsRights(), func(ctx context.Context, a *app.App) error {
				list, err := a.Secrets(ctx)
				if err != nil {
					return err
				}
				return c.show(list, func() { c.secretTable(list, cmp.Or(a.StoreName(), "here")) })
			})
		},
	}
}

// secretTable shows what is stored; kept is where the values are that no command supplies.
func (c *cli) secretTable(list []app.Stored, kept string) {
	var rows [][]string
	for _, s := range list {
		used, expires, from := "never", "never", kept
		if s.LastUsed != nil {
			used = c.when(*s.LastUsed)
		}
		if s.Expires != nil {
			expires = c.when(*s.Expires)
			if !time.Now().Before(*s.Expires) {
				expires = "expired"
			}
		}
		if len(s.Command) > 0 {
			from = strings.Join(s.Command, " ")
		}
		rows = append(rows, []string{s.Name, string(s.Tenant), fmt.Sprint(s.Version), few(s.Hosts), c.when(s.Created), used, expires, from})
	}
	c.list([]string{"name", "tenant", "version", "hosts", "created", "last used", "expires", "kept"}, rows, "no credential is stored; see: kimbap link --help")
}

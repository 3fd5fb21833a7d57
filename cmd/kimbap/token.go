package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newTokenCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Tokens for agents: create, list, revoke",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreateCommand(c), newTokenListCommand(c), newTokenRevokeCommand(c))
	return cmd
}

func newTokenCreateCommand(c *cli) *cobra.Command {
	var grant app.TokenGrant
	cmd := &cobra.Command{
		Use:   "create --agent NAME --scope GLOB...",
		Short: "Make a token; it is printed once, alone on stdout",
		Example: `  kimbap token create --agent ci --scope 'github.list-*' --scope net.pass --ttl 1h
  curl -x http://$(kimbap token create --agent me --scope '*')@127.0.0.1:7788 https://api.github.com/user`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if grant.Agent == "" || len(grant.Scopes) == 0 {
				return usage("kimbap token create --agent ci --scope 'github.list-*'", "a token needs --agent and at least one --scope: without a scope it could do nothing")
			}
			return c.with(cmd.Context(), app.Options{}, func(ctx context.Context, a *app.App) error {
				secret, info, err := a.CreateToken(ctx, grant)
				if err != nil {
					return err
				}
				c.say("token %s for agent %s, until %s; it is shown this once", info.ID, info.Agent, info.Expires.Local().Format(time.DateTime))
				data := map[string]any{"id": info.ID, "token": secret.Reveal(), "expires": info.Expires}
				return c.show(data, func() { fmt.Fprintln(c.out, secret.Reveal()) })
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&grant.Agent, "agent", "", "name that policy rules match")
	f.StringArrayVar(&grant.Scopes, "scope", nil, "actions it may use, as globs; repeat for more")
	f.StringArrayVar(&grant.Roles, "role", nil, "role for policy rules; repeat for more")
	f.StringArrayVar(&grant.Groups, "group", nil, "group for policy rules; repeat for more")
	f.DurationVar(&grant.TTL, "ttl", time.Hour, "how long it is valid")
	return cmd
}

type tokenInfo struct {
	ID      string          `json:"id"`
	Agent   string          `json:"agent"`
	Scopes  []runtime.Scope `json:"scopes"`
	Roles   []string        `json:"roles,omitempty"`
	Created time.Time       `json:"created"`
	Expires time.Time       `json:"expires"`
	State   string          `json:"state"` // valid | expired | revoked
}

func newTokenListCommand(c *cli) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "list [--all]",
		Short:   "List tokens, the newest first; with --all those of ended runs too",
		Example: "  kimbap token list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				tokens, err := a.Tokens().List(ctx, runtime.DefaultTenant)
				if err != nil {
					return err
				}
				list, rows := []tokenInfo{}, [][]string{}
				for _, t := range tokens {
					state := "valid"
					if !t.Revoked.IsZero() {
						state = "revoked"
					} else if !time.Now().Before(t.Expires) {
						state = "expired"
					}
					if t.Run != "" && state != "valid" && !all {
						continue // every `kimbap run` leaves one
					}
					list = append(list, tokenInfo{t.ID, t.Agent, t.Scopes, t.Roles, t.Created, t.Expires, state})
					var scopes []string
					for _, s := range t.Scopes {
						scopes = append(scopes, string(s))
					}
					rows = append(rows, []string{t.ID, t.Agent, strings.Join(scopes, " "), state, c.when(t.Expires)})
				}
				return c.show(list, func() { c.table([]string{"token", "agent", "scopes", "state", "expires"}, rows) })
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "those of ended runs too")
	return cmd
}

func newTokenRevokeCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke ID",
		Short:   "Revoke a token; every surface refuses it within a second",
		Example: "  kimbap token revoke tok_…",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), app.Options{Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				revoked, err := a.RevokeToken(ctx, args[0])
				if err != nil {
					return err
				}
				if !revoked {
					return missing("kimbap token list", "there is no valid token %q", args[0])
				}
				return c.show(map[string]any{"revoked": args[0]}, func() { fmt.Fprintf(c.out, "revoked %s\n", args[0]) })
			})
		},
	}
}

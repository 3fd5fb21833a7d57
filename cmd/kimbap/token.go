package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/config"
)

func newTokenCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Tokens for agents: create, list, inspect, revoke",
		Example: `  kimbap token create --agent ci --scope 'github.list-*' --ttl 1h
  kimbap token list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreateCommand(c), newTokenListCommand(c), newTokenInspectCommand(c), newTokenRevokeCommand(c))
	return cmd
}

func newTokenCreateCommand(c *cli) *cobra.Command {
	var grant app.TokenGrant
	var ttl string
	cmd := &cobra.Command{
		Use:   "create --agent NAME --scope GLOB...",
		Short: "Make a token; it is printed once, by itself on stdout",
		Example: `  kimbap token create --agent ci --scope 'github.list-*' --scope net.pass --ttl 1h
  curl -x http://kimbap:$(kimbap token create --agent me --scope '*')@127.0.0.1:7788 https://api.github.com/user`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if grant.Agent == "" || len(grant.Scopes) == 0 {
				return usage("kimbap token create --agent ci --scope 'github.list-*'", "a token needs --agent and at least one --scope: without a scope it could do nothing")
			}
			life, err := config.ParseDuration(ttl)
			if err != nil {
				return usage("--ttl 12h, or --ttl 30d", "--ttl %q is not a length of time", ttl)
			}
			grant.TTL = life.Duration()
			return c.with(cmd.Context(), app.Options{}, func(ctx context.Context, a *app.App) error {
				secret, info, err := a.CreateToken(ctx, grant)
				if err != nil {
					return err
				}
				for _, wrong := range a.IdleScopes(grant.Scopes) {
					c.say("warning: %s", wrong)
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
	f.StringArrayVar(&grant.Roles, "role", nil, "role for policy rules, or kimbap.operator or kimbap.admin for the REST API; repeat for more")
	f.StringArrayVar(&grant.Groups, "group", nil, "group for policy rules; repeat for more")
	f.StringVar(&ttl, "ttl", "1h", "how long it is valid: 30m, 12h, 30d")
	return cmd
}

// joined writes the items of a list for a line of text.
func joined[T ~string](items []T) string {
	var out []string
	for _, item := range items {
		out = append(out, string(item))
	}
	return strings.Join(out, " ")
}

func newTokenListCommand(c *cli) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "list [--all]",
		Short:   "List tokens, the newest first; with --all those of ended runs too",
		Example: "  kimbap token list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), listsRights(), func(ctx context.Context, a *app.App) error {
				tokens, err := a.ListTokens(ctx)
				if err != nil {
					return err
				}
				list, rows := []app.TokenInfo{}, [][]string{}
				for _, t := range tokens {
					info := a.Shown(t)
					if t.Run != "" && info.State != "valid" && !all {
						continue // every `kimbap run` leaves one
					}
					list = append(list, info)
					rows = append(rows, []string{t.ID, t.Agent, joined(t.Scopes), info.State, c.when(t.Expires)})
				}
				return c.show(list, func() {
					c.list([]string{"token", "agent", "scopes", "state", "expires"}, rows, "there is no token; see: kimbap token create --help")
				})
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "those of ended runs too")
	return cmd
}

func newTokenInspectCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "inspect ID",
		Short:   "Show what a token may do, who made it, and whether it is valid",
		Example: "  kimbap token inspect tok_…",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if app.IsToken(args[0]) {
				return notItsID()
			}
			return c.with(cmd.Context(), app.Options{Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				tokens, err := a.ListTokens(ctx)
				if err != nil {
					return err
				}
				at := slices.IndexFunc(tokens, func(t app.Token) bool { return t.ID == args[0] })
				if at < 0 {
					return missing("kimbap token list", "there is no token %q", args[0])
				}
				info := a.Shown(tokens[at])
				return c.show(info, func() { c.sayToken(info) })
			})
		},
	}
}

func (c *cli) sayToken(t app.TokenInfo) {
	for _, line := range [][2]string{
		{"token", t.ID}, {"tenant", string(t.Tenant)}, {"agent", t.Agent}, {"run", t.Run}, {"state", t.State}, {"scopes", joined(t.Scopes)},
		{"roles", joined(t.Roles)}, {"groups", joined(t.Groups)}, {"made by", t.Creator},
		{"created", t.Created.Local().Format(time.DateTime)}, {"expires", t.Expires.Local().Format(time.DateTime)},
	} {
		if line[1] != "" {
			fmt.Fprintf(c.out, "%-8s %s\n", line[0], printable(line[1]))
		}
	}
}

func newTokenRevokeCommand(c *cli) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "revoke ID | --all",
		Short:   "Revoke a token, or all of the tenant; it is refused everywhere within a second",
		Example: "  kimbap token revoke tok_…\n  kimbap --tenant acme token revoke --all",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) == 1) {
				return usage("kimbap token revoke tok_…, or kimbap token revoke --all", "name one token, or --all")
			}
			if !all && app.IsToken(args[0]) {
				return notItsID()
			}
			return c.with(cmd.Context(), takesAway(), func(ctx context.Context, a *app.App) error {
				if all {
					ids, err := a.RevokeTokens(ctx)
					if err != nil {
						return err
					}
					c.reach(ctx, a)
					return c.show(map[string]any{"revoked": ids}, func() {
						fmt.Fprintf(c.out, "revoked %s of tenant %s\n", count(len(ids), "token"), a.Tenant())
					})
				}
				revoked, err := a.RevokeToken(ctx, args[0])
				if err != nil {
					return err
				}
				if !revoked {
					return missing("kimbap token list", "there is no valid token %q", args[0])
				}
				c.reach(ctx, a)
				return c.show(map[string]any{"revoked": args[0]}, func() { fmt.Fprintf(c.out, "revoked %s\n", args[0]) })
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every valid token of the tenant, also those of programs that run")
	return cmd
}

// ownersOnly are the commands that give rights, decide, or cannot be undone. Whoever
// shows a token is an agent, and those have no rights to give.
var ownersOnly = map[string]bool{
	"approve accept": true, "approve reject": true, "approve pin": true, "tenant remove": true, "service enable": true, "token create": true, "tenant create": true, "unlock": true, "link": true,
	"vault set": true, "vault rotate": true, "vault import": true, "vault export": true, "service install": true, "ca rotate": true, "console": true,
}

// checkAgent refuses them to a caller with a token in its environment.
func (c *cli) checkAgent(cmd *cobra.Command) error {
	path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	installs := cmd.Flags().Lookup("install")
	if !ownersOnly[path] && (installs == nil || !installs.Changed) || c.getenv("KIMBAP_TOKEN") == "" {
		return nil
	}
	return &failure{
		what: "kimbap " + path + " is the owner's: KIMBAP_TOKEN makes the caller an agent, and no token gives rights",
		fix:  "unset KIMBAP_TOKEN, if you are the owner", exit: exitDenied,
	}
}

func notItsID() error {
	return usage("kimbap token list", "this is a token itself, and what is wanted is its id")
}

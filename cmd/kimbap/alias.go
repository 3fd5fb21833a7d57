package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newAliasCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "alias", Short: "Short names for actions: set, remove, list", Args: cobra.NoArgs,
		Example: "  kimbap alias set prs github.list-pull-requests\n  kimbap alias list",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "set NAME SERVICE.ACTION", Short: "Give an action a short name", Args: cobra.ExactArgs(2),
		Example: "  kimbap alias set prs github.list-pull-requests\n  kimbap call prs --repo cli/cli",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.listing(cmd.Context(), app.Options{}, func(ctx context.Context, a *app.App) error {
				if err := a.SetAlias(ctx, args[0], args[1]); err != nil {
					return err
				}
				return c.show(map[string]string{"alias": args[0], "action": args[1]}, func() { fmt.Fprintf(c.out, "%s is %s\n", args[0], args[1]) })
			})
		},
	}, &cobra.Command{
		Use: "remove NAME", Short: "Remove a short name", Args: cobra.ExactArgs(1), Example: "  kimbap alias remove prs",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.listing(cmd.Context(), app.Options{Despite: true}, func(ctx context.Context, a *app.App) error {
				if err := a.RemoveAlias(ctx, args[0]); err != nil {
					return err
				}
				return c.show(map[string]string{"removed": args[0]}, func() { fmt.Fprintf(c.out, "removed %s\n", args[0]) })
			})
		},
	}, &cobra.Command{
		Use: "list", Short: "List the short names", Args: cobra.NoArgs, Example: "  kimbap alias list -o json",
		RunE: func(*cobra.Command, []string) error {
			all, err := app.Home{Dir: c.homeDir()}.Aliases()
			if err != nil {
				return err
			}
			rows := [][]string{}
			for _, name := range slices.Sorted(maps.Keys(all)) {
				rows = append(rows, []string{name, all[name]})
			}
			return c.show(all, func() {
				c.list([]string{"alias", "action"}, rows, "no short name is kept; see: kimbap alias --help")
			})
		},
	})
	return cmd
}

// parted is the error of a word that is no action where it is a service: its action may stand
// behind it as a word of its own. What follows that is not said again: it may hold what nobody
// should read in a log.
func (c *cli) parted(err error, word string, words []string) error {
	if !slices.Contains(app.CatalogNames(), word) && !(app.Home{Dir: c.homeDir()}).Installed(word) {
		return err
	}
	what := fmt.Sprintf("%q is a service, and its actions are called %s.ACTION", word, word)
	at := slices.Index(words, word)
	if at+1 == len(words) || !namesAction(words[at+1]) {
		return usage("kimbap actions list "+word, "%s", what)
	}
	ref := word + "." + words[at+1]
	fix := "kimbap call " + ref
	if len(words) > at+2 {
		fix += " --help"
	}
	return usage(fix, "%s; did you mean %s?", what, ref)
}

// namesAction reports whether a word is written as the names of actions are.
func namesAction(word string) bool {
	return word[:min(len(word), 1)] != "-" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789_-") == "" && word != ""
}

// unalias returns the action that a word stands for: itself, when it names one.
func (c *cli) unalias(word string) (string, error) {
	if strings.Contains(word, ".") {
		return word, nil
	}
	if c.serverURL() != "" {
		return "", usage("kimbap call SERVICE.ACTION", "%q is not service.action, and aliases are not used with --server", word)
	}
	all, err := app.Home{Dir: c.homeDir()}.Aliases()
	if err != nil {
		return "", err
	}
	if ref, known := all[word]; known {
		return ref, nil
	}
	what := fmt.Sprintf("%q is neither service.action nor an alias", word)
	if near := runtime.Nearest(word, slices.Collect(maps.Keys(all))); near != "" {
		what += "; did you mean " + near + "?"
	}
	return "", usage("kimbap search "+runtime.Quote(word), "%s", what)
}

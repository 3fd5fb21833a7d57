package main

import (
	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/config"
)

func newConfigCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Show the configuration in force",
		Example: "  kimbap config show --origin",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigShowCommand(c))
	return cmd
}

func newConfigShowCommand(c *cli) *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use:     "show [--origin]",
		Short:   "Show every key; with --origin also where its value comes from, and when a change takes effect",
		Example: "  kimbap config show --origin",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := config.Load(c.configFile(), c.env, c.flags)
			if err != nil {
				return &failure{what: "the configuration has problems\n\n" + err.Error(), fix: "correct what is listed; docs/cli.md has every key", exit: exitUsage}
			}
			entries := cfg.Entries()
			rows := [][]string{}
			for _, e := range entries {
				row := []string{e.Key, e.Value}
				if origin {
					row = append(row, e.Origin, takenUp(e))
				}
				rows = append(rows, row)
			}
			heading := []string{"key", "value"}
			if origin {
				heading = append(heading, "from", "a change")
			}
			return c.show(entries, func() { c.table(heading, rows) })
		},
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "say where each value comes from")
	return cmd
}

// takenUp says when a running kimbap has another value of a key.
func takenUp(e config.Entry) string {
	if e.Live {
		return "at once"
	}
	return "at a restart"
}

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newAgentsCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Settings for coding agents: set up, show, remove",
		Long: `Settings for coding agents, so that they go through kimbap proxy without kimbap run:

  claude      env in ~/.claude/settings.json
  codex       shell_environment_policy.set in ~/.codex/config.toml
  gemini      ~/.gemini/.env
  agents.md   a section in AGENTS.md of this folder
  skill       .claude/skills/kimbap/SKILL.md in this folder

It shows what it would write, and asks first. Nothing else in the files is touched, and
remove takes it out again, byte for byte. kimbap run needs none of this.`,
		Example: `  kimbap agents setup claude
  kimbap agents status`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAgentsSetupCommand(c), newAgentsStatusCommand(c), newAgentsRemoveCommand(c), newAgentsForgetCommand(c))
	return cmd
}

func newAgentsSetupCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:       "setup [claude|codex|gemini|agents.md|skill]...",
		Short:     "Write the settings, for the agents named or for those found here",
		Example:   "  kimbap agents setup\n  kimbap agents setup claude agents.md --yes",
		Args:      cobra.ArbitraryArgs, // a name that is none is explained better below
		ValidArgs: app.AgentNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), app.Options{Dir: c.dir()}, func(ctx context.Context, a *app.App) error {
				changes, err := a.PlanAgents(ctx, args)
				if err != nil {
					return err
				}
				if len(changes) == 0 {
					c.say("nothing to do: kimbap agents status says how things stand")
				}
				if err := c.changeAgents(ctx, a, changes, "written"); err != nil || len(changes) == 0 {
					return err
				}
				if len(a.Proxies()) == 0 {
					c.say("the settings lead to http://%s: keep it running there: kimbap proxy", a.Config().Proxy.Listen)
				}
				for _, change := range changes {
					if change.Late != "" {
						c.say("%s %s: start it where eval \"$(kimbap env)\" was run", change.Agent, change.Late)
					}
				}
				return nil
			})
		},
	}
}

func newAgentsRemoveCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:       "remove [claude|codex|gemini|agents.md|skill]...",
		Short:     "Remove what setup wrote",
		Example:   "  kimbap agents remove --yes",
		Args:      cobra.ArbitraryArgs, // a name that is none is explained better below
		ValidArgs: app.AgentNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), app.Options{Dir: c.dir(), Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				changes, err := a.PlanAgentsRemoval(args)
				if err != nil {
					return err
				}
				if len(changes) == 0 {
					c.say("nothing was written for agents")
				}
				return c.changeAgents(ctx, a, changes, "restored")
			})
		},
	}
}

func newAgentsForgetCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "forget FILE",
		Short:   "Forget what setup wrote into a file, and leave the file alone",
		Example: "  kimbap agents forget ~/.gemini/.env",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return c.with(cmd.Context(), app.Options{Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				if err := a.ForgetAgent(ctx, path); err != nil {
					return err
				}
				c.say("%s is left as it is", path)
				return nil
			})
		},
	}
}

func newAgentsStatusCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show which settings are in place, and which have changed",
		Example: "  kimbap agents status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{Dir: c.dir(), Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				states, err := a.AgentStates(ctx)
				if err != nil {
					return err
				}
				return c.show(states, func() {
					if len(states) == 0 {
						c.say("nothing is set up, and no agent that kimbap knows is on this machine")
						return
					}
					var rows [][]string
					for _, s := range states {
						rows = append(rows, []string{s.Agent, s.State, s.Path, c.atHome(s.Fix)})
					}
					c.table([]string{"agent", "state", "file", "fix"}, rows)
				})
			})
		},
	}
}

// changeAgents shows what would change, asks, and does it.
func (c *cli) changeAgents(ctx context.Context, a *app.App, changes []app.AgentChange, done string) error {
	if len(changes) == 0 {
		return c.show([]app.AgentChange{}, func() {})
	}
	for _, change := range changes {
		path := change.Path
		if change.Leads != "" {
			path += " -> " + change.Leads
		}
		c.say("%s", printable(path))
		c.sayPatch("-", change.Cut)
		c.sayPatch("+", change.Add)
	}
	if sure, err := c.sure(ctx, "write this?"); err != nil || !sure {
		return err
	}
	if err := a.ApplyAgents(ctx, changes); err != nil {
		return err
	}
	return c.show(changes, func() {
		for _, change := range changes {
			fmt.Fprintf(c.out, "%s %s\n", done, change.Path)
		}
	})
}

func (c *cli) sayPatch(sign, text string) {
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		c.say("%s %s", sign, printable(strings.TrimSuffix(line, "\n")))
	}
}

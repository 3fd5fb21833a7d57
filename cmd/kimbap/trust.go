package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newTrustCommand(c *cli) *cobra.Command {
	var commands, remove bool
	cmd := &cobra.Command{
		Use:   "trust [--commands | --remove]",
		Short: "Trust the service files of this project",
		Long: `Trust the service files of this project: those in .kimbap/services of this
folder or the nearest one above it, as they are now. When they change, they are
ignored until you trust them again.

A project can add services, and make actions of installed ones riskier. It cannot
lower a risk, take a host over, change an installed service or use its key. Where
it brings services that start programs on this machine, that is asked separately
(--commands).

--remove takes the trust back, whatever has become of the files.`,
		Example: "  kimbap trust\n  kimbap trust --yes --commands\n  kimbap trust --remove",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if home := c.homeDir(); home != "" && !remove { // no home is made for nothing
				if p, err := app.FindProject(app.Home{Dir: home}, c.dir()); err != nil || p == nil {
					return noProject(err)
				}
			}
			o := app.Options{Create: true}
			if remove {
				o = takesAway()
			}
			return c.with(cmd.Context(), o, func(ctx context.Context, a *app.App) error {
				if remove {
					was, err := a.Distrust(ctx, c.dir())
					if err != nil {
						return err
					}
					return c.show(map[string]any{"dir": was, "trusted": false}, func() { fmt.Fprintf(c.out, "%s is not trusted any more\n", printable(was)) })
				}
				p, err := a.ProjectAt(c.dir())
				if err != nil || p == nil {
					return noProject(err)
				}
				return c.trust(ctx, a, p, commands)
			})
		},
	}
	cmd.Flags().BoolVar(&commands, "commands", false, "its services may start programs too")
	cmd.Flags().BoolVar(&remove, "remove", false, "take the trust back: its files are ignored again")
	return cmd
}

// noProject is that there is none, unless err says why none could be found.
func noProject(err error) error {
	if err != nil {
		return err
	}
	return missing("make .kimbap/services/NAME.yaml", "there is no project with service files here, or above")
}

func (c *cli) trust(ctx context.Context, a *app.App, p *app.Project, commands bool) error {
	if err := a.CheckProject(p, true); err != nil {
		return err
	}
	for _, file := range p.Files {
		c.say("%s", printable(file))
	}
	sure, err := c.sure(ctx, fmt.Sprintf("trust these %s as they are now?", count(len(p.Files), "file")))
	if err != nil || !sure {
		return err
	}
	if len(p.Programs) > 0 && !commands {
		if c.yes {
			return usage("kimbap trust --yes --commands", "this project starts programs (%s), which --yes alone does not allow", strings.Join(p.Programs, ", "))
		}
		if commands, err = c.sure(ctx, fmt.Sprintf("its services start programs on this machine: %s. Allow that too?", strings.Join(p.Programs, ", "))); err != nil {
			return err
		}
		if err := a.CheckProject(p, commands); err != nil {
			return err
		}
	}
	if err := a.Trust(ctx, p, commands); err != nil {
		return err
	}
	p.Trusted = true
	return c.show(p, func() { fmt.Fprintf(c.out, "trusted %s (%s)\n", printable(p.Dir), p.Hash[:12]) })
}

// sure asks at the terminal, unless --yes has answered.
func (c *cli) sure(ctx context.Context, question string) (bool, error) {
	if c.yes {
		return true, nil
	}
	t, err := openTerminal()
	if err != nil {
		return false, usage("say yes beforehand: --yes", "this is asked at a terminal only, and there is none")
	}
	defer t.close()
	return t.agrees(ctx, question)
}

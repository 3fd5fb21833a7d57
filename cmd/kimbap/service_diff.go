package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newServiceDiffCommand(c *cli) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "diff NAME [--keep]",
		Short: "Compare an installed service with the catalogue's file",
		Long: `Compare an installed service with the catalogue's file.

Lines of yours begin with -, those of the catalogue's with +. With --keep yours stays
beside the catalogue's of now, and kimbap names it no more, until the catalogue has
yet another file.`,
		Example: "  kimbap service diff github\n  kimbap service diff github --keep",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			open := c.listing
			if keep { // which is recorded
				open = c.with
			}
			return open(cmd.Context(), app.Options{Despite: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				d, err := a.DiffService(args[0])
				if err == nil && keep && len(d.Lines) > 0 {
					err = a.KeepService(ctx, args[0])
				}
				if err != nil {
					return err
				}
				return c.showServiceDiff(d, keep)
			})
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep your file, and say no more of it until the catalogue's changes again")
	return cmd
}

func (c *cli) showServiceDiff(d *app.ServiceDiff, keep bool) error {
	return c.show(d, func() {
		switch {
		case len(d.Lines) == 0:
			fmt.Fprintf(c.out, "%s is as the catalogue has it\n", d.Name)
			return
		case keep:
			fmt.Fprintf(c.out, "kept %s as it is\n", d.Name)
			return
		}
		fmt.Fprintf(c.out, "--- %s\n+++ the catalogue's %s\n", printable(d.File), d.Name)
		for _, line := range d.Lines {
			fmt.Fprintln(c.out, printable(line))
		}
		c.advise("take the catalogue's with: " + d.Command + "; keep yours with: kimbap service diff " + d.Name + " --keep")
	})
}

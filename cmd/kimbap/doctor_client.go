package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

// tryClients lets clients fetch something through kimbap, and says how each got on
// as soon as it has.
func (c *cli) tryClients(ctx context.Context, names []string) error {
	known := app.ProbeNames()
	if slices.Contains(names, "all") {
		names = known
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			fix := "one of all, " + strings.Join(known, ", ")
			if near := runtime.Nearest(name, known); near != "" {
				fix = "kimbap doctor --client " + near
			}
			return usage(fix, "kimbap does not know how to try %q", name)
		}
	}
	ctx, stop := c.bounded(ctx)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var all []app.Probed
	failed := 0
	err = app.ProbeClients(ctx, app.Probing{
		Options: app.Options{Env: c.env, UID: c.uid, Clock: time.Now, Executable: c.executable, Log: c.logger(c.err)},
		Names:   names, Fetch: []string{self, "_fetch"},
		Tell: func(p app.Probed) {
			all = append(all, p)
			if p.Fix != "" {
				failed++
			}
			if c.output == "text" {
				c.sayProbed(&p)
			}
		},
	})
	if err != nil {
		return err
	}
	if err := c.show(all, func() {}); err != nil {
		return err
	}
	if failed > 0 {
		return found(fmt.Sprintf("%d of %d clients do not get through as they are", failed, len(all)), "", "")
	}
	return nil
}

func (c *cli) sayProbed(p *app.Probed) {
	fmt.Fprintf(c.out, "%-9s %-9s %s\n", p.State, p.Client, printable(p.Said))
	if p.Fix != "" {
		fmt.Fprintf(c.out, "%-9s %-9s fix: %s\n", "", "", p.Fix)
	}
}

// newFetchCommand is what doctor tries for programs in Go; people have no use for it.
func newFetchCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "_fetch URL", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "Internal: fetch a URL as any program in Go does",
		RunE: func(cmd *cobra.Command, args []string) error {
			return app.FetchOnce(cmd.Context(), args[0], c.out)
		},
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

// watchInterval is how often a watcher looks for new questions.
const watchInterval = time.Second

func newApproveWatchCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "watch",
		Short: "Show requests as they come in; they wait for you meanwhile",
		Long: `Show questions as they come, until Ctrl-C.

While somebody watches, a request that needs approval is held open for up to
50 seconds instead of being refused at once, so that the program does not notice
when the answer is quick. Decide in another terminal.`,
		Example: "  kimbap approve watch\n  kimbap approve watch -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{}, c.watchApprovals)
		},
	}
}

func (c *cli) watchApprovals(ctx context.Context, a *app.App) error {
	shown := map[string]bool{}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	c.say("watching; decide with: kimbap approve accept ID, or reject ID")
	for {
		list, err := a.WatchApprovals(ctx, 3*watchInterval, func(id string) bool { return shown[id] })
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for i := len(list) - 1; i >= 0; i-- { // the oldest first
			shown[list[i].ID] = true
			if err := c.question(ctx, a, list[i]); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// question prints one approval that waits: as a line of JSON, or as a person reads
// it, with what is other than the last time.
func (c *cli) question(ctx context.Context, a *app.App, p app.Approval) error {
	switch {
	case c.jq != "":
		return c.show(p, nil)
	case c.output != "text":
		line, err := json.Marshal(p)
		if err == nil {
			_, err = fmt.Fprintf(c.out, "%s\n", line)
		}
		return err
	}
	_, text, err := a.ShowApproval(ctx, p.ID, false)
	if err != nil { // it cannot be opened; what the row says is all there is
		_, err = fmt.Fprintf(c.out, "%s  %s  %s  %s\n", p.ID, printable(p.Agent), p.Action, printable(p.Summary))
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s\n", text)
	return err
}

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newApproveNotifyCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "Messages about requests that wait: test",
		Long: `Messages that tell people of requests: by webhook, Slack, Telegram or mail, as
approval.notify in config.yaml says. They say what is asked; nothing in them
decides.`,
		Example: "  kimbap approve notify test",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "test",
		Short:   "Send a test message by every notifier",
		Example: "  kimbap approve notify test",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{}, c.testNotify)
		},
	})
	return cmd
}

func (c *cli) testNotify(ctx context.Context, a *app.App) error {
	results, err := a.TestNotify(ctx)
	if err != nil {
		return err
	}
	failed := 0
	var rows [][]string
	for _, r := range results {
		how := "sent"
		if !r.Sent {
			failed, how = failed+1, r.Problem
		}
		rows = append(rows, []string{r.Sender, printable(how)})
	}
	if err := c.show(results, func() { c.table([]string{"notifier", "test message"}, rows) }); err != nil || failed == 0 {
		return err
	}
	return &runtime.Error{
		Code: runtime.CodeUpstream, Msg: fmt.Sprintf("%d of %d notifiers did not send", failed, len(results)),
		Hint: "correct approval.notify in config.yaml, or the stored key: kimbap vault list",
	}
}

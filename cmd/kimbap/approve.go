package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

func newApproveCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approve",
		Short: "Decide what agents ask for: list, show, accept, reject, wait, watch, pin, revoke, notify",
		Example: `  kimbap approve list
  kimbap approve accept apr_…
  kimbap approve watch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newApproveListCommand(c), newApproveShowCommand(c), newApproveAcceptCommand(c), newApproveRejectCommand(c), newApproveWaitCommand(c), newApproveWatchCommand(c),
		newApprovePinCommand(c), newApproveRevokeCommand(c), newApproveNotifyCommand(c))
	return cmd
}

func newApproveListCommand(c *cli) *cobra.Command {
	var all, standing bool
	cmd := &cobra.Command{
		Use:     "list [--all | --standing]",
		Short:   "List what waits for a decision",
		Example: "  kimbap approve list -o json\n  kimbap approve list --standing",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if done, err := c.atServer(cmd, func(ctx context.Context, there *remote.Client) error {
				if standing {
					list, err := listOf[app.Standing](ctx, there, "/v1/standing", nil, 0)
					return c.sayStanding(list, err)
				}
				list, err := listOf[app.Approval](ctx, there, "/v1/approvals", url.Values{"all": {strconv.FormatBool(all)}}, 0)
				if err != nil {
					return err
				}
				return c.sayNewest(list, all)
			}); done {
				return err
			}
			return c.with(cmd.Context(), listsRights(), func(ctx context.Context, a *app.App) error {
				if standing {
					return c.sayStanding(a.Standing(ctx))
				}
				list, err := a.ListApprovals(ctx, all)
				if err != nil {
					return err
				}
				return c.sayNewest(list, all)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "include those that were decided")
	cmd.Flags().BoolVar(&standing, "standing", false, "what earlier decisions still allow (accept --for, --run)")
	return cmd
}

// sayNewest shows approvals, and says so where there may be older ones.
func (c *cli) sayNewest(list []app.Approval, all bool) error {
	err := c.sayApprovals(list)
	switch {
	case len(list) < app.ListLimit:
	case all:
		c.say("these are the newest %d; the trail has all that was decided: kimbap audit search --action 'approval.*'", app.ListLimit)
	default:
		c.say("these are the newest %d; others that wait show once some of these are decided", app.ListLimit)
	}
	return err
}

func (c *cli) sayApprovals(list []app.Approval) error {
	var rows [][]string
	for _, p := range list {
		expires := ""
		if p.State == "pending" || p.State == "approved" { // else nothing runs any more
			expires = c.when(p.Expires)
		}
		switch {
		case p.Ended:
			expires = "the asker has ended"
		case p.Over:
			expires += ", its script has ended"
		}
		rows = append(rows, []string{p.ID, p.State, p.Agent, string(p.Action), p.Summary, expires})
	}
	heading := []string{"approval", "state", "agent", "action", "request", "expires"}
	return c.show(list, func() {
		if c.width == 0 || widthOfTable(heading, rows) <= c.width {
			c.list(heading, rows, "nothing waits for a decision")
			return
		}
		for _, row := range rows {
			c.sayNarrow(row)
		}
	})
}

// sayNarrow shows an approval where its columns do not fit, and a request cut to a few
// characters could be any.
func (c *cli) sayNarrow(row []string) {
	const indent = 4
	for i := range row {
		row[i] = printable(row[i])
	}
	id, state, agent, action, request, expires := row[0], row[1], row[2], row[3], row[4], row[5]
	fmt.Fprintln(c.out, cut(strings.TrimRight(strings.Join([]string{id, state, expires, agent}, "  "), " "), c.width))
	request = cut(request, c.width-indent)
	fmt.Fprintf(c.out, "%*s%s\n", indent, "", joinWrapped([]string{action, request}, c.width, indent))
}

func (c *cli) sayStanding(list []app.Standing, err error) error {
	if err != nil {
		return err
	}
	var rows [][]string
	for _, s := range list {
		run := s.Run
		if run == "" {
			run = "any"
		}
		rows = append(rows, []string{s.ID, s.Agent, string(s.Action), s.Target, run, s.By, c.when(s.Expires)})
	}
	return c.show(list, func() {
		c.list([]string{"approval", "agent", "action", "target", "run", "by", "ends"}, rows, "no earlier decision allows anything now")
	})
}

func newApproveRevokeCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke ID",
		Short:   "Take back what accept --for or --run allows",
		Example: "  kimbap approve list --standing\n  kimbap approve revoke apr_…",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if done, err := c.atServer(cmd, func(ctx context.Context, there *remote.Client) error {
				asked, err := decideElsewhere(ctx, there, args[0], "revoke", nil)
				if err != nil {
					return err
				}
				return c.sayRevoked(args[0], asked.State)
			}); done {
				return err
			}
			return c.with(cmd.Context(), takesAway(), func(ctx context.Context, a *app.App) error {
				if err := a.RevokeStanding(ctx, args[0]); err != nil {
					return err
				}
				asked, _, err := a.ShowApproval(ctx, args[0], false)
				if err != nil { // which is revoked all the same
					asked.State = ""
				}
				return c.sayRevoked(args[0], asked.State)
			})
		},
	}
}

// sayRevoked says what is left of an approval that stood.
func (c *cli) sayRevoked(id, state string) error {
	left := "nothing more"
	if state == "approved" {
		left = "only what was asked for, once, which has not been sent yet"
	}
	return c.show(map[string]any{"revoked": id}, func() { fmt.Fprintf(c.out, "revoked: %s allows %s\n", id, left) })
}

func newApproveShowCommand(c *cli) *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show exactly what is asked",
		Example: "  kimbap approve show apr_…",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if done, err := c.atServer(cmd, func(ctx context.Context, there *remote.Client) error {
				return c.showElsewhere(ctx, there, args[0], full)
			}); done {
				return err
			}
			return c.with(cmd.Context(), app.Options{Despite: true}, func(ctx context.Context, a *app.App) error {
				shown, text, err := a.ShowApproval(ctx, args[0], full)
				if err != nil {
					return err
				}
				return c.show(shown, func() {
					fmt.Fprintln(c.out, strings.TrimSuffix(text, "\n"))
					switch {
					case shown.Ended:
						c.say("whoever asked has ended: nobody could use a yes; --always adds a rule for the next time")
					case shown.Over:
						c.say("the script that asked has ended: a yes is for the same call, made again")
					}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "show long arguments whole")
	return cmd
}

func newApproveRejectCommand(c *cli) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "reject ID [--reason TEXT]",
		Short:   "Reject: the requester is told",
		Example: "  kimbap approve reject apr_… --reason 'use the staging account'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			say := func(decided app.Approval) error {
				return c.show(decided, func() { fmt.Fprintf(c.out, "rejected %s: %s for %s\n", decided.ID, decided.Action, decided.Agent) })
			}
			if done, err := c.atServer(cmd, func(ctx context.Context, there *remote.Client) error {
				decided, err := decideElsewhere(ctx, there, args[0], "reject", map[string]any{"reason": reason})
				if err != nil {
					return err
				}
				return say(decided)
			}); done {
				return err
			}
			return c.with(cmd.Context(), takesAway(), func(ctx context.Context, a *app.App) error {
				decided, err := a.Reject(ctx, args[0], reason)
				if err != nil {
					return err
				}
				return say(decided)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "what the requester is told")
	return cmd
}

func newApproveWaitCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "wait ID",
		Short: "Wait for the decision, then run the request and print its result",
		Long: `Wait for the decision, then run the request and print its result. What that
redirects to may need a decision of its own, which is waited for too.

Only the requester can: the request is executed in its name, once.`,
		Example: "  kimbap approve wait apr_…",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if done, err := c.atServer(cmd, func(ctx context.Context, there *remote.Client) error {
				return c.waitElsewhere(ctx, there, args[0])
			}); done {
				return err
			}
			return c.with(cmd.Context(), app.Options{}, func(ctx context.Context, a *app.App) error {
				answer, questions := &app.Answer{}, c.questions(func() {})
				action, callArgs, err := a.WaitApproval(ctx, args[0], answer, questions.asked)
				questions.halt()
				if err != nil {
					return c.ofAnother(ctx, a, args[0], err)
				}
				return c.result(ctx, a, action, callArgs, answer)
			})
		},
	}
}

// ofAnother says of an approval that this user may look at, and has not asked for, who collects
// it; without that "there is no approval" would send them to the list, which has it.
func (c *cli) ofAnother(ctx context.Context, a *app.App, id string, err error) error {
	if runtime.AsError(err).Reason != runtime.ReasonNotFound || c.showsToken() {
		return err
	}
	if _, _, unknown := a.ShowApproval(ctx, id, false); unknown != nil {
		return err
	}
	return missing("there, with the token that asked: kimbap approve wait "+runtime.Quote(id), "only its requester collects %s", id)
}

// when says how far away a time is.
func (c *cli) when(t time.Time) string {
	d := time.Until(t).Round(time.Second)
	switch {
	case d == 0:
		return "just now"
	case d > 48*time.Hour || d < -48*time.Hour:
		return t.Local().Format(time.DateOnly)
	case d >= 0:
		return "in " + short(d)
	default:
		return short(-d) + " ago"
	}
}

func short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	default:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
}

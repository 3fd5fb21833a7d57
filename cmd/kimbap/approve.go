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
					return errHere
				}
				list, err := listOf[app.Approval](ctx, there, "/v1/approvals", url.Values{"all": {strconv.FormatBool(all)}}, 0)
				if err != nil {
					return err
				}
				return c.sayApprovals(list)
			}); done {
				return err
			}
			return c.with(cmd.Context(), app.Options{Despite: true, Emergency: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				if standing {
					return c.sayStanding(ctx, a)
				}
				list, err := a.ListApprovals(ctx, all)
				if err != nil {
					return err
				}
				return c.sayApprovals(list)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "include those that were decided")
	cmd.Flags().BoolVar(&standing, "standing", false, "what earlier decisions still allow (accept --for, --run)")
	return cmd
}

func (c *cli) sayApprovals(list []app.Approval) error {
	var rows [][]string
	for _, p := range list {
		expires := ""
		if p.State == "pending" || p.State == "approved" { // else nothing runs any more
			expires = c.when(p.Expires)
		}
		if p.Ended {
			expires = "the asker has ended"
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

func (c *cli) sayStanding(ctx context.Context, a *app.App) error {
	list, err := a.Standing(ctx)
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
			return c.with(cmd.Context(), app.Options{Despite: true, Emergency: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
				if err := a.RevokeStanding(ctx, args[0]); err != nil {
					return err
				}
				left := "nothing more"
				if asked, _, err := a.ShowApproval(ctx, args[0], false); err == nil && asked.State == "approved" {
					left = "only what was asked for, once, which has not been sent yet"
				}
				return c.show(map[string]any{"revoked": args[0]}, func() { fmt.Fprintf(c.out, "revoked: %s allows %s\n", args[0], left) })
			})
		},
	}
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
					if shown.Ended {
						c.say("whoever asked has ended: nobody could use a yes; --always adds a rule for the next time")
					}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "show long arguments whole")
	return cmd
}

func newApproveAcceptCommand(c *cli) *cobra.Command {
	var yes app.Yes
	var pin bool
	cmd := &cobra.Command{
		Use:   "accept ID [--for D | --run | --always] [--as NAME] [--full]",
		Short: "Accept: this exact request may run once",
		Long: `Accept: this exact request may run once.

With --for or --run, the same requester may also repeat the same action on the same
target for a while, whatever the body says; policy is still asked each time. kimbap
approve revoke ends that. --always shows the policy rule that would allow the action
to the same agent from now on and, if you agree at the terminal (or with --yes),
writes it into the policy file, right before the rule that asked.`,
		Example: "  kimbap approve accept apr_…\n  kimbap approve accept apr_… --for 10m\n  kimbap approve show apr_… --full && kimbap approve accept apr_… --full",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if yes.For != 0 && yes.Run || yes.Run && yes.Always || yes.Always && yes.For != 0 {
				return usage("kimbap approve accept "+args[0]+" --for 10m", "give one of --for, --run and --always")
			}
			if yes.For == 0 && cmd.Flags().Changed("for") {
				return usage("kimbap approve accept "+args[0]+" --for 10m, or without --for", "--for 0s allows nothing beside this request")
			}
			if done, err := c.atServer(cmd, func(ctx context.Context, there *remote.Client) error {
				return c.acceptElsewhere(ctx, there, args[0], yes, pin)
			}); done {
				return err
			}
			return c.with(cmd.Context(), app.Options{}, func(ctx context.Context, a *app.App) error {
				return c.accept(ctx, a, args[0], yes, pin)
			})
		},
	}
	f := cmd.Flags()
	f.Var((*lengthOfTime)(&yes.For), "for", "allow the same action on the same target for this long: 10m, 1d")
	f.BoolVar(&yes.Run, "run", false, "allow it for the rest of the kimbap run that asks")
	f.BoolVar(&yes.Always, "always", false, "add a policy rule that allows the action to this agent")
	f.StringVar(&yes.As, "as", "", "decide as this person, with the PIN that they set: kimbap approve pin --as NAME")
	f.BoolVar(&pin, "pin", false, "ask for the PIN even where it is not demanded")
	f.BoolVar(&yes.Full, "full", false, "the request is too long to be shown, and you have read all of it")
	return cmd
}

func (c *cli) accept(ctx context.Context, a *app.App, id string, yes app.Yes, pin bool) error {
	rule, before, pin, err := c.always(ctx, a, id, &yes, pin)
	if err != nil {
		return err
	}
	if yes.PIN, err = c.acceptPin(ctx, a, id, yes, pin); err != nil {
		return err
	}
	decided, err := a.Accept(ctx, id, yes)
	if err == nil && yes.Always {
		if err = a.AddRule(ctx, rule, before); err != nil {
			c.say("%s is accepted for this once", id)
		}
	}
	if err != nil {
		return err
	}
	return c.show(decided, func() { c.sayAccepted(decided, yes) })
}

// always shows the rule that --always would write and asks; it does nothing
// without the flag. Who has a PIN changes the policy with it.
func (c *cli) always(ctx context.Context, a *app.App, id string, yes *app.Yes, pin bool) (rule, before string, ask bool, err error) {
	if !yes.Always {
		return "", "", pin, nil
	}
	own, err := a.PinNeeds(ctx, "", true)
	if err != nil {
		return "", "", pin, err
	}
	if rule, before, err = a.AlwaysRule(ctx, id); err != nil {
		return "", "", pin, err
	}
	if err = c.agreesTo(ctx, id, rule, *yes, a); err != nil {
		return "", "", pin, err
	}
	return rule, before, pin || own != "", nil
}

func (c *cli) sayAccepted(decided app.Approval, yes app.Yes) {
	if decided.State == "pending" {
		fmt.Fprintf(c.out, "counted for %s: %s\n", decided.ID, decided.Note)
		return
	}
	fmt.Fprintf(c.out, "accepted %s: %s for %s\n", decided.ID, decided.Action, decided.Agent)
	switch {
	case yes.Always:
		fmt.Fprintln(c.out, "and from now on: the rule is in the policy file")
	case yes.Run:
		fmt.Fprintln(c.out, "and the like of it for the rest of that run")
	case yes.For > 0:
		fmt.Fprintf(c.out, "and the like of it for %s\n", runtime.Span(yes.For))
	}
	if decided.Ended {
		return
	}
	if decided.Surface == runtime.SurfaceExec {
		c.say("a script that waits goes on by itself, one that paused with: kimbap exec --resume ID, by whoever started it; has it ended, the same call in another one uses this yes")
		return
	}
	c.say("the requester executes it: by a request that waits, the same request again, or kimbap approve wait %s", decided.ID)
}

// accepting is the command that says this yes, for who is to say it again elsewhere.
func accepting(id string, yes app.Yes) string {
	command := "kimbap approve accept " + id
	switch {
	case yes.For > 0:
		command += " --for " + runtime.Span(yes.For)
	case yes.Run:
		command += " --run"
	case yes.Always:
		command += " --always"
	}
	if yes.As != "" {
		command += " --as " + runtime.Quote(yes.As)
	}
	if yes.Full {
		command += " --full"
	}
	return command
}

// agreesTo shows a rule and asks whether it is to be written. Where nobody can be asked, or
// says no, nothing is accepted either: who is asked for both and does one leaves a request
// that is decided, and the other cannot be had any more.
func (c *cli) agreesTo(ctx context.Context, id, rule string, yes app.Yes, a *app.App) error {
	c.say("the rule, first in %s:\n  - %s", a.PolicyFile(), rule)
	if c.yes {
		return nil
	}
	t, err := openTerminal()
	if err != nil {
		return usage(accepting(id, yes)+" --yes", "--always asks at a terminal whether to write the rule, and there is none: nothing was accepted")
	}
	defer t.close()
	agreed, err := t.agrees(ctx, "write it?")
	if err == nil && !agreed {
		yes.Always = false
		err = usage(accepting(id, yes)+", without --always, accepts it for this once", "nothing was accepted and nothing was written")
	}
	return err
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
			return c.with(cmd.Context(), app.Options{Despite: true, Emergency: true, StartLocked: true}, func(ctx context.Context, a *app.App) error {
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
		Long: `Wait for the decision, then run the request and print its result.

Only the requester can: the request is executed in its name, once.`,
		Example: "  kimbap approve wait apr_…",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if done, err := c.atServer(cmd, func(ctx context.Context, there *remote.Client) error {
				body, err := there.Collect(ctx, args[0])
				if err != nil {
					return err
				}
				return c.print(body)
			}); done {
				return err
			}
			return c.with(cmd.Context(), app.Options{}, func(ctx context.Context, a *app.App) error {
				answer := &app.Answer{}
				action, callArgs, err := a.WaitApproval(ctx, args[0], answer)
				if err != nil {
					return err
				}
				return c.result(a, action, callArgs, answer)
			})
		},
	}
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

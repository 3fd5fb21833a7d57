package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

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
	f.Var(lastingDays(&yes.For), "for", "allow the same action on the same target for this long: 10m, 1d")
	f.BoolVar(&yes.Run, "run", false, "allow it for the rest of the kimbap run that asks")
	f.BoolVar(&yes.Always, "always", false, "add a policy rule that allows the action to this agent")
	f.StringVar(&yes.As, "as", "", "decide as this person, with the PIN that they set: kimbap approve pin --as NAME")
	f.BoolVar(&pin, "pin", false, "ask for the PIN even where it is not demanded")
	f.BoolVar(&yes.Full, "full", false, "the request is too long to be shown, or hides something, and you have read all of it")
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
	if err = a.Decidable(ctx, id); err != nil { // before anybody reads a rule, or types a PIN
		return "", "", pin, err
	}
	own, err := a.PinNeeds(ctx, "", true)
	if err != nil {
		return "", "", pin, err
	}
	if rule, before, err = a.AlwaysRule(ctx, id); err != nil {
		return "", "", pin, err
	}
	if err = c.agreesTo(ctx, id, rule, before, *yes, a); err != nil {
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
	if decided.Connection() {
		c.say("the requester opens it: by a request that waits, or the same one again")
		return
	}
	if decided.Own {
		c.say("the requester executes it with its own login: by a request that waits, or the same request again")
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
func (c *cli) agreesTo(ctx context.Context, id, rule, before string, yes app.Yes, a *app.App) error {
	c.say("the rule for %s, right before %s, or last if the file has no such rule:\n  - %s", a.PolicyFile(), printable(before), rule)
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

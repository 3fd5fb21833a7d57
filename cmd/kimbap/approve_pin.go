package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

const pinLong = `Set or change the PIN that shows that a person decides.

A program of the same user could run kimbap approve accept by itself. A PIN is
asked for at the terminal only: once one is set, what is critical can be accepted
only with it, and policy rules may demand it for more.

With --as, another person gets a PIN of their own on this machine, and the roles
that rules ask for; your own PIN vouches for them. They accept with: kimbap
approve accept ID --as NAME.`

func newApprovePinCommand(c *cli) *cobra.Command {
	var n app.NewPin
	var remove, list bool
	cmd := &cobra.Command{
		Use:     "pin [--as NAME [--role R]...] [--remove] [--list]",
		Short:   "Set the PIN that shows that a person decides",
		Long:    pinLong,
		Example: "  kimbap approve pin\n  kimbap approve pin --as alice --role finance\n  kimbap approve pin --as alice --remove",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{Despite: list, StartLocked: list}, func(ctx context.Context, a *app.App) error {
				if list {
					return c.sayPeople(ctx, a)
				}
				return c.setPin(ctx, a, n, remove)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&n.As, "as", "", "another person's name")
	f.StringArrayVar(&n.Roles, "role", nil, "a role of that person, for policy rules; repeat for more")
	f.StringArrayVar(&n.Groups, "group", nil, "a group of that person, for policy rules; repeat for more")
	f.BoolVar(&remove, "remove", false, "take the PIN away")
	f.BoolVar(&list, "list", false, "list who has one")
	return cmd
}

func (c *cli) sayPeople(ctx context.Context, a *app.App) error {
	people, err := a.People(ctx)
	if err != nil {
		return err
	}
	return c.show(append([]string{}, people...), func() {
		for _, who := range people {
			fmt.Fprintln(c.out, who)
		}
		if len(people) == 0 {
			c.say("nobody has a PIN")
		}
	})
}

func (c *cli) setPin(ctx context.Context, a *app.App, n app.NewPin, remove bool) error {
	needs, err := a.PinNeeds(ctx, n.As, remove)
	if err != nil {
		return err
	}
	t, err := openTerminal()
	if err != nil {
		return usage("in a terminal: the same command", "a PIN is asked for at a terminal only, and there is none here")
	}
	defer t.close()
	if needs != "" {
		if n.Proved, err = t.secret(ctx, "PIN of "+needs); err != nil {
			return err
		}
	}
	if !remove {
		if n.PIN, err = askedTwice("new PIN", t.asking(ctx)); err != nil {
			return err
		}
		if n.PIN.Empty() {
			return usage("type one, or take it away with --remove", "nothing was typed; nothing was changed")
		}
	}
	if err := a.SetPin(ctx, n); err != nil {
		return err
	}
	if remove {
		c.say("the PIN is removed")
		return nil
	}
	if n.As != "" {
		c.say("the PIN of %s is set; they decide with: kimbap approve accept ID --as %s", n.As, n.As)
		return nil
	}
	c.say("the PIN is set; what is critical is accepted with it only")
	return nil
}

// offerPin asks whoever makes a home for a PIN, once, and takes no for an answer.
func (c *cli) offerPin(ctx context.Context, a *app.App) error {
	people, err := a.People(ctx)
	if err != nil || len(people) > 0 {
		return err
	}
	t, err := openTerminal()
	if err != nil {
		return nil // nobody to ask
	}
	defer t.close()
	c.say("a PIN shows that a person decides when an agent asks for something critical (Enter: none; later: kimbap approve pin)")
	pin, err := askedTwice("PIN", t.asking(ctx))
	if errors.Is(err, errUnanswered) {
		return nil
	}
	if err != nil || pin.Empty() {
		return err
	}
	return a.SetPin(ctx, app.NewPin{PIN: pin})
}

// acceptPin asks for the PIN that accepting needs. None is needed for what is not
// critical and no rule demands it for, unless the decider has a name.
func (c *cli) acceptPin(ctx context.Context, a *app.App, id string, yes app.Yes, offered bool) (runtime.Secret, error) {
	demanded, err := a.Demands(ctx, id)
	if err != nil || demanded != "pin" && yes.As == "" && !offered {
		return runtime.Secret{}, err
	}
	if yes.As != "" {
		known, err := a.HasPin(ctx, yes.As)
		if err != nil {
			return runtime.Secret{}, err
		}
		if !known { // nobody could type what is not there
			return runtime.Secret{}, usage("in a terminal: kimbap approve pin --as "+runtime.Quote(yes.As), "%s has no PIN here, and decides with it alone", printable(yes.As))
		}
	}
	t, err := openTerminal()
	if err != nil {
		return runtime.Secret{}, usage("in a terminal: "+accepting(id, yes), "this is accepted with a PIN, which is read from a terminal only, and there is none here")
	}
	defer t.close()
	return t.secret(ctx, "PIN of "+cmp.Or(yes.As, a.Operator().ID))
}

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newLinkCommand(c *cli) *cobra.Command {
	var file string
	var noCheck, rebind, force bool
	var signIn signInFlags
	cmd := &cobra.Command{
		Use:   "link SERVICE",
		Short: "Store a service's key; kimbap handles its hosts from then on",
		Long: `Store a service's key; kimbap handles its hosts from then on.

The key comes from stdin, from --file, or from a prompt. The service is
installed from the catalogue if it is not there yet, and with it those that use the same
key (with github also github-git); in a trusted project its own services are known too,
and their keys are kept apart. The key is first tried with one
read: one that the service refuses is not stored, and the previous one stays.

For a service with an OAuth sign-in (gmail, google-calendar), link prints an address to
open in a browser, or with --device, where the provider has that, a code to type on
another device. You register the OAuth client at the provider yourself. kimbap seals
what the provider grants, and renews the access token by itself. A grant from elsewhere
(JSON with client_id, client_secret and refresh_token) can be piped in. Where the service
has grant: client_credentials nobody signs in: the client's id and secret get the tokens,
and its JSON can be piped in.`,
		Example: "  gh auth token | kimbap link github\n  kimbap link openai\n  kimbap link stripe --file ./stripe.key\n  kimbap link gmail --client client_secret.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if ext := filepath.Ext(args[0]); ext == ".yaml" || ext == ".yml" {
				return usage("kimbap service install "+runtime.Quote(args[0])+", then: kimbap link NAME", "%s is a file, and a service is linked by its name", args[0])
			}
			if rebind && (file != "" || signIn.token || signIn.given()) {
				return usage("kimbap link "+runtime.Quote(args[0])+", to store another key", "--rebind keeps the key that is stored, and a file or a sign-in gives another one")
			}
			return c.with(cmd.Context(), app.Options{Create: true, Dir: c.dir()}, func(ctx context.Context, a *app.App) error {
				var linked app.Linked
				var err error
				if rebind {
					linked, err = a.Rebind(ctx, args[0])
				} else {
					linked, err = c.link(ctx, a, args[0], file, &signIn, !noCheck && !force)
				}
				if err != nil {
					return err
				}
				if !noCheck && linked.Checked == "" {
					linked.Checked, linked.Problem = a.CheckKey(ctx, linked.Service)
				}
				if s, known := a.Services().Service(linked.Service); known && linked.Problem == "" {
					linked.Advice = a.KeyAdvice(ctx, s)
				}
				c.reach(ctx, a)
				return c.show(linked, func() { c.sayLinked(linked) })
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "read the key from this file")
	cmd.Flags().BoolVar(&noCheck, "no-check", false, "do not try the key")
	cmd.Flags().BoolVar(&force, "force", false, "store the key also when the service refuses it")
	signIn.add(cmd.Flags())
	cmd.Flags().BoolVar(&rebind, "rebind", false, "keep the stored key, and bind it to the hosts the service has now")
	return cmd
}

// link gets the key of a service and stores it. A grant that a person has just given and that is
// not stored goes back.
func (c *cli) link(ctx context.Context, a *app.App, name, file string, f *signInFlags, check bool) (app.Linked, error) {
	s, err := a.SignIns().For(ctx, name)
	if err != nil {
		return app.Linked{}, err
	}
	defer c.warnOfGrant(ctx, s)()
	secret, signedIn, err := c.key(ctx, a, s, name, file, f)
	if err != nil {
		return app.Linked{}, err
	}
	var linked app.Linked
	if err = ctx.Err(); err == nil { // it may have ended while the provider gave the grant
		linked, err = a.Link(ctx, name, secret, check)
	}
	if err == nil {
		return linked, nil
	}
	if !signedIn {
		if app.IsGrant(secret) { // of elsewhere: it was renewed
			c.say("the refresh token that was given has been used, and what the provider gave for it is not stored: "+
				"if it takes each one once, get a new one, or sign in with kimbap link %s --client FILE", runtime.Quote(name))
		}
		return linked, err
	}
	switch became := a.SignIns().GiveBackNew(ctx, s, secret); {
	case became == app.GrantGiven && s.Machine:
		c.say("the access token that the provider gave was given back")
	case became == app.GrantGiven:
		c.say("what you granted was given back to the provider")
	case became == app.GrantLasting:
		c.say("the access token that the provider gave is good there until it expires: it could not be given back, or the stored one would end with it")
	case became == app.GrantAlive:
		c.say("what you granted stays in your account at the provider: it could not be given back, or the stored grant would end with it")
	}
	return linked, err
}

// warnOfGrant tells whoever presses Ctrl-C while a provider is asked for a grant, or is given
// one back, what a second one would leave, until done is called.
func (c *cli) warnOfGrant(ctx context.Context, s *app.SignInOffer) (done func()) {
	const soon = 300 * time.Millisecond // else it ends by itself, with nothing granted
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-over:
		case <-time.After(soon):
			c.say("ending: if you have agreed at the provider, it is asked to take the grant back; Ctrl-C again ends at once, and leaves it in your account there")
		}
	})
	if s == nil || s.Machine { // nobody signs in
		stop()
	}
	return func() { stop(); close(over) }
}

func (c *cli) sayLinked(l app.Linked) {
	fmt.Fprintf(c.out, "linked %s: kimbap now adds %s for %s\n", l.Service, l.Secret, few(l.Hosts))
	if len(l.Installed) > 0 {
		c.say("installed from the catalogue: %s", strings.Join(l.Installed, ", "))
	}
	switch {
	case l.Problem != "":
		c.say("warning: %s was tried and failed: %s", l.Checked, l.Problem)
	case l.Checked != "":
		c.say("the key works: %s answered", l.Checked)
	}
	if l.Advice != "" {
		c.advise(l.Advice)
	}
	if l.Ends != nil {
		c.say("warning: the provider gave nothing to renew this with, so it ends at %s; most give it for the scope offline_access, or for access_type: offline in params", l.Ends.Local().Format("2006-01-02 15:04:05"))
	}
}

func newUnlinkCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "unlink SERVICE",
		Short:   "Forget a service's key and leave its hosts alone again",
		Example: "  kimbap unlink github",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := takesAway()
			o.Dir = c.dir()
			return c.with(cmd.Context(), o, func(ctx context.Context, a *app.App) error {
				became := a.GiveBack(ctx, args[0])
				u, err := a.Unlink(ctx, args[0])
				if err != nil {
					return err
				}
				c.sayReturned(became, args[0])
				c.reach(ctx, a)
				return c.show(u, func() { c.sayUnlinked(u, a.Installed(u.Service)) })
			})
		},
	}
}

// sayReturned says what became of a grant that was removed here.
func (c *cli) sayReturned(became app.Returned, name string) {
	switch became {
	case app.GrantGiven:
		c.say("the grant was given back to its provider")
	case app.GrantAlive:
		c.say("the grant of %s is forgotten here, and could not be given back: take it away in your account at the provider", name)
	case app.GrantLasting:
		c.say("the client of %s is forgotten here; the access token that it had is good at the provider until it expires", name)
	}
}

// sayUnlinked says what the key's end means, for every service that had it.
func (c *cli) sayUnlinked(u app.Unlinked, stays bool) {
	if !u.Removed {
		c.say("no key was stored for %s", u.Service)
	}
	fmt.Fprintf(c.out, "unlinked %s\n", u.Service)
	if stays {
		c.say("it stays installed, and its hosts are judged as before; to leave them alone: kimbap service remove %s", u.Service)
	}
	others := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == u.Service })
	}
	if list := others(u.Services); len(list) > 0 {
		c.say("removed with the key they share: %s", strings.Join(list, ", "))
	}
	if list := others(u.Kept); len(list) > 0 && u.Removed {
		c.say("left without a key, which they share: %s", strings.Join(list, ", "))
	}
}

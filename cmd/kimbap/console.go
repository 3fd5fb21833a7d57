package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newConsoleCommand(c *cli) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "console [--listen ADDR]",
		Short: "Decide, and look at the trail, in a browser",
		Long: `Decide what agents ask for, look at the trail and revoke tokens in a browser.

It prints a link that signs one browser in, once, as the owner of this kimbap; when
it was used, the next link is printed. A session ends after twelve hours, with "Sign
out" or with this command (Ctrl-C). Only this machine can reach it.

While the page of the approvals is open, a request that needs a person waits for up
to 50 seconds. Where a PIN is demanded the page asks for it. No page shows a stored
credential.

For a kimbap that others use: kimbap serve --console.`,
		Example: "  kimbap console\n  kimbap console --listen 127.0.0.1:7790",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.outliveReaders()
			conceal()
			enter := func(a *app.App) error { return a.EnterConsole(listen) }
			return c.with(cmd.Context(), app.Options{Create: true, Slot: "console", StartLocked: true, Entrance: enter}, func(ctx context.Context, a *app.App) error {
				hup, stop := c.untilEnded(ctx, a)
				defer stop()
				return a.ServeConsole(ctx, app.ConsoleOptions{Listen: listen, Link: c.sayLink, Reload: hup})
			})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address of this machine to listen on; port 0 is any free one")
	return cmd
}

// sayLink prints where the owner signs in. The link is on stdout, for who opens it by a
// program: it is a secret until it was used, and in no argument of any.
func (c *cli) sayLink(url, from string) {
	if from != "" {
		c.say("signed in, from %s; for another browser:", from)
	} else {
		c.say("open this in a browser (Ctrl-C ends the console):")
	}
	fmt.Fprintln(c.out, url)
}

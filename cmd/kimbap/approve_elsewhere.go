package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

// atServer does an operator's command at the server of connected mode; done is
// false without one: the daemon decides nothing.
func (c *cli) atServer(cmd *cobra.Command, work func(context.Context, *remote.Client) error) (done bool, err error) {
	if c.serverURL() == "" {
		return false, nil
	}
	err = c.elsewhere(cmd.Context(), work)
	return !errors.Is(err, errHere), err
}

func (c *cli) showElsewhere(ctx context.Context, there *remote.Client, id string, full bool) error {
	path := "/v1/approvals/" + url.PathEscape(id)
	if full {
		path += "?full=true"
	}
	var shown struct {
		app.Approval
		Text string `json:"text"`
	}
	if err := there.Get(ctx, path, &shown); err != nil {
		return err
	}
	return c.show(shown.Approval, func() {
		if shown.Text == "" { // of the requester's own
			fmt.Fprintf(c.out, "%s  %s  %s\n", shown.ID, shown.State, shown.Summary)
			return
		}
		fmt.Fprintln(c.out, shown.Text)
	})
}

// waitElsewhere is `approve wait` at a server.
func (c *cli) waitElsewhere(ctx context.Context, there *remote.Client, id string) error {
	questions := c.questions(func() {})
	body, err := there.Collect(remote.Waiting(ctx, questions.asked), id)
	if next := questions.halt(); next != "" {
		err = whileOpen(ctx, err, next)
	} else if remote.Uncertain(err) {
		err = whileAsked(err, id, "kimbap approve wait "+runtime.Quote(id))
	}
	if err != nil {
		return err
	}
	return c.print(body)
}

func (c *cli) acceptElsewhere(ctx context.Context, there *remote.Client, id string, yes app.Yes, pin bool) error {
	if yes.Always {
		return usage("kimbap approve accept "+id, "--always writes the policy's file, which is on the server")
	}
	if pin && yes.As == "" {
		yes.As = "NAME"
		return usage(accepting(id, yes), "at a server you decide by a token, and a token can show no PIN: only a person who is named can")
	}
	var secret runtime.Secret
	if yes.As != "" {
		t, err := openTerminal()
		if err != nil {
			return err
		}
		defer t.close()
		if secret, err = t.secret(ctx, "PIN"); err != nil {
			return err
		}
	}
	body := map[string]any{"run": yes.Run, "full": yes.Full, "as": yes.As, "pin": secret.Reveal(), "for": yes.For.String()}
	decided, err := decideElsewhere(ctx, there, id, "accept", body)
	if err != nil {
		return err
	}
	return c.show(decided, func() { c.sayAccepted(decided, yes) })
}

func decideElsewhere(ctx context.Context, there *remote.Client, id, how string, body map[string]any) (app.Approval, error) {
	var decided app.Approval
	data, err := there.Do(ctx, "POST", "/v1/approvals/"+url.PathEscape(id)+":"+how, body)
	if err == nil {
		err = json.Unmarshal(data, &decided)
	}
	return decided, err
}

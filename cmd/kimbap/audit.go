package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newAuditCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "The trail of every request: tail, search, verify, anchor",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAuditTailCommand(c), newAuditSearchCommand(c), newAuditVerifyCommand(c), newAuditAnchorCommand(c))
	return cmd
}

// reading opens the trail for a command that only reads it.
func (c *cli) reading(ctx context.Context, work func(context.Context, *app.App) error) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	a, err := app.New(app.Options{Home: c.homeDir(), Env: c.env, Flags: c.flags, UID: c.uid, Log: c.logger(c.err), Clock: time.Now})
	if err != nil {
		return err
	}
	defer a.Close()
	if err := a.OpenToRead(ctx); err != nil {
		return err
	}
	return work(ctx, a)
}

func newAuditTailCommand(c *cli) *cobra.Command {
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:     "tail [-f] [-n LINES]",
		Short:   "Show the latest records, the newest last",
		Example: "  kimbap audit tail -n 50\n  kimbap audit tail -f",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.reading(cmd.Context(), func(ctx context.Context, a *app.App) error {
				return c.tail(ctx, a, follow, lines)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more until Ctrl-C")
	cmd.Flags().IntVarP(&lines, "lines", "n", 20, "how many to show")
	return cmd
}

func (c *cli) tail(ctx context.Context, a *app.App, follow bool, lines int) error {
	var last []app.Record
	for r, err := range a.ReadTrail(ctx, app.RecordQuery{}, false) {
		if err != nil {
			return err
		}
		if last = append(last, r); len(last) > lines {
			last = last[1:]
		}
	}
	for _, r := range last {
		if err := c.record(r); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	for r, err := range a.ReadTrail(ctx, app.RecordQuery{Since: time.Now()}, true) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.record(r); err != nil {
			return err
		}
	}
	return nil
}

// record prints one record: its own line of JSON with -o json, a document with
// -o yaml or --jq, else columns.
func (c *cli) record(r app.Record) error {
	switch {
	case c.output == "text":
		row := recordRow(r)
		_, err := fmt.Fprintf(c.out, "%s  %-8s %-10s %-32s %-10s %-4s %s\n", row[0], row[1], row[2], row[3], row[4], row[5], row[6])
		return err
	case c.output == "json" && c.jq == "":
		_, err := fmt.Fprintf(c.out, "%s\n", r.Line)
		return err
	}
	if c.output == "yaml" {
		fmt.Fprintln(c.out, "---")
	}
	return c.show(json.RawMessage(r.Line), nil)
}

func recordRow(r app.Record) []string {
	status := "-"
	if r.Status != 0 {
		status = strconv.Itoa(r.Status)
	}
	said := r.Code
	if said == "" {
		said = r.Rule
	}
	agent := r.Agent
	if agent == "" {
		agent = r.Principal
	}
	action := string(r.Action)
	if action == "" {
		action = r.Host
	}
	return []string{
		r.Time.Local().Format(time.DateTime), r.Kind, printable(agent), printable(action),
		r.Effect, status, printable(said + " " + r.RequestID),
	}
}

func newAuditSearchCommand(c *cli) *cobra.Command {
	var q app.RecordQuery
	var action, agent, host string
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "search [--action GLOB] [--agent GLOB] [--host GLOB] [--since 24h] [--code CODE]",
		Short: "Search the trail, the newest first",
		Example: `  kimbap audit search --action 'github.*' --since 24h
  kimbap audit search --code forbidden
  kimbap audit search --request req_…`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q.Action, q.Agent, q.Host = runtime.Glob(action), runtime.Glob(agent), runtime.Glob(host)
			if since > 0 {
				q.Since = time.Now().Add(-since)
			}
			return c.reading(cmd.Context(), func(ctx context.Context, a *app.App) error {
				found, err := a.SearchTrail(ctx, q)
				if err != nil {
					return err
				}
				list, rows := []json.RawMessage{}, [][]string{}
				for _, r := range found {
					list = append(list, json.RawMessage(r.Line))
					rows = append(rows, recordRow(r))
				}
				return c.show(list, func() {
					if len(rows) == 0 {
						c.say("no record matches")
						return
					}
					c.table([]string{"time", "kind", "agent", "action", "effect", "status", "said"}, rows)
				})
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&action, "action", "", "glob over service.action")
	f.StringVar(&agent, "agent", "", "glob over agent names")
	f.StringVar(&host, "host", "", "glob over hosts")
	f.StringVar(&q.RequestID, "request", "", "one request by its id")
	f.StringVar(&q.Effect, "effect", "", "allow, deny or require_approval")
	f.StringVar(&q.Code, "code", "", "error code, for example forbidden")
	f.StringVar(&q.Kind, "kind", "", "intent, outcome, refusal or event")
	f.StringVar(&q.Text, "text", "", "text anywhere in the record")
	f.DurationVar(&since, "since", 0, "how far back")
	f.IntVar(&q.Limit, "limit", 100, "at most so many")
	return cmd
}

func newAuditVerifyCommand(c *cli) *cobra.Command {
	var anchors []string
	cmd := &cobra.Command{
		Use:   "verify [--anchor FILE]...",
		Short: "Check the hash chain of every writer, and its end",
		Long: `Check the hash chain of every writer, and its end.

Every record is held against the one after it, and the signed checkpoints against
the records they name. Checkpoints that were kept outside the home show what was
cut off since: those of audit.anchor.file, or of the files given.`,
		Example: "  kimbap audit verify\n  kimbap audit verify --anchor /mnt/log/kimbap.anchor",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.reading(cmd.Context(), func(ctx context.Context, a *app.App) error {
				report, err := a.VerifyTrail(ctx, anchors...)
				if err != nil {
					return err
				}
				if err := c.show(report, func() { fmt.Fprint(c.out, report) }); err != nil {
					return err
				}
				if first, bad := report.First(); bad {
					return &failure{
						what: "the audit trail was changed", why: fmt.Sprintf("%s record %d: %s", first.Slot, first.Sequence, first.Msg),
						fix: "compare with a copy of the trail; the report names file and line", exit: exitOther,
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringArrayVar(&anchors, "anchor", nil, "file of checkpoints that was kept outside the home")
	return cmd
}

func newAuditAnchorCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "anchor",
		Short: "Sign how far the trail goes, and send it out",
		Long: `Sign how far the trail of every writer goes, and send it out.

Running proxies do so by themselves. The checkpoint goes to audit.anchor.file,
audit.anchor.command and audit.anchor.url, where they are set, and is printed: one
line to keep anywhere outside this home, for kimbap audit verify --anchor.`,
		Example: "  kimbap audit anchor\n  kimbap audit anchor -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{}, func(ctx context.Context, a *app.App) error {
				signed, err := a.AnchorTrail(ctx)
				if signed.Number == 0 {
					if err == nil {
						c.say("there is no record yet, so there is nothing to sign")
					}
					return err
				}
				if serr := c.checkpoint(signed.Line); serr != nil {
					return serr
				}
				if err != nil {
					return &failure{what: "the checkpoint did not arrive everywhere", why: err.Error(), fix: "kimbap config show --origin", exit: exitOther}
				}
				for _, place := range a.Anchors() {
					c.say("sent to %s", place)
				}
				return nil
			})
		},
	}
}

// checkpoint prints a signed line: byte for byte, so that it can be kept.
func (c *cli) checkpoint(line []byte) error {
	if c.output == "yaml" || c.jq != "" {
		return c.show(json.RawMessage(line), nil)
	}
	_, err := fmt.Fprintf(c.out, "%s\n", line)
	return err
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

func newAuditCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "The trail of every request: tail, search, export, verify, anchor",
		Example: `  kimbap audit tail -f
  kimbap audit search --since 24h --code forbidden
  kimbap audit verify`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAuditTailCommand(c), newAuditSearchCommand(c), newAuditExportCommand(c), newAuditVerifyCommand(c), newAuditAnchorCommand(c))
	return cmd
}

// reading opens the trail for a command that only reads it.
func (c *cli) reading(ctx context.Context, work func(context.Context, *app.App) error) error {
	ctx, stop := c.bounded(ctx)
	defer stop()
	a, err := c.unopened()
	if err != nil {
		return err
	}
	defer a.Close()
	if err := a.OpenToRead(ctx); err != nil {
		return err
	}
	if why := a.Indexless(); why != nil {
		c.say("warning: the trail is read from its files alone: %s", why.Msg)
	}
	return work(ctx, a)
}

// recordFlags are the filters that tail, search and export have in common.
type recordFlags struct {
	q                   app.RecordQuery
	everyone            bool
	action, agent, host string
	since, until        string
}

func (r *recordFlags) add(f *pflag.FlagSet) {
	f.StringVar(&r.action, "action", "", "glob over service.action")
	f.StringVar(&r.agent, "agent", "", "glob over agent names")
	f.StringVar(&r.host, "host", "", "glob over hosts")
	f.StringVar(&r.q.RequestID, "request", "", "one request by its id")
	f.StringVar(&r.q.Effect, "effect", "", "allow, deny or require_approval")
	f.StringVar(&r.q.Code, "code", "", "error code, for example forbidden")
	f.StringVar(&r.q.Kind, "kind", "", "intent, outcome, refusal or event")
	f.StringVar(&r.q.Text, "text", "", "text anywhere in the record")
	f.StringVar(&r.since, "since", "", "how far back (24h, 7d), or from when on (2026-01-31, 2026-01-31T08:00:00Z)")
	f.BoolVar(&r.everyone, "all-tenants", false, "records of every tenant")
	f.StringVar(&r.until, "until", "", "only those from before then, in the same forms")
}

// query reads the flags.
func (r *recordFlags) query(now time.Time) (q app.RecordQuery, err error) {
	q = r.q
	for _, one := range []struct{ flag, value string }{{"kind", q.Kind}, {"effect", q.Effect}, {"code", q.Code}} {
		known := runtime.RecordWords(one.flag)
		if one.value == "" || slices.Contains(known, one.value) {
			continue
		}
		what := fmt.Sprintf("--%s cannot be %q", one.flag, one.value)
		if near := runtime.Nearest(one.value, known); near != "" {
			what += "; did you mean " + near + "?"
		}
		return q, usage("--"+one.flag+" is one of "+strings.Join(known, ", "), "%s", what)
	}
	if r.everyone {
		q.Tenant = app.AllTenants
	}
	q.Action, q.Agent, q.Host = runtime.Glob(r.action), runtime.Glob(r.agent), runtime.Glob(r.host)
	if q.Since, err = moment("--since", r.since, now); err != nil {
		return q, err
	}
	if q.Until, err = moment("--until", r.until, now); err != nil {
		return q, err
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return q, usage("give --since an earlier time", "--until %s is not after --since %s", r.until, r.since)
	}
	return q, nil
}

// moment reads a time: how long ago, a day of this machine's zone, or RFC 3339.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := config.ParseDuration(text); err == nil {
		return now.Add(-ago.Duration()), nil
	}
	for _, form := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usage("write 24h, 7d, 2026-01-31 or 2026-01-31T08:00:00Z", "%s cannot be %q", flag, text)
}

// shape prints one of many lines of JSON as -o yaml or --jq ask for it.
func (c *cli) shape(line []byte) error {
	if c.output == "yaml" {
		fmt.Fprintln(c.out, "---")
	}
	return c.show(json.RawMessage(line), nil)
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
	switch {
	case action == "":
		action = r.Host
	case r.Action.Foreign() && r.Host != "": // the action says nothing of where it led
		action += " " + strings.TrimSuffix(r.Host, ":443")
	}
	effect := r.Effect
	if effect == "require_approval" { // as wide as the others; -o json has it whole
		effect = "ask"
	}
	return []string{
		r.Time.Local().Format(time.DateTime), printable(r.Kind), printable(agent), printable(action),
		printable(effect), status, printable(strings.TrimSpace(said + " " + r.RequestID + fieldsOf(r))),
	}
}

// fieldsOf are those of an event, for one line: what it was about. The digests of
// files are left to -o json.
func fieldsOf(r app.Record) string {
	var line struct {
		Fields map[string]string `json:"fields"`
	}
	if r.Kind != "event" || json.Unmarshal(r.Line, &line) != nil {
		return ""
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(line.Fields)) {
		if !strings.HasSuffix(name, "digest") && !strings.HasSuffix(name, "sha256") {
			fmt.Fprintf(&b, " %s=%s", name, line.Fields[name])
		}
	}
	return b.String()
}

func newAuditSearchCommand(c *cli) *cobra.Command {
	var flags recordFlags
	var limit int
	var value bool
	cmd := &cobra.Command{
		Use:   "search [--action GLOB] [--agent GLOB] [--host GLOB] [--since 24h] [--code CODE] [--value-stdin]",
		Short: "Search the trail, the newest first",
		Long: `Search the trail, the newest first.

With --value-stdin the value on standard input is looked for: which requests had
it as an argument, or in a word that was masked? Body arguments and secrets stand
in the trail as keyed hashes; the question is answered without showing or storing
the value.`,
		Example: `  kimbap audit search --action 'github.*' --since 24h
  kimbap audit search --code forbidden
  kimbap audit search --request req_…
  kimbap audit search --value-stdin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := flags.query(time.Now())
			if err != nil {
				return err
			}
			if limit < 1 {
				return usage("give --limit 1 or more", "--limit %d would show nothing", limit)
			}
			q.Limit = limit + 1 // one more, to say that there are more
			if done, err := c.atServer(cmd, func(ctx context.Context, there *remote.Client) error {
				if value {
					return onlyHere("audit search --value-stdin")
				}
				found, err := recordsElsewhere(ctx, there, q, q.Limit)
				return c.searched(found, limit, err)
			}); done {
				return err
			}
			return c.reading(cmd.Context(), func(ctx context.Context, a *app.App) error {
				if !value {
					_, done := c.working("searching the trail")
					found, err := a.SearchTrail(ctx, q)
					done()
					return c.searched(found, limit, err)
				}
				secret, err := c.readSecret(ctx, "", "value to look for")
				if err != nil {
					return err
				}
				if secret.Empty() {
					return usage(`printf %s "$VALUE" | kimbap audit search --value-stdin`, "there is no value to look for: nothing came on stdin")
				}
				_, done := c.working("searching the trail")
				found, err := a.SearchValue(ctx, q, secret)
				done()
				return c.searched(found, limit, err)
			})
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().IntVar(&limit, "limit", 100, "show at most this many")
	cmd.Flags().BoolVar(&value, "value-stdin", false, "records of requests that held the value on standard input")
	return cmd
}

// searched prints what a search has found, at most so many of them.
func (c *cli) searched(found []app.Record, limit int, err error) error {
	if err != nil {
		return err
	}
	if len(found) > limit {
		found = found[:limit]
		defer c.say("the newest %d of more; --limit %d, or --since and --until, shows others", limit, 100*limit)
	}
	list, rows := []json.RawMessage{}, [][]string{}
	for _, r := range found {
		list = append(list, json.RawMessage(r.Line))
		rows = append(rows, recordRow(r))
	}
	heading := []string{"time", "kind", "agent", "action", "effect", "status", "said"}
	return c.show(list, func() {
		if c.width == 0 || widthOfTable(heading, rows) <= c.width {
			c.list(heading, rows, "no record matches")
			return
		}
		for _, row := range rows { // as audit tail shows them, which cuts no action
			fmt.Fprintln(c.out, tailLine(row, c.width))
		}
	})
}

func newAuditExportCommand(c *cli) *cobra.Command {
	var flags recordFlags
	var slots bool
	cmd := &cobra.Command{
		Use:   "export [--since 2026-01-01] [--until 2026-02-01] [--action GLOB] [--slots]",
		Short: "Write records to standard output, the oldest first, one line of JSON each",
		Long: `Write records to standard output, the oldest first, one line of JSON each.

A line is byte for byte the ledger's, so that its hash can be compared. To keep a
copy that verifies by itself, copy the whole audit folder and see
kimbap audit verify --dir.`,
		Example: "  kimbap audit export --since 30d\n  kimbap audit export --since 2026-01-01 --until 2026-02-01 --slots",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := flags.query(time.Now())
			if err != nil {
				return err
			}
			return c.reading(cmd.Context(), func(ctx context.Context, a *app.App) error {
				return c.export(ctx, a, q, slots)
			})
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().BoolVar(&slots, "slots", false, `wrap each line as {"slot":…,"record":…}`)
	return cmd
}

func (c *cli) export(ctx context.Context, a *app.App, q app.RecordQuery, slots bool) error {
	out := bufio.NewWriterSize(c.out, 64<<10)
	for r, err := range a.ReadTrail(ctx, q) {
		if err != nil {
			return err
		}
		line := r.Line
		if slots {
			line = fmt.Appendf(nil, `{"slot":%q,"record":%s}`, r.Slot, r.Line)
		}
		if c.output == "yaml" || c.jq != "" {
			err = c.shape(line)
		} else {
			_, err = fmt.Fprintf(out, "%s\n", line)
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

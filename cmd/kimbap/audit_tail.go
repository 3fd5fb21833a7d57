package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
)

func newAuditTailCommand(c *cli) *cobra.Command {
	var flags recordFlags
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:     "tail [-f] [-n LINES] [--action GLOB] [--since 24h]",
		Short:   "Show the latest records, the newest last",
		Example: "  kimbap audit tail -n 50\n  kimbap audit tail -f --code forbidden",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := flags.query(time.Now())
			if err != nil {
				return err
			}
			if lines < 0 {
				return usage("give -n 1 or more, or -n 0 with -f", "-n %d would show nothing", lines)
			}
			if done, err := c.atServer(cmd, func(ctx context.Context, there *remote.Client) error {
				switch {
				case follow:
					return onlyHere("audit tail -f")
				case lines == 0: // which there would ask for all
					return nil
				}
				list, err := recordsElsewhere(ctx, there, q, lines)
				slices.Reverse(list)
				for _, r := range list {
					err = errors.Join(err, c.record(r))
				}
				return err
			}); done {
				return err
			}
			return c.reading(cmd.Context(), func(ctx context.Context, a *app.App) error {
				return c.tail(ctx, a, q, follow, lines)
			})
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more until Ctrl-C")
	cmd.Flags().IntVarP(&lines, "lines", "n", 20, "how many to show")
	return cmd
}

func (c *cli) tail(ctx context.Context, a *app.App, q app.RecordQuery, follow bool, lines int) error {
	seen := map[string]uint64{} // by writer: what comes behind that is new, whatever the clock says
	if follow {
		ends, err := a.TrailEnds(ctx)
		if err != nil {
			return err
		}
		seen = ends
	}
	if lines > 0 {
		asked := q
		asked.Limit = lines
		last, err := a.NewestRecords(ctx, asked)
		if err != nil {
			return err
		}
		for _, r := range slices.Backward(last) {
			if err := c.record(r); err != nil {
				return err
			}
			seen[r.Slot] = max(seen[r.Slot], r.Sequence)
		}
	}
	if !follow {
		return nil
	}
	for r, err := range a.FollowTrail(ctx, q, seen) {
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
		_, err := fmt.Fprintln(c.out, tailLine(recordRow(r), c.width))
		return err
	case c.output == "json" && c.jq == "":
		line := []byte(r.Line)
		if c.outTTY {
			line = still(line)
		}
		_, err := fmt.Fprintf(c.out, "%s\n", line)
		return err
	}
	return c.shape(r.Line)
}

// tailLine is a record on one line, in columns that stand still while records come: none
// knows how wide those after it will be. Where a terminal of so many columns (0: none) is
// too narrow for that, a second line has what an id stands in: the terminal would break it
// anywhere, and it is what kimbap explain is given. What an event says is cut at the edge.
func tailLine(row []string, columns int) string {
	const said, others, ofID, least, indent = 6, 58, 42, 24, "    " // columns beside action and said; of an id and a word; of an event
	action := 28
	if columns > 0 {
		action = max(12, min(action, columns-others-ofID))
	}
	var line string
	for i, width := range []int{0, 7, 10, action, 7, 3} {
		cell := fmt.Sprintf("%-*s  ", width, row[i])
		if columns > 0 && wider(lastLine(line)+strings.TrimRight(cell, " "), columns) {
			line = strings.TrimRight(line, " ") + "\n" + indent
		}
		line += cell
	}
	text, asked := row[said], strings.Contains(row[said], "req_")
	room := columns - utf8.RuneCountInString(lastLine(line))
	switch {
	case columns == 0 || text == "" || utf8.RuneCountInString(text) <= room:
	case asked || room < least:
		line = strings.TrimRight(line, " ") + "\n" + indent
		room = columns - len(indent)
	}
	if cut := []rune(text); columns > 0 && !asked && len(cut) > max(room, least) {
		text = string(cut[:max(room, least)-1]) + "…"
	}
	return strings.TrimRight(line+text, " ")
}

// lastLine is what text has behind its last end of a line.
func lastLine(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

// wider reports whether text takes more than so many columns.
func wider(text string, columns int) bool { return utf8.RuneCountInString(text) > columns }

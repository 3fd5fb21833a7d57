package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newAuditVerifyCommand(c *cli) *cobra.Command {
	var anchors []string
	var dir string
	cmd := &cobra.Command{
		Use:   "verify [--anchor FILE]... [--dir DIR]",
		Short: "Check the hash chain of every writer, and its end",
		Long: `Check the hash chain of every writer, and its end.

Every record is checked against the next one, and the signed checkpoints against the
records they name. Checkpoints that were kept outside the home show what was cut off
since: those in audit.anchor.file, or in the files given.`,
		Example: "  kimbap audit verify\n  kimbap audit verify --anchor /mnt/log/kimbap.anchor",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.reading(cmd.Context(), func(ctx context.Context, a *app.App) error {
				verify := a.VerifyTrail
				if dir != "" {
					verify = func(ctx context.Context, files ...string) (app.TrailReport, error) {
						return a.VerifyFolder(ctx, dir, files...)
					}
				}
				_, done := c.working("checking the trail")
				report, err := verify(ctx, anchors...)
				done()
				if err != nil {
					return err
				}
				if err := c.show(report, func() { fmt.Fprint(c.out, report) }); err != nil {
					return err
				}
				return unverified(report)
			})
		},
	}
	cmd.Flags().StringArrayVar(&anchors, "anchor", nil, "file of checkpoints that was kept outside the home")
	cmd.Flags().StringVar(&dir, "dir", "", "a copy of the audit folder, instead of this home's")
	return cmd
}

// unverified is the failure of a trail that is not what was signed, nil for one that is.
func unverified(report app.TrailReport) error {
	first, bad := report.First()
	switch {
	case !bad:
		return nil
	case first.Foreign():
		return found(first.Msg, "it vouches for nothing in this home", "check the path; if it is right, compare the home with a copy")
	case first.Anchor():
		return found(first.Msg, "it is new, or was emptied or removed, or its disk is not there, or it is another file: it vouches for nothing", "check the path; a new file: kimbap audit anchor")
	}
	where := fmt.Sprintf("%s record %d", first.Slot, first.Sequence)
	if first.Slot == "" {
		where = first.File
	}
	f := found("the audit trail was changed", where+": "+first.Msg, "compare with a copy of the trail; the report names file and line")
	f.reason = runtime.ReasonTampered
	return f
}

func newAuditAnchorCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "anchor",
		Short: "Sign how far the trail goes, and send the checkpoint out",
		Long: `Sign how far the trail of every writer goes, and send it out.

Running proxies do so by themselves. The checkpoint goes to audit.anchor.file,
audit.anchor.command and audit.anchor.url, where they are set, and is printed: one
line to keep anywhere outside this home, for kimbap audit verify --anchor.`,
		Example: "  kimbap audit anchor\n  kimbap audit anchor -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{Despite: true}, func(ctx context.Context, a *app.App) error {
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
					return notAnchored(err)
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

// notAnchored is what went wrong beside a checkpoint that was signed.
func notAnchored(err error) *failure {
	f := &failure{why: runtime.Said(err), exit: exitOther}
	switch {
	case app.Unsent(err):
		f.what, f.fix = "the checkpoint did not arrive everywhere", "kimbap config show --origin"
	case app.Unsound(err):
		f.what, f.fix = "not all of the trail could be signed as it is", "kimbap audit verify"
	default:
		f.what, f.fix = "the checkpoint is signed and sent, but what is older than audit.retention was not all removed", "mend that, then: kimbap audit anchor"
	}
	return f
}

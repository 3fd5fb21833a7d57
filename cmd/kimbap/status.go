package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newStatusCommand(c *cli) *cobra.Command {
	healthy := false
	cmd := &cobra.Command{
		Use:     "status [--healthy]",
		Short:   "Show what runs, what is linked, and what waits",
		Example: "  kimbap status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if healthy {
				return c.closed(cmd.Context(), func(ctx context.Context, a *app.App) error { return unwell(a.Healthy(ctx)) })
			}
			told := false
			err := c.with(cmd.Context(), app.Options{Despite: true, StartLocked: true, Storeless: true}, func(ctx context.Context, a *app.App) error {
				told = true
				s, err := a.Status(ctx)
				if err != nil {
					return err
				}
				for _, fix := range s.Fixes() {
					*fix = c.atHome(*fix)
				}
				return c.show(s, func() { c.sayStatus(s) })
			})
			if !told && c.output == "text" {
				c.sayStillRuns()
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&healthy, "healthy", false, "end with 0 if a proxy runs and can work, else with 10: for health checks")
	return cmd
}

// line writes one line of a status.
func (c *cli) line(name, format string, a ...any) {
	fmt.Fprintf(c.out, "%-10s "+format+"\n", append([]any{name}, a...)...)
}

// sayStillRuns says what runs over a home that cannot be opened, and what of it is in force
// there: a configuration that this command cannot read is none that they have taken up.
func (c *cli) sayStillRuns() {
	for _, p := range app.RunningOver(c.homeDir()) {
		c.line(string(p.Kind), "%spid %d, since %s", servedAt(&p), p.PID, p.Started.Local().Format(time.DateTime))
		sayRunning(c.line, &p)
	}
}

func (c *cli) sayStatus(s *app.Status) {
	line := c.line
	line("home", "%s", s.Home)
	switch {
	case s.StoreFault != "":
		line("store", "%s", s.StoreFault)
		line("", "fix: %s", s.StoreFix)
	case s.Store != "":
		line("store", "%s", s.Store)
	}
	if s.Tenant != string(runtime.DefaultTenant) {
		line("tenant", "%s", s.Tenant)
	}
	if len(s.Proxies) == 0 {
		line("proxy", "none runs (%s)", c.atHome("kimbap proxy"))
	}
	for _, p := range s.Proxies {
		line("proxy", "http://%s, pid %d, since %s", p.Listen, p.PID, p.Started.Local().Format(time.DateTime))
		if p.Unwell != "" {
			line("", "%s", printable(p.Unwell))
		}
		sayRunning(line, &p.Running)
	}
	for _, p := range s.Servers {
		line(string(p.Kind), "%spid %d, since %s", servedAt(&p), p.PID, p.Started.Local().Format(time.DateTime))
		sayRunning(line, &p)
	}
	line("vault", "%s", s.Vault)
	if s.VaultFix != "" {
		line("", "fix: %s", s.VaultFix)
	}
	if len(s.Services) > 0 {
		line("services", "%s (%.12s)", few(s.Services), s.Digest)
	} else {
		line("services", "none")
	}
	c.sayStored(s)
	if s.Policy != "" {
		line("policy", "%s (%.12s)", s.PolicyFile, s.Policy)
	} else {
		line("policy", "%s cannot be read", s.PolicyFile)
	}
	if s.Pending == nil {
		line("approvals", "not known without the store")
	} else {
		more := ""
		if *s.Pending >= app.ListLimit { // they are counted up to there
			more = " or more"
		}
		line("approvals", "%d%s waiting for a decision", *s.Pending, more)
	}
	line("audit", "%s", s.Audit)
	if s.AuditFix != "" {
		line("", "fix: %s", s.AuditFix)
	}
	for _, l := range s.Lacks {
		line("", "audit sink %s lacks %s of %s", printable(l.Sink), runtime.Count(l.Records, "line"), l.Slot)
	}
	if s.Checkpoint > 0 {
		line("", "checkpoint %d of %s, %s", s.Checkpoint, s.Anchored.Local().Format(time.DateTime), sentTo(s.Anchors))
	}
	if len(s.Distrusted) > 0 {
		line("programs", "did not accept the certificate for %s today", few(s.Distrusted))
		line("", "fix: %s", s.DistrustFix)
	}
	line("limits", "%d descriptors, %d tunnels (%d raw ones), %d requests", s.Descriptors, s.Tunnels, s.RawTunnels, s.Requests)
}

// sayStored tells of what is stored, and of what has to be done about it.
func (c *cli) sayStored(s *app.Status) {
	line := c.line
	if s.Linked == nil {
		line("linked", "not known without the store")
	} else {
		line("linked", "%s", orNone(s.Linked))
	}
	if len(s.Expired) > 0 {
		line("", "the stored key of %s has expired", few(s.Expired))
		line("", "fix: %s", s.ExpiredFix)
	}
	if len(s.Ended) > 0 {
		line("", "the sign-in of %s is over", few(s.Ended))
		line("", "fix: %s", s.EndedFix)
	}
	if len(s.Refused) > 0 {
		line("", "401 today, the stored key was not accepted: %s", few(s.Refused))
		line("", "fix: %s", s.RefusedFix)
	}
	if len(s.Unrenewed) > 0 {
		line("", "the provider gave no new token when one was last wanted, today: %s", few(s.Unrenewed))
		line("", "fix: %s", s.RenewFix)
	}
	if len(s.Unfetched) > 0 {
		line("", "the command of the key failed when it was last run, today: %s", few(s.Unfetched))
		line("", "fix: %s", s.FetchFix)
	}
}

// servedAt is the address of what is no proxy, "" for the server of the one client that
// started it.
func servedAt(p *app.Running) string {
	switch {
	case p.Listen == "":
		return ""
	case filepath.IsAbs(p.Listen):
		return "unix:" + p.Listen + ", "
	}
	return p.Listen + ", "
}

// sayRunning says what a process that runs says of itself.
func sayRunning(line func(name, format string, a ...any), p *app.Running) {
	if p.NeedsPass {
		line("", "its programs show the token in the URL that kimbap env prints: this system does not say whose a connection is")
	}
	if p.Problem != "" {
		line("", "reload refused, the old state is in force: %s", strings.ReplaceAll(p.Problem, "\n", "\n           "))
	}
	if p.Authority != "" {
		line("", "its certificates: %s", p.Authority)
	}
	if said := app.RestartFor(p); said != "" {
		line("", "%s", said)
	}
	if said := app.VersionOf(p, currentVersion().String()); said != "" {
		line("", "%s", said)
	}
	for _, n := range p.Notify {
		if n.Problem != "" {
			line("", "%s: nobody was told of %s: %s", n.Sender, runtime.Count(n.Failed+n.Dropped, "approval"), n.Problem)
		}
		if n.Missed != "" {
			line("", "%s: not everybody was told of the last approval: %s", n.Sender, n.Missed)
		}
	}
	if p.Locked != "" {
		line("", "locked, hosts of services are refused: %s", p.Locked)
	}
	if p.Trail != "" {
		line("", "requests are refused: %s", p.Trail)
	}
	for _, sink := range p.Sinks {
		if said := sink.Said(); said != "" {
			line("", "audit sink %s: %s", sink.Name, said)
		}
	}
	if p.Disk != "" {
		line("", "%s", p.Disk)
	}
	if p.Anchor != "" {
		line("", "audit checkpoint: %s", p.Anchor)
	}
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// sentTo says where checkpoints go beside the home.
func sentTo(anchors []string) string {
	if len(anchors) == 0 {
		return "kept in the home alone"
	}
	return "sent to " + few(anchors)
}

// unwell is the failure of proxies that are asked for their health: whatever ails them, they
// cannot be used.
func unwell(err error) error {
	if err == nil {
		return nil
	}
	e := runtime.AsError(err)
	return &failure{what: e.Msg, why: because(e), fix: e.Hint, exit: exitUnreachable, code: e.Code, reason: e.Reason}
}

package app

import (
	"context"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/internal/resource"
	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
	"github.com/kimbap-run/kimbap/runtime/audit/receipt"
)

// Status is what stands where.
type Status struct {
	Home        string            `json:"home"`
	Store       string            `json:"store,omitempty"` // the database that homes share; "": the store is in the home
	StoreFault  string            `json:"store_problem,omitempty"`
	StoreFix    string            `json:"store_fix,omitempty"`
	Tenant      string            `json:"tenant"`
	Proxies     []roster.Answered `json:"proxies"`
	Servers     []Running         `json:"servers"` // serve, mcp, daemon
	Services    []string          `json:"services"`
	Linked      []string          `json:"linked"`          // null without the store
	Digest      string            `json:"services_digest"` // of all that is installed
	Policy      string            `json:"policy_digest"`
	PolicyFile  string            `json:"policy_file"`
	Pending     *int              `json:"pending_approvals"` // null without the store
	Vault       string            `json:"vault"`             // open, or why it is locked
	VaultFix    string            `json:"vault_fix,omitempty"`
	Audit       string            `json:"audit"` // ok, or why it refuses, or what a short look finds gone from it
	AuditFix    string            `json:"audit_fix,omitempty"`
	Lacks       []Lack            `json:"audit_lacks,omitempty"` // what required sinks are still to get of slots that nothing serves now
	Checkpoint  uint64            `json:"audit_checkpoint"`
	Anchored    time.Time         `json:"audit_checkpoint_time,omitzero"` // of the newest checkpoint
	Anchors     []string          `json:"audit_anchors"`                  // where checkpoints go outside the home
	Distrusted  []string          `json:"distrusted"`                     // hosts for which a program did not take our certificate today
	DistrustFix string            `json:"distrusted_fix,omitempty"`
	Refused     []string          `json:"refused_keys"` // services that did not accept their stored key when it was last used, today
	RefusedFix  string            `json:"refused_keys_fix,omitempty"`
	Expired     []string          `json:"expired_keys,omitempty"` // services whose stored key has expired, or its user name
	ExpiredFix  string            `json:"expired_keys_fix,omitempty"`
	Ended       []string          `json:"ended_grants,omitempty"` // services whose OAuth grant is over: its provider has ended it, or nothing renews it
	EndedFix    string            `json:"ended_grants_fix,omitempty"`
	Unrenewed   []string          `json:"unrenewed_grants,omitempty"` // services whose OAuth provider gave no new token when one was last wanted, today
	RenewFix    string            `json:"unrenewed_grants_fix,omitempty"`
	Unfetched   []string          `json:"unfetched_keys,omitempty"` // services whose key's command failed when it was last run, today
	FetchFix    string            `json:"unfetched_keys_fix,omitempty"`
	Descriptors uint64            `json:"descriptor_limit"`
	Tunnels     int               `json:"tunnel_limit"`
	RawTunnels  int               `json:"raw_tunnel_limit"` // these take two descriptors each
	Requests    int               `json:"request_limit"`
}

// Fixes are the fields that say what to do, for whoever writes a command's flags into them.
func (s *Status) Fixes() []*string {
	return []*string{
		&s.StoreFix, &s.VaultFix, &s.AuditFix, &s.DistrustFix, &s.RefusedFix,
		&s.ExpiredFix, &s.EndedFix, &s.RenewFix, &s.FetchFix,
	}
}

// Status gathers the state of the home and of what runs over it.
func (a *App) Status(ctx context.Context) (*Status, error) {
	set := a.Services()
	s := &Status{
		Home: a.home.Dir, Tenant: string(a.tenant), Proxies: roster.Asked(ctx, a.Proxies()), Servers: append([]Running{}, a.Servers()...), Services: []string{}, Linked: []string{},
		Digest: set.Digest(), Policy: a.policy.Current(a.tenant).Digest(), PolicyFile: a.PolicyFile(), Vault: "open",
		Descriptors: resource.Descriptors(),
	}
	limits := a.limits()
	s.Tunnels, s.Requests = limits.Tunnels, limits.Requests
	if s.RawTunnels = s.Tunnels; limits.TunnelFiles > 0 {
		s.RawTunnels = min(s.Tunnels, limits.TunnelFiles/2)
	}
	for _, service := range set.Services() {
		s.Services = append(s.Services, service.Name)
	}
	if err := a.storedStatus(ctx, s); err != nil {
		return nil, err
	}
	s.Audit, s.AuditFix = a.trailLook()
	s.Lacks = a.lacks()
	d, err := a.distrusted(ctx)
	if s.Distrusted = d.hosts; err != nil || s.Distrusted == nil { // a trail that cannot be read shows above and in doctor
		s.Distrusted = []string{}
	}
	if len(s.Distrusted) > 0 {
		s.DistrustFix = a.distrustFix(d)
	}
	if s.Refused, err = a.refusedKeys(ctx); err != nil || s.Refused == nil { // the same
		s.Refused = []string{}
	}
	if len(s.Refused) > 0 {
		s.RefusedFix = refusedFix + s.Refused[0]
	}
	s.Expired, s.ExpiredFix = a.expiredKeys(ctx)
	if s.Ended = a.SignIns().Ended(ctx); len(s.Ended) > 0 {
		s.EndedFix = refusedFix + s.Ended[0]
	}
	if s.Unrenewed, _ = a.unrenewed(ctx); len(s.Unrenewed) > 0 { // the same
		s.RenewFix = renewFix + s.Unrenewed[0]
	}
	if s.Unfetched, _ = a.unfetched(ctx); len(s.Unfetched) > 0 { // the same
		s.FetchFix = fetchFix
	}
	s.Anchors = a.Anchors()
	if last, found, err := checkpoint.In(a.auditDir()).Last(); err == nil && found {
		s.Checkpoint, s.Anchored = last.Number, last.Time
	}
	return s, nil
}

// storedStatus adds what the store says, or why it says nothing.
func (a *App) storedStatus(ctx context.Context, s *Status) error {
	s.Store = a.StoreName()
	if why := a.Locked(); why != nil {
		s.Vault, s.VaultFix = "locked: "+why.Msg, why.Hint
	}
	if why := a.storeless; why != nil {
		s.StoreFault, s.StoreFix = why.Msg, why.Hint
		if a.Locked().Reason != runtime.ReasonLocked {
			s.Vault, s.VaultFix = "not known without the store", ""
		}
		s.Linked = nil
		return nil
	}
	_, linked, err := a.Placeholders(ctx)
	if err != nil {
		return err
	}
	pending, err := a.pending(ctx, a.tenant)
	s.Linked, s.Pending = linked, &pending
	return err
}

// trailLook says how the trail is, as far as can be told at once, and what to do.
func (a *App) trailLook() (said, fix string) {
	if err := a.trail.Ready(); err != nil {
		return err.Error(), ""
	}
	problems, err := proof.Ends(a.auditDir())
	switch {
	case err != nil:
		return err.Error(), "kimbap audit verify"
	case len(problems) == 0:
		return "ok", ""
	case problems[0].Kind == proof.ProblemWriter || problems[0].Slot == "": // which say themselves what they are of
		return "changed: " + problems[0].Msg, "kimbap audit verify"
	}
	return "changed: " + problems[0].Slot + ": " + problems[0].Msg, "kimbap audit verify"
}

// Lack is what a required sink is still to get of a slot.
type Lack = receipt.Lack

// lacks are those of short commands and of what has ended. What runs says of itself what
// its sinks lack; of its slots some records may be just on their way.
func (a *App) lacks() []Lack {
	all, err := receipt.Lacks(a.auditDir())
	if err != nil { // of the trail, which shows above
		return nil
	}
	running := a.states().Serving(roster.Any)
	return slices.DeleteFunc(all, func(l Lack) bool {
		return slices.ContainsFunc(running, func(r Running) bool { return r.Slot == l.Slot })
	})
}

// pending counts what waits for a decision of a tenant, and for which it is of use.
func (a *App) pending(ctx context.Context, of runtime.Tenant) (int, error) {
	by := a.Operator()
	by.Tenant = of
	list, err := a.approvals.List(ctx, by, of, []approval.State{approval.Pending}, ListLimit)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	ended, err := a.endedTokens(ctx, of)
	waiting := slices.DeleteFunc(list, func(p approval.Approval) bool { return ended[p.Principal] })
	return len(waiting), err
}

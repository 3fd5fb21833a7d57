package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval/canon"
)

// longestGrant bounds what one yes allows. A run's own end is usually sooner.
const longestGrant = 7 * 24 * time.Hour

// allowance is what is sealed of a grant.
type allowance struct {
	By       string
	Presence string
	Run      string // "": any
	Action   runtime.Ref
	Agent    string
	Target   string // for people
	At       time.Time
	Expires  time.Time
}

// widens refuses a yes that cannot be for longer than once.
func widens(f *dossier, yes Yes) error {
	switch {
	case yes.For == 0 && !yes.Run && !yes.Always:
		return nil
	case f.Terms.Count > 1:
		return badGrant("several people decide about this request: that is for once", "accept it without --for, --run and --always", "accept it without for and run")
	case yes.Run && f.Run == "":
		return badGrant("the request did not come from a kimbap run", "say how long instead: --for 10m", `say how long instead: "for": "10m"`)
	case yes.For != 0 && (yes.For < time.Second || yes.For > longestGrant):
		return badGrant("a yes is for a duration from 1s to 168h", "--for 10m", `"for": "10m"`)
	}
	return nil
}

// scope is the hex SHA-256 of what a grant is for: one principal's use of one
// action as it is defined now, under the same rule and terms, on the same
// target, with the same header fields, which may name an account. The body and its
// arguments are not part of it, nor are fields of [passing]. Run is "" for any.
func (f *dossier) scope(run string) (string, error) {
	args, err := canon.Append(nil, f.boundArgs(false))
	if err != nil {
		return "", err
	}
	parts := []string{
		"kimbap grant 2", string(f.terms()), string(f.Tenant), f.Principal, run, string(f.Action), f.Definition, f.Rule,
		f.Target.Scheme, f.Target.Authority, f.Target.Method, f.Target.Path, string(args),
		string(boundFields(f.Header, passing)),
	}
	sum := sha256.Sum256(lengths(f.withLogin(parts)...))
	return hex.EncodeToString(sum[:]), nil
}

// boundArgs are the arguments that say what a built request acts on; shown, those
// that are secret are left out.
func (f *dossier) boundArgs(shown bool) map[string]any {
	bound := map[string]any{}
	for _, name := range f.Bound {
		if value, given := f.Args[name]; given && !(shown && slices.Contains(f.Secret, name)) {
			bound[name] = value
		}
	}
	return bound
}

// target is what a grant is for, for people.
func (f *dossier) target(stored masks) string {
	s := &sheet{hidden: f.hiddenValues(), stored: stored}
	if f.Target.Authority != "" {
		return word(s.place(f))
	}
	bound := f.boundArgs(true)
	if len(bound) == 0 {
		return "whatever its arguments say"
	}
	args, _ := canon.Append(nil, bound)
	return word(s.mask(string(args)))
}

// like is what [dossier.scope] holds together, in words.
func (f *dossier) like(stored masks) string {
	s := &sheet{hidden: f.hiddenValues(), stored: stored}
	text := s.word(string(f.Action)) + " by " + s.word(f.Agent)
	if !f.Built {
		return text + " to " + s.request(f) + ", whatever its body says"
	}
	var free []string
	for _, name := range slices.Sorted(maps.Keys(f.Args)) {
		if !slices.Contains(f.Bound, name) {
			free = append(free, s.key(name))
		}
	}
	others := "whatever its arguments say"
	if len(f.boundArgs(false)) > 0 {
		args, _ := canon.Append(nil, f.boundArgs(true))
		text, others = text+" with "+s.word(string(args)), "whatever its other arguments say"
	}
	if len(free) > 0 {
		others += " (here " + strings.Join(free, ", ") + ")"
	}
	return text + ", " + others
}

// widen keeps what the yes allows for longer. The approval has been accepted
// already: a process that dies in between leaves a yes for once.
func (d *Desk) widen(ctx context.Context, a *Approval, f *dossier, v decision, yes Yes) error {
	if yes.For == 0 && !yes.Run {
		return nil
	}
	run, lasting := "", yes.For
	if yes.Run {
		run = f.Run
	}
	if lasting == 0 {
		lasting = longestGrant
	}
	scope, err := f.scope(run)
	if err != nil {
		return err
	}
	mask, err := d.mask(ctx, a.Tenant)
	if err != nil {
		return err
	}
	w := allowance{
		By: v.By, Presence: v.Presence, Run: run, Action: f.Action, Agent: f.Agent,
		Target: f.target(mask), At: v.At, Expires: v.At.Add(lasting),
	}
	plain, err := json.Marshal(w)
	if err != nil {
		return err
	}
	g := Grant{Tenant: a.Tenant, ID: a.ID, Scope: scope, Expires: w.Expires}
	if g.Sealed, err = d.o.Sealer.SealFor(ctx, a.Tenant, purposeGrant, plain, bindGrant(&g)); err != nil {
		return err
	}
	if err := d.o.Store.AddGrant(ctx, g); err != nil {
		return err
	}
	d.wake() // what waits may be the like of it
	return nil
}

func bindGrant(g *Grant) []byte { return lengths(string(g.Tenant), g.ID, g.Scope) }

// farAhead is by how much more than this clock's a time is that a wrong one has said: clocks of
// machines that share a store differ by less.
const farAhead = time.Hour

// from is from so long ago on, without what only a wrong clock can have said.
func (d *Desk) from(ago time.Duration) Between {
	now := d.now()
	return Between{After: now.Add(-ago), Until: now.Add(farAhead)}
}

// openGrant returns what a grant allows, verified. One that was given far ahead of now is over:
// nobody knows when that was, and the next process would take it for given just now.
func (d *Desk) openGrant(ctx context.Context, g *Grant) (w allowance, err error) {
	plain, err := d.o.Sealer.OpenFor(ctx, g.Tenant, purposeGrant, g.Sealed, bindGrant(g))
	if err == nil {
		err = json.Unmarshal(plain, &w)
	}
	if err != nil {
		return w, sealBroken(ctx, err, "what "+word(g.ID)+" allowed for a while is not what was decided: somebody has edited it")
	}
	if now := d.now(); w.At.Sub(now) > farAhead {
		w.Expires = now
		return w, nil
	}
	d.saw(w.At)
	return w, nil
}

// standing gives out a ticket where an earlier yes allows the like of this
// request for a while. The execution gets an approval of its own, in that
// person's name, so that it has an end like any other.
// A yes to this very request, not used yet, goes before it while it may be used, and so
// does a no: who gave it had seen this request, and not only one like it. A question about
// it that is still open is closed.
func (d *Desk) standing(ctx context.Context, f *dossier, digest string) (ticket runtime.Ticket, allowed bool, err error) {
	own, found, err := d.openFor(ctx, f, digest)
	if err == nil && found && own.State == Rejected {
		err = rejectedBefore(&own)
	}
	if err != nil || found && own.State == Approved && !d.expired(&own) {
		return ticket, false, err
	}
	g, w, err := d.granted(ctx, f)
	if err != nil || g == nil {
		return ticket, false, err
	}
	if found { // nobody is to be asked, or told, of it later
		closed, err := d.move(ctx, own.Tenant, own.ID, own.State, Expired, Change{At: d.now(), Note: allowedBy(g, w)})
		if err != nil || !closed && own.State == Pending { // which somebody has decided just now
			return ticket, false, err
		}
	}
	ticket, err = d.byGrant(ctx, f, digest, g, w)
	return ticket, err == nil, err
}

// granted finds an earlier yes that allows the like of this request now; nil for none.
func (d *Desk) granted(ctx context.Context, f *dossier) (*Grant, allowance, error) {
	scopes, err := f.scopes()
	if err != nil {
		return nil, allowance{}, err
	}
	return d.inForce(ctx, f.Tenant, scopes)
}

// scopes are those of a yes that would allow the like of this: to any run, and to its own.
func (f *dossier) scopes() (scopes []string, err error) {
	runs := []string{""}
	if f.Run != "" {
		runs = append(runs, f.Run)
	}
	for _, run := range runs {
		scope, err := f.scope(run)
		if err != nil {
			return nil, err
		}
		scopes = append(scopes, scope)
	}
	return scopes, nil
}

// inForce finds a yes of one of these scopes; nil for none.
func (d *Desk) inForce(ctx context.Context, tenant runtime.Tenant, scopes []string) (*Grant, allowance, error) {
	for _, scope := range scopes {
		grants, err := d.o.Store.Grants(ctx, tenant, scope, d.now())
		if err != nil {
			return nil, allowance{}, err
		}
		for i := range grants {
			if w, err := d.openGrant(ctx, &grants[i]); err != nil || d.now().Before(w.Expires) {
				return &grants[i], w, err
			}
		}
	}
	return nil, allowance{}, nil
}

// Moot reports whether a question is closed since a yes to the like of it allows what it was about.
func (a *Approval) Moot() bool { return a.State == Expired && a.Note != "" }

// allowedBy says which yes allows the like of what it was given for.
func allowedBy(g *Grant, w allowance) string {
	return fmt.Sprintf("allowed by the yes to %s until %s", g.ID, w.Expires.UTC().Format(time.RFC3339))
}

// byGrant writes down the execution that a grant allows, begun.
func (d *Desk) byGrant(ctx context.Context, f *dossier, digest string, granted *Grant, w allowance) (runtime.Ticket, error) {
	f.Created, f.Expires = d.now().UTC().Truncate(time.Millisecond), w.Expires
	a := f.row(d.o.NewID(), digest)
	if err := d.seal(ctx, &a, f); err != nil {
		return runtime.Ticket{}, err
	}
	plain, err := json.Marshal(decision{State: Approved, By: w.By, Presence: w.Presence, At: w.At})
	if err != nil {
		return runtime.Ticket{}, err
	}
	if a.Proof, err = d.o.Sealer.SealFor(ctx, a.Tenant, purposeDecision, plain, bind(&a)); err != nil {
		return runtime.Ticket{}, err
	}
	a.State, a.By, a.Presence, a.Decided, a.Holder = Executing, w.By, w.Presence, w.At, d.o.Process()
	a.Note = allowedBy(granted, w)
	if err := d.o.Store.AddApproval(ctx, a); err != nil {
		return runtime.Ticket{}, err
	}
	return d.handOut(&a), nil
}

// handOut makes the ticket of an approval that is executing.
func (d *Desk) handOut(a *Approval) runtime.Ticket {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tickets[a.ID] = a.Tenant
	return runtime.Ticket{ID: a.ID, By: a.By, Presence: a.Presence}
}

// Standing is what a yes still allows.
type Standing struct {
	ID       string // of the approval
	Action   runtime.Ref
	Agent    string
	Target   string
	Run      string // "": any
	By       string
	Presence string
	Expires  time.Time
}

// Standing lists what earlier decisions still allow, the longest first. Only an
// operator may.
func (d *Desk) Standing(ctx context.Context, by runtime.Principal, tenant runtime.Tenant) ([]Standing, error) {
	if !operates(&by, tenant) {
		return nil, notOperator()
	}
	found, err := d.o.Store.Grants(ctx, tenant, "", d.now())
	if err != nil {
		return nil, err
	}
	var out []Standing
	for i := range found {
		w, err := d.openGrant(ctx, &found[i])
		if err != nil {
			return nil, err
		}
		if !d.now().Before(w.Expires) {
			continue
		}
		out = append(out, Standing{
			ID: found[i].ID, Action: w.Action, Agent: w.Agent, Target: w.Target, Run: w.Run, By: w.By, Presence: w.Presence, Expires: w.Expires,
		})
	}
	slices.SortStableFunc(out, func(a, b Standing) int { return b.Expires.Compare(a.Expires) })
	return out, nil
}

// Revoke ends what a yes allows beyond its one request.
func (d *Desk) Revoke(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, id string) error {
	if !operates(&by, tenant) {
		return notOperator()
	}
	revoked, err := d.o.Store.RevokeGrant(ctx, tenant, id, d.now())
	if err != nil || revoked {
		return err
	}
	switch _, known, err := d.o.Store.Glance(ctx, tenant, id); {
	case err != nil:
		return err
	case !known: // a mistyped id must not pass for a yes that is over
		return unknownID(id)
	}
	shown, _ := visible(id, 60)
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Err: ErrOver,
		Msg:  fmt.Sprintf("nothing stands of %q that could be revoked: its yes was for one request, or is over", shown),
		Hint: "kimbap approve list --standing", Ask: "GET /v1/standing shows what stands",
	}
}

func badGrant(msg, hint, ask string) *runtime.Error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: msg, Hint: hint, Ask: ask}
}

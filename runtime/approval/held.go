package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// HeldRequest is a request as it waits for a person: what is needed to send it
// again. It never holds the caller's credential fields, but for a placeholder.
type HeldRequest struct {
	Surface   runtime.Surface
	Action    runtime.Ref
	Args      runtime.Args
	Query     runtime.Args
	Astray    []string // as in [runtime.Request]: no rule of later takes them for absent
	Target    runtime.Target
	Built     bool   // the backend builds it; Proto, Header and Body are empty
	Followed  bool   // kimbap made it of a redirect, as in [runtime.Request]
	Execution string // of the script that asked first, "" for none; a yes is not bound to it
	Proto     string
	Header    http.Header
	Body      []byte
	login
}

// Request returns a request that [runtime.Pipeline.Do] takes for the same one.
// The receiver of it fills in who calls.
func (h HeldRequest) Request() *runtime.Request {
	req := &runtime.Request{Surface: h.Surface, Action: h.Action, Args: h.Args, Query: h.Query, Astray: h.Astray, Target: h.Target, Followed: h.Followed, Waited: true, Settled: h.Built}
	if h.Built {
		return req
	}
	req.Raw = &runtime.Raw{Proto: h.Proto, Header: h.Header.Clone(), ContentLength: int64(len(h.Body))}
	if len(h.Placeholder) > 0 {
		maps.Copy(req.Raw.Header, h.Placeholder.Clone())
	}
	if len(h.Body) > 0 {
		req.Raw.Body = bytes.NewReader(h.Body)
		_, _ = req.Raw.Buffer(req.Raw.ContentLength) // of memory: what it is now may depend on it
	}
	return req
}

// dossier is what is sealed of an approval: the request, and all that a person
// is shown of it, so that neither can be edited in the store.
type dossier struct {
	HeldRequest
	Tenant     runtime.Tenant
	Principal  string
	Agent      string
	Run        string
	Definition string   // digest of the action's definition
	Secret     []string // arguments that are never shown
	Risk       runtime.Risk
	Rule       string
	Reason     string
	Terms      runtime.ApprovalTerms
	Bound      []string // of a built request: arguments that say what it acts on
	Unbound    []string // arguments that fill fields of [unbound] alone: clients make them anew for each try
	Created    time.Time
	Expires    time.Time

	former bool // it was held by an earlier kimbap, whose digest is not that of the same request now
}

// newDossier takes down a call. The body must have been read whole.
func (d *Desk) newDossier(ctx context.Context, call *runtime.Call, verdict runtime.Verdict) (f *dossier, err error) {
	req, who := call.Request, call.Principal
	f = &dossier{
		HeldRequest: HeldRequest{
			Surface: req.Surface, Action: call.Action.Ref, Args: call.Args, Query: req.Query,
			Astray: req.Astray, Target: req.Target, Built: req.Raw == nil, Followed: req.Followed, Execution: req.Execution,
		},
		Tenant: who.Tenant, Principal: who.ID, Agent: who.Agent, Run: who.Run,
		Definition: call.Action.Digest, Risk: call.Action.Risk, Rule: verdict.Rule, Reason: verdict.Reason, Terms: verdict.Terms,
	}
	for _, param := range call.Action.Params {
		if req.Raw == nil && says(call.Action, &param) {
			f.Bound = append(f.Bound, param.Name)
		}
		if !param.Body && fillsOnly(call.Action, &param, unbound) {
			f.Unbound = append(f.Unbound, param.Name)
		}
		if !param.Secret {
			continue
		}
		if exposed(call, &param) {
			return nil, exposedSecret(call.Action.Ref, param.Name)
		}
		f.Secret = append(f.Secret, param.Name)
	}
	if req.Raw == nil {
		return f, nil
	}
	body, whole := req.Raw.Buffered()
	switch {
	case !whole:
		return nil, errors.New("the body of a request that needs approval was not read")
	case call.HidesSecret(): // which would be shown
		return nil, errors.New("the secret arguments of a request that needs approval were not read from its body")
	}
	f.Body, f.Proto, f.Header = body, req.Raw.Proto, req.Raw.Header.Clone()
	for _, field := range []string{"Authorization", "Proxy-Authorization", "Cookie", call.Action.Auth.Header} {
		for _, name := range spellings(f.Header, field) {
			delete(f.Header, name)
		}
	}
	f.login, err = d.loginOf(ctx, call)
	return f, err
}

// says reports whether an argument of a built request says what it acts on: not one
// of the body, nor one that fills fields of [passing] alone.
func says(a *runtime.Action, p *runtime.Param) bool {
	return p.In != runtime.InBody && !fillsOnly(a, p, passing)
}

// fillsOnly reports whether an argument stands in the head, and there in fields of these alone.
func fillsOnly(a *runtime.Action, p *runtime.Param, these func(name string) bool) bool {
	if p.In != runtime.InHeader || a.HTTP == nil {
		return false
	}
	fills := false
	for _, f := range a.HTTP.Headers {
		if template, _ := f.Value.Value.(string); strings.Contains(template, "{"+p.Name+"}") {
			if fills = these(f.Name); !fills {
				return false
			}
		}
	}
	return fills
}

// row is the approval as stored, its times cut to what every store keeps. It is not sealed, so
// no secret argument stands in its path.
func (f *dossier) row(id, digest string) Approval {
	return Approval{
		ID: id, Tenant: f.Tenant, State: Pending, Principal: f.Principal, Agent: f.Agent, Run: f.Run,
		Surface: f.Surface, Action: f.Action, Risk: f.Risk, Rule: f.Rule, Reason: f.Reason,
		Method: f.Target.Method, Authority: f.Target.Authority, Path: f.pathWithoutSecrets(), Digest: digest,
		Created: f.Created.Truncate(time.Microsecond), Expires: f.Expires.Truncate(time.Microsecond),
	}
}

// sameRow reports whether the stored row still says what the dossier says.
func (f *dossier) sameRow(a *Approval) bool {
	want := f.row(a.ID, a.Digest)
	return a.Tenant == want.Tenant && a.Principal == want.Principal && a.Agent == want.Agent && a.Run == want.Run &&
		a.Surface == want.Surface && a.Action == want.Action && a.Risk == want.Risk && a.Rule == want.Rule &&
		a.Reason == want.Reason && a.Method == want.Method && a.Authority == want.Authority && (a.Path == want.Path || a.Path == f.path()) && // an earlier kimbap's had its secrets
		a.Created.Equal(want.Created) && a.Expires.Equal(want.Expires)
}

// sealedDossier is a dossier in JSON. What HTTP takes as bytes stands as bytes,
// since JSON would change what is not Unicode.
type sealedDossier struct {
	dossier
	RawPath []byte
	Fields  map[string][][]byte
}

func (f *dossier) marshal() ([]byte, error) {
	s := sealedDossier{dossier: *f, RawPath: []byte(f.Target.Path)}
	if f.Header != nil {
		s.Fields = map[string][][]byte{}
	}
	for name, values := range f.Header {
		for _, value := range values {
			s.Fields[name] = append(s.Fields[name], []byte(value))
		}
	}
	s.Target.Path, s.Header = "", nil
	return json.Marshal(s)
}

func (s *sealedDossier) restore() *dossier {
	f := s.dossier
	f.Target.Path = string(s.RawPath)
	if s.Fields != nil {
		f.Header = http.Header{}
	}
	for name, values := range s.Fields {
		for _, value := range values {
			f.Header[name] = append(f.Header[name], string(value))
		}
	}
	return &f
}

// The purposes that seals are made for.
const (
	purposeRequest  = "approval.request"
	purposeRemains  = "approval.remains"
	purposeDecision = "approval.decision"
	purposeVote     = "approval.vote"
	purposeGrant    = "approval.grant"
)

// bind is the additional data of the seals of an approval.
func bind(a *Approval) []byte { return lengths(string(a.Tenant), a.ID, a.Digest) }

// seal puts the dossier into the approval.
func (d *Desk) seal(ctx context.Context, a *Approval, f *dossier) error {
	plain, err := f.marshal()
	if err != nil {
		return fmt.Errorf("hold the request: %w", err)
	}
	if a.Sealed, err = d.o.Sealer.SealFor(ctx, a.Tenant, purposeRequest, plain, bind(a)); err != nil {
		return fmt.Errorf("seal the held request: %w", err)
	}
	return nil
}

// open returns the dossier of an approval, verified: sealed by us for this
// approval, saying what the row says, and of the digest the row has.
func (d *Desk) open(ctx context.Context, a *Approval) (*dossier, error) {
	var sealed sealedDossier
	if err := d.openAs(ctx, a, purposeRequest, a.Sealed, &sealed); err != nil {
		return nil, err
	}
	f := sealed.restore()
	digest, err := f.digest()
	if err == nil && digest != a.Digest {
		f.former = true
		digest, err = f.formerDigest()
	}
	if err != nil || digest != a.Digest || !f.sameRow(a) {
		return nil, tampered(a, errors.New("the row differs from the sealed request"))
	}
	d.saw(f.Created)
	return f, nil
}

// decision is what is sealed of a person's yes.
type decision struct {
	State    State
	By       string // several, with ", " between, where several had to agree
	Presence string // the weakest, where several had to agree
	At       time.Time
	Voters   []string // those several
}

// yes returns the decision of an approved row, verified.
func (d *Desk) yes(ctx context.Context, a *Approval, terms runtime.ApprovalTerms) (decision, error) {
	var v decision
	if err := d.openAs(ctx, a, purposeDecision, a.Proof, &v); err != nil {
		return v, err
	}
	used := a.Holder != "" || !a.Ended.IsZero() // a row put back to approved after its use
	if used || v.State != Approved || v.By == "" || v.By != a.By || v.Presence != a.Presence {
		return v, tampered(a, errors.New("the row differs from the sealed decision"))
	}
	if strength(v.Presence) < strength(terms.Presence) || terms.Count > 1 && len(v.Voters) < terms.Count {
		return v, tampered(a, errors.New("the sealed decision is not what the rule demands"))
	}
	d.saw(v.At)
	return v, nil
}

// openAs opens one seal into value, with numbers kept as written.
func (d *Desk) openAs(ctx context.Context, a *Approval, purpose string, sealed []byte, value any) error {
	return d.unseal(ctx, a, purpose, sealed, bind(a), value)
}

// unseal opens what belongs to an approval.
func (d *Desk) unseal(ctx context.Context, a *Approval, purpose string, sealed, aad []byte, value any) error {
	plain, err := d.o.Sealer.OpenFor(ctx, a.Tenant, purpose, sealed, aad)
	var known *runtime.Error
	switch {
	case err == nil:
	case errors.As(err, &known), ctx.Err() != nil:
		return err
	default:
		return tampered(a, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(plain))
	decoder.UseNumber()
	if err := decoder.Decode(value); err != nil {
		return tampered(a, err)
	}
	return nil
}

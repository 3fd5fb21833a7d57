package runtime

import (
	"context"
	"fmt"
)

// What a request was let through by may not hold any more once it has waited: for a
// person's yes, or before a backend repeats it.

// unchanged makes sure, after a request has waited, that its action is what was judged.
// A service that was removed meanwhile, or changed, might send the credential elsewhere,
// and one that was added might take the request for something worse. A request that
// kimbap makes is made again, and what was judged now is what is sent.
func (p *Pipeline) unchanged(call *Call) error {
	call.Request.Waited = true
	now, err := p.o.Services.Resolve(call.Request)
	if err != nil || now.Action.Ref != call.Action.Ref || now.Action.Digest != call.Action.Digest {
		return changed(call.Action.Ref, err)
	}
	call.Args, call.Built, call.Others = now.Args, now.Built, now.Others
	return nil
}

// changed is the refusal of a request whose action is not what it was.
func changed(ref Ref, err error) *Error {
	return &Error{
		Code: CodeForbidden, Reason: ReasonPolicyChanged, Stage: StageResolve,
		Msg:  fmt.Sprintf("the action %s was removed or changed while the request waited", ref),
		Hint: "the same request, sent again, is judged anew", Err: err,
	}
}

// rejudge identifies the caller, resolves the action and asks policy again when an
// approval is used: a person's yes outlives neither the token it was asked with, nor the
// service as it was then, nor a rule that has since said no, or that wants more of
// whoever decides.
func (p *Pipeline) rejudge(ctx context.Context, call *Call, rec *Record) error {
	if _, err := p.o.Identity.Identify(ctx, call.Request.Caller); err != nil {
		return at(StageIdentify, err)
	}
	if err := p.unchanged(call); err != nil {
		return err
	}
	terms, was := rec.Verdict.Terms, call.Action
	v, err := p.decide(call, rec)
	if err != nil {
		return err
	}
	if call.Action.Ref != was.Ref || call.Action.Digest != was.Digest { // what its body, asked for now, makes of it
		return changed(was.Ref, nil)
	}
	switch {
	case v.Effect == EffectAllow, v.Effect == EffectAsk && v.Terms.like(terms):
		return nil
	case v.Effect == EffectAsk:
		return &Error{
			Code: CodeForbidden, Reason: ReasonPolicyChanged,
			Msg:  fmt.Sprintf("the approval was given, but policy now demands another one (rule %s)", v.Rule),
			Hint: "the same request, sent again, asks anew",
		}
	default:
		return &Error{
			Code: CodeForbidden, Reason: ReasonPolicyChanged,
			Msg: fmt.Sprintf("the approval was given, but policy now denies this action (rule %s)", v.Rule),
		}
	}
}

// again asks all but a person once more before a backend repeats a call.
func (p *Pipeline) again(ctx context.Context, call *Call, rec *Record) error {
	if _, err := p.o.Identity.Identify(ctx, call.Request.Caller); err != nil {
		return at(StageIdentify, err)
	}
	if err := p.unchanged(call); err != nil {
		return err
	}
	v := p.strictest(call)
	approved := rec.Verdict.Effect == EffectAsk && v.Effect == EffectAsk && v.Terms.like(rec.Verdict.Terms)
	if v.Effect != EffectAllow && !approved {
		return &Error{
			Code: CodeForbidden, Reason: ReasonPolicyChanged, Stage: StagePolicy,
			Msg: fmt.Sprintf("the service asked to try again later, and by then policy did not allow it any more (rule %s)", v.Rule),
		}
	}
	return at(StageCredential, p.credential(ctx, call, rec))
}

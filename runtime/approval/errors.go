package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Causes that a surface may want to tell apart; they stand behind a
// [runtime.Error] and are found with [errors.Is].
var (
	// ErrUnknown is behind the error for an id that does not exist, or is not
	// the caller's to know (404 in HTTP).
	ErrUnknown = errors.New("no such approval")
	// ErrOver is behind the error for a yes that does not stand any more (404 in HTTP).
	ErrOver = errors.New("nothing is left to take back")
	// ErrDecided is behind the error for a decision that came too late (409 in HTTP).
	ErrDecided = errors.New("the approval is decided already")
	// ErrCrowded: the principal has as many open questions as it may have.
	ErrCrowded = errors.New("too many approvals are pending")
	// ErrVoted is behind the error for a second yes of one person where several people
	// decide: the approval still waits for others.
	ErrVoted = errors.New("a person's yes counts once")
	// ErrNotShown is behind the refusal to accept what [Desk.Show] could show
	// in part only.
	ErrNotShown = errors.New("the approval cannot be shown in full")
)

// pendingText is what an agent is told, and never how to accept.
const pendingText = "A person must decide this outside the agent. Do not retry until told; going around the proxy has no credential."

func pending(a *Approval, now time.Time) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeApprovalPending, ApprovalID: a.ID, Msg: pendingText,
		Hint: fmt.Sprintf("tell the person in charge that %s waits for them until %s; once they have decided, send the same request again",
			a.ID, a.Expires.UTC().Format(time.RFC3339)),
		RetryAfter: max(time.Second, min(30*time.Second, a.Expires.Sub(now))),
	}
}

func rejected(a *Approval) *runtime.Error {
	msg := "a person has rejected this request"
	if note, _ := visible(a.Note, 300); note != "" {
		msg += ": " + note
	}
	return &runtime.Error{
		Code: runtime.CodeApprovalRejected, ApprovalID: a.ID, Msg: msg,
		Hint: "do not send it again; ask that person what to do instead",
	}
}

// rejectedBefore is rejected for the same request, sent again too soon.
func rejectedBefore(a *Approval) *runtime.Error {
	e := rejected(a)
	e.Hint = fmt.Sprintf("%s; nobody is asked the same before %s", e.Hint, a.Decided.Add(noLasts).UTC().Format(time.RFC3339))
	return e
}

// Refusal is what the requester is told of an approval that cannot be executed
// because a person said no or nobody decided in time; nil in any other state.
func (d *Desk) Refusal(a *Approval) error {
	switch a.State {
	case Rejected:
		return rejected(a)
	case Expired:
		return d.over(a)
	}
	return nil
}

// over is what is told of an approval that has expired.
func (d *Desk) over(a *Approval) error {
	if a.Moot() {
		note, _ := visible(a.Note, 300)
		return &runtime.Error{
			Code: runtime.CodeApprovalExpired, ApprovalID: a.ID, Msg: "closed: " + note, Hint: "send the same request again",
		}
	}
	e := &runtime.Error{
		Code: runtime.CodeApprovalExpired, ApprovalID: a.ID,
		Msg:  "the approval's time was over at " + a.Expires.UTC().Format(time.RFC3339),
		Hint: "the same request, sent again, asks anew",
	}
	if d.wrong(a.Created) {
		e.Msg = "the clock that it was asked by was wrong, or this one is: the approval is dated " + a.Created.UTC().Format(time.RFC3339)
	}
	return e
}

// askerEnded is told to whoever says yes too late for the requester.
func askerEnded(a *Approval) *runtime.Error {
	asker := "the token that asked is not valid any more"
	if a.Run != "" {
		asker = "the kimbap run that asked has ended"
	}
	return &runtime.Error{
		Code: runtime.CodeApprovalExpired, ApprovalID: a.ID, Msg: asker + ", so nobody could use a yes",
		Hint: "kimbap approve accept " + a.ID + " --always allows it from the next time on; while kimbap approve watch runs, requests wait for you",
	}
}

// heldBefore is told of what an earlier kimbap has held in a form that nothing is sent by now.
func heldBefore(a *Approval) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonPolicyChanged, ApprovalID: a.ID,
		Msg:  "an earlier kimbap has held this request, and did not mind the order of members whose names differ in case alone",
		Hint: "ask anew: the same request, sent again, is another approval; this one can be rejected",
	}
}

func tooMany(open int) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeRateLimited, Reason: runtime.ReasonTooManyPending, RetryAfter: time.Minute,
		Msg:  fmt.Sprintf("%d requests of this caller wait for a person already", open),
		Hint: "wait until some of them are decided",
	}
}

func gone(a *Approval, err error) *runtime.Error {
	code, msg := runtime.CodeCanceled, "the caller went away while a person was asked"
	if errors.Is(err, context.DeadlineExceeded) {
		code, msg = runtime.CodeTimeout, "the time for this request was over before a person decided"
	}
	return &runtime.Error{Code: code, ApprovalID: a.ID, Msg: msg, Err: err}
}

func tampered(a *Approval, err error) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonTampered, ApprovalID: a.ID,
		Msg:  "the stored approval is not what was asked or decided: somebody has edited it",
		Hint: "nothing was sent; an operator should reject it and find out who can write to the store", Err: err,
	}
}

// sealBroken is the error of something sealed that does not open, unless the
// sealer or the caller says why.
func sealBroken(ctx context.Context, err error, msg string) error {
	var known *runtime.Error
	if errors.As(err, &known) || ctx.Err() != nil {
		return err
	}
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonTampered, Msg: msg,
		Hint: "find out who can write to the store", Err: err,
	}
}

func unknownID(id string) *runtime.Error {
	shown, _ := visible(id, 60)
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: fmt.Sprintf("there is no approval %q", shown), Err: ErrUnknown,
		Hint: "kimbap approve list --all", Ask: "look for it among all approvals: GET /v1/approvals?all=true",
	}
}

func notOperator() *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonNotOperator,
		Msg: "only an operator may look into and decide approvals", Hint: "a person must do this outside the agent",
	}
}

func decidedAlready(a *Approval) *runtime.Error {
	state := string(a.State)
	if a.State == Approved {
		state = "accepted" // as the command calls it
	}
	msg := fmt.Sprintf("the approval is %s already", state)
	if a.By != "" {
		by, _ := visible(a.By, 60)
		msg += ", decided by " + by
	}
	return &runtime.Error{Code: runtime.CodeInvalidInput, ApprovalID: a.ID, Msg: msg, Err: ErrDecided, Hint: "kimbap approve list shows what waits still", Ask: "GET /v1/approvals shows what waits still"}
}

func notShown(v *View) *runtime.Error {
	why := "is too long to be shown in full"
	if v.Covered {
		why = "has something hidden, since it repeats the value of a secret argument"
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, ApprovalID: v.Approval.ID, Err: ErrNotShown,
		Msg:  "this request " + why + ", so accepting it would accept what nobody has seen",
		Hint: "look at all of it with --full, then accept it with --full",
		Ask:  `look at all of it with GET /v1/approvals/{id}?full=true, then accept it with "full": true`,
	}
}

func notExecuting(id string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeInternal, ApprovalID: id,
		Msg: "the approval is not being executed by this process, so its end could not be recorded",
	}
}

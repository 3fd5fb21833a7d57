package runtime

import (
	"errors"
	"fmt"
	"time"
)

// Code is the closed list of ways a request can end other than well. Each has
// one HTTP status ([Error.Status]) and one exit code (cmd/kimbap), but for the few
// reasons that have others.
type Code string

// The codes, in the order of the stages that raise them.
const (
	CodeUnauthenticated  Code = "unauthenticated"   // the caller could not be identified
	CodeForbidden        Code = "forbidden"         // policy or a scope denies the action
	CodeApprovalPending  Code = "approval_pending"  // a person must decide first
	CodeApprovalRejected Code = "approval_rejected" // a person said no
	CodeApprovalExpired  Code = "approval_expired"  // nobody decided in time
	CodeUnknownAction    Code = "unknown_action"    // no action covers the request
	CodeInvalidInput     Code = "invalid_input"     // an argument, a body or a setting is wrong
	CodeAmbiguousTarget  Code = "ambiguous_target"  // the request could be read in two ways
	CodeMisdirected      Code = "misdirected"       // CONNECT, SNI and Host name different hosts
	CodeEgressDenied     Code = "egress_denied"     // the address may not be reached
	CodeNoCredential     Code = "no_credential"     // the action needs a credential that is missing
	CodeVaultLocked      Code = "vault_locked"      // stored credentials cannot be opened
	CodeRateLimited      Code = "rate_limited"      // too many requests in too short a time
	CodeUpstream         Code = "upstream"          // the upstream failed, or answered with an error
	CodeUpstreamTLS      Code = "upstream_tls"      // the upstream could not prove its identity
	CodeTimeout          Code = "timeout"           // it took too long
	CodeCanceled         Code = "canceled"          // the caller went away (exit code 130 if Ctrl-C ended the command, 143 if SIGTERM did)
	CodeScriptRejected   Code = "script_rejected"   // a script may not run
	CodeScriptLimit      Code = "script_limit"      // a script went over a limit
	CodeScriptError      Code = "script_error"      // a script threw an error (exit code 1), waits for something that nothing can settle, or was stopped (both 11, by Ctrl-C 130)
	CodeAuditUnavailable Code = "audit_unavailable" // the audit trail cannot be written, so nothing may happen
	CodeStorageBusy      Code = "storage_busy"      // the store did not answer in time
	CodeInternal         Code = "internal"          // a fault of kimbap itself
)

// Codes returns every [Code], for the tables that must cover them all.
func Codes() []Code {
	return []Code{
		CodeUnauthenticated, CodeForbidden, CodeApprovalPending, CodeApprovalRejected,
		CodeApprovalExpired, CodeUnknownAction, CodeInvalidInput, CodeAmbiguousTarget,
		CodeMisdirected, CodeEgressDenied, CodeNoCredential, CodeVaultLocked,
		CodeRateLimited, CodeUpstream, CodeUpstreamTLS, CodeTimeout, CodeCanceled,
		CodeScriptRejected, CodeScriptLimit, CodeScriptError, CodeAuditUnavailable,
		CodeStorageBusy, CodeInternal,
	}
}

// Stage names the part of the pipeline an [Error] comes from.
type Stage string

// The stages, in order; StageSurface is the entrance before them.
const (
	StageSurface    Stage = "surface"
	StageIdentify   Stage = "identify"
	StageResolve    Stage = "resolve"
	StagePolicy     Stage = "policy"
	StageApproval   Stage = "approval"
	StageCredential Stage = "credential"
	StageExecute    Stage = "execute"
	StageAudit      Stage = "audit"
)

// Error is the one error type that crosses a stage. Msg and Hint are shown to
// the caller; Err is for the log only. None of them may hold a secret.
type Error struct {
	Code   Code
	Reason Reason // finer cause; empty when Code says it all
	Stage  Stage
	Msg    string // what happened and why, one sentence
	Plain  string // Msg as the trail and an approval keep it, without the arguments in it; "": as it is
	Hint   string // what to do next, for a human and for an agent
	Ask    string // the same for who asks over REST or MCP, with members where Hint has flags; "": Hint
	Err    error  // the cause, never shown to the caller

	// Filled by [Pipeline.Do] on the way out, so that every surface can say them.
	RequestID  string
	Action     Ref
	Rule       string
	ApprovalID string
	ResultURL  string        // where the caller sees how the approval stands
	RetryAfter time.Duration // 0: not said

	UpstreamStatus int // of the upstream's answer, where that is the error; 0: it gave none
}

// Error implements error. It shows Msg and the cause, so it belongs in a log.
func (e *Error) Error() string {
	if e.Err != nil && e.Err.Error() != e.Msg { // [Invalid] says its cause already
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Msg, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Msg)
}

// recorded is an error as records keep it: see [Error.Plain].
func recorded(err error) error {
	e := AsError(err)
	if e == nil || e.Plain == "" {
		return err
	}
	plain := *e
	plain.Msg = e.Plain
	return &plain
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrNotSent in the chain of a [Backend]'s error says that nothing has left, so
// that the action has not happened. Without it, it may have.
var ErrNotSent = errors.New("nothing was sent")

// ErrCutOff in the chain of a [Backend]'s error says that what the caller did ended the
// request when something of it may have left, so that the action may have happened.
var ErrCutOff = errors.New("cut off on its way")

// MayHaveHappened reports whether the action may have taken effect although its
// execution ended with err: it was cut off, and nobody knows how far it came.
func MayHaveHappened(err error) bool {
	if err == nil || errors.Is(err, ErrNotSent) {
		return false
	}
	e := AsError(err)
	switch e.Code {
	case CodeUpstream, CodeTimeout, CodeCanceled, CodeInternal:
		return e.Stage == StageExecute
	default: // the backend refused it
		return errors.Is(err, ErrCutOff)
	}
}

// AsError finds the *Error in err's chain. Any other error, and a nil one in
// the chain, becomes an internal *Error: what we cannot name, we refuse.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) && e != nil {
		return e
	}
	return &Error{Code: CodeInternal, Msg: "kimbap failed to handle the request", Hint: "see the log of the kimbap process", Err: err}
}

// CodeOf returns the code of err, CodeInternal for an error that has none, and
// "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}

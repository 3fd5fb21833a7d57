package runtime

import (
	"errors"
	"fmt"
	"time"
)

// Code is the closed list of ways a request can end other than well. Each has
// one HTTP status ([Error.Status]) and one exit code (cmd/kimbap).
type Code string

// The codes, in the order of the stages that raise them.
const (
	CodeUnauthenticated  Code = "unauthenticated"
	CodeForbidden        Code = "forbidden"
	CodeApprovalPending  Code = "approval_pending"
	CodeApprovalRejected Code = "approval_rejected"
	CodeApprovalExpired  Code = "approval_expired"
	CodeUnknownAction    Code = "unknown_action"
	CodeInvalidInput     Code = "invalid_input"
	CodeAmbiguousTarget  Code = "ambiguous_target"
	CodeMisdirected      Code = "misdirected"
	CodeEgressDenied     Code = "egress_denied"
	CodeNoCredential     Code = "no_credential"
	CodeVaultLocked      Code = "vault_locked"
	CodeRateLimited      Code = "rate_limited"
	CodeUpstream         Code = "upstream"
	CodeUpstreamTLS      Code = "upstream_tls"
	CodeTimeout          Code = "timeout"
	CodeCanceled         Code = "canceled"
	CodeScriptRejected   Code = "script_rejected"
	CodeScriptLimit      Code = "script_limit"
	CodeScriptError      Code = "script_error"
	CodeAuditUnavailable Code = "audit_unavailable"
	CodeStorageBusy      Code = "storage_busy"
	CodeInternal         Code = "internal"
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
	Hint   string // what to do next, for a human and for an agent
	Err    error  // the cause, never shown to the caller

	// Filled by [Pipeline.Do] on the way out, so that every surface can say them.
	RequestID  string
	Action     Ref
	Rule       string
	ApprovalID string
	RetryAfter time.Duration // 0: not said
}

// Error implements error. It shows Msg and the cause, so it belongs in a log.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Msg, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Msg)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

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

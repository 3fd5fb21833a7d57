package runtime

import (
	"net/http"
	"strconv"
)

// Status returns the HTTP status a surface answers the error with (RFC 9110
// section 15; 421 and 431 from RFC 9110 and RFC 6585).
func (e *Error) Status() int {
	switch e.Reason {
	case ReasonBeingExecuted, ReasonExecutedAlready:
		return http.StatusConflict
	case ReasonBodyTooLarge:
		return http.StatusRequestEntityTooLarge
	case ReasonUnsupportedMedia:
		return http.StatusUnsupportedMediaType
	case ReasonHeaderTooLarge:
		return http.StatusRequestHeaderFieldsTooLarge
	case ReasonAtCapacity:
		return http.StatusServiceUnavailable
	case ReasonMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case ReasonPreconditionRequired:
		return http.StatusPreconditionRequired
	case ReasonPreconditionFailed:
		return http.StatusPreconditionFailed
	case ReasonIdempotency:
		return http.StatusUnprocessableEntity
	case ReasonRequestTimeout:
		return http.StatusRequestTimeout
	case ReasonExpectation:
		return http.StatusExpectationFailed
	}
	return statuses[e.Code]
}

// statuses covers every Code; a test says so.
var statuses = map[Code]int{
	CodeUnauthenticated:  http.StatusProxyAuthRequired,
	CodeForbidden:        http.StatusForbidden,
	CodeApprovalPending:  http.StatusForbidden,
	CodeApprovalRejected: http.StatusForbidden,
	CodeApprovalExpired:  http.StatusForbidden,
	CodeUnknownAction:    http.StatusForbidden,
	CodeInvalidInput:     http.StatusBadRequest,
	CodeAmbiguousTarget:  http.StatusBadRequest,
	CodeMisdirected:      http.StatusMisdirectedRequest,
	CodeEgressDenied:     http.StatusForbidden,
	CodeNoCredential:     http.StatusForbidden,
	CodeVaultLocked:      http.StatusServiceUnavailable,
	CodeRateLimited:      http.StatusTooManyRequests,
	CodeUpstream:         http.StatusBadGateway,
	CodeUpstreamTLS:      http.StatusBadGateway,
	CodeTimeout:          http.StatusGatewayTimeout,
	CodeCanceled:         499,
	CodeScriptRejected:   http.StatusUnprocessableEntity,
	CodeScriptLimit:      http.StatusUnprocessableEntity,
	CodeScriptError:      http.StatusUnprocessableEntity,
	CodeAuditUnavailable: http.StatusServiceUnavailable,
	CodeStorageBusy:      http.StatusServiceUnavailable,
	CodeInternal:         http.StatusInternalServerError,
}

// StatusText is an upstream's HTTP status as people are told it, "no answer" for 0.
func StatusText(status int) string {
	if status == 0 {
		return "no answer"
	}
	return strconv.Itoa(status) + " " + http.StatusText(status)
}

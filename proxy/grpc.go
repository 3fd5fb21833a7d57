package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// asksGRPC reports whether a request over HTTP/2 is a call of gRPC, whose client reads the
// outcome from trailer fields and shows an HTTP status as a fault of transport.
func asksGRPC(h http.Header) bool {
	kind := h.Get("Content-Type")
	return kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+") || strings.HasPrefix(kind, "application/grpc;")
}

// refuseGRPC answers with a status alone: what gRPC's HTTP/2 mapping calls
// Trailers-Only, a head that ends the stream.
func refuseGRPC(w http.ResponseWriter, e *runtime.Error) {
	p := e.Problem()
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Kimbap-Error", string(e.Code))
	h.Set("Grpc-Status", strconv.Itoa(grpcStatus(e.Code)))
	h.Set("Grpc-Message", grpcMessage(p.Said()))
	w.WriteHeader(http.StatusOK)
}

// grpcStatus is the nearest of gRPC's status codes.
func grpcStatus(code runtime.Code) int {
	const (
		canceled, invalidArgument, deadlineExceeded, permissionDenied, resourceExhausted = 1, 3, 4, 7, 8
		failedPrecondition, unimplemented, internal, unavailable, unauthenticated        = 9, 12, 13, 14, 16
	)
	switch code {
	case runtime.CodeCanceled:
		return canceled
	case runtime.CodeInvalidInput, runtime.CodeAmbiguousTarget, runtime.CodeMisdirected:
		return invalidArgument
	case runtime.CodeTimeout:
		return deadlineExceeded
	case runtime.CodeForbidden, runtime.CodeApprovalRejected, runtime.CodeEgressDenied, runtime.CodeUnknownAction:
		return permissionDenied
	case runtime.CodeRateLimited:
		return resourceExhausted
	case runtime.CodeApprovalPending, runtime.CodeApprovalExpired, runtime.CodeNoCredential:
		return failedPrecondition
	case runtime.CodeUnauthenticated:
		return unauthenticated
	case runtime.CodeUpstream, runtime.CodeUpstreamTLS, runtime.CodeVaultLocked, runtime.CodeAuditUnavailable, runtime.CodeStorageBusy:
		return unavailable
	case runtime.CodeScriptRejected, runtime.CodeScriptLimit, runtime.CodeScriptError:
		return unimplemented // scripts are no gRPC
	}
	return internal
}

// grpcMessage encodes text as gRPC's Percent-Encoded: printable ASCII but %.
func grpcMessage(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

package proxy

import (
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

func TestGRPCMessagesAreEncoded(t *testing.T) {
	for text, want := range map[string]string{
		"plain text, 7/8": "plain text, 7/8", "100%": "100%25", "a\nb": "a%0Ab", "zürich": "z%C3%BCrich", "": "",
	} {
		if got := grpcMessage(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// No refusal may look like success, and a code nobody thought of is internal.
func TestEveryCodeHasAGRPCStatus(t *testing.T) {
	for code, want := range map[runtime.Code]int{
		runtime.CodeForbidden: 7, runtime.CodeApprovalPending: 9, runtime.CodeUnauthenticated: 16,
		runtime.CodeRateLimited: 8, runtime.CodeTimeout: 4, runtime.CodeUpstream: 14, runtime.CodeInternal: 13, "unheard of": 13,
	} {
		if got := grpcStatus(code); got != want {
			t.Errorf("%s: %d, want %d", code, got, want)
		}
	}
}

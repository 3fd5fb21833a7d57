package app_test

import (
	"net/http"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

// When to try again is told as the service said it, in seconds or as a date (RFC 9110
// section 10.2.3). What is neither is not shown: it may be anything.
func TestWhenToTryAgainIsTold(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"120":                           "try again in 120 seconds",
		"Sun, 06 Nov 1994 08:49:37 GMT": "try again after 1994-11-06T08:49:37Z",
		"soon, \u202eor later":          "wait, then try again",
		"-1":                            "wait, then try again",
		"":                              "wait, then try again",
	} {
		answer := &app.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {said}}, RequestID: "req_1"}
		err := runtime.AsError(new(app.App).UpstreamError(&runtime.Action{Service: "notes"}, nil, answer))
		if err.Hint != want || err.RequestID != "req_1" || err.Code != runtime.CodeRateLimited {
			t.Errorf("%q: %q, request %q, %s", said, err.Hint, err.RequestID, err.Code)
		}
	}
}

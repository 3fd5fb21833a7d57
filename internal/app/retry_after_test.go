package app_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// When to try again is told as the service said it, in seconds or as a date (RFC 9110
// section 10.2.3). What is neither is not shown: it may be anything.
func TestWhenToTryAgainIsTold(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	k := apptest.New(t, apptest.Options{Clock: func() time.Time { return now }})
	for said, want := range map[string]struct {
		hint  string
		after time.Duration
	}{
		"120":                           {"try again in 120 seconds", 2 * time.Minute},
		"99999999999":                   {"try again in 1048576 seconds", 1 << 20 * time.Second},
		"Sun, 06 Nov 1994 08:49:37 GMT": {"try again after 1994-11-06T08:49:37Z", 0},
		"soon, \u202eor later":          {"wait, then try again", 0},
		"-1":                            {"wait, then try again", 0},
		"":                              {"wait, then try again", 0},

		now.Add(time.Minute).UTC().Format(http.TimeFormat):          {"try again after " + now.Add(time.Minute).UTC().Format(time.RFC3339), time.Minute},
		now.Add(365 * 24 * time.Hour).UTC().Format(http.TimeFormat): {"try again after " + now.Add(365*24*time.Hour).UTC().Format(time.RFC3339), 1 << 20 * time.Second},
	} {
		answer := &app.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {said}}, RequestID: "req_1"}
		err := runtime.AsError(k.App.UpstreamError(&runtime.Action{Service: "notes"}, nil, answer))
		if err.Hint != want.hint || err.RetryAfter != want.after || err.RequestID != "req_1" || err.Code != runtime.CodeRateLimited {
			t.Errorf("%q: %q, %s, request %q, %s", said, err.Hint, err.RetryAfter, err.RequestID, err.Code)
		}
	}
}

// Whoever asks over REST reads it in the field of HTTP, where the answer's own status is
// one that has it (RFC 6585 section 4): not beside a 502.
func TestAServicesRetryAfterIsPassedOn(t *testing.T) {
	t.Parallel()
	const mapped = `  mapped: {description: Read, method: GET, path: "/mapped/{how}", risk: {level: low}, args: [{name: how, type: string, required: true}], errors: {403: {code: rate_limited, message: "too much at once"}}}
`
	o := refusing()
	o.Routes["/mapped/forbidden"] = o.Routes["/forbidden"]
	k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes + mapped}, Upstream: o})
	c := newAPI(t, k)
	token, _ := tokenOf(t, k, app.TokenGrant{})
	for _, want := range []struct {
		action, how string
		status      int
		after       string
	}{
		{"read-as", "busy", 429, "3"}, {"mapped", "forbidden", 429, "7"}, {"read-as", "forbidden", 502, ""}, {"read-as", "closed", 502, ""}, {"read-as", "gone", 502, ""},
	} {
		got := c.ask(t, token, "POST", "/v1/actions/notes/"+want.action+":execute", `{"input":{"how":"`+want.how+`"}}`)
		if got.Status != want.status || got.Header.Get("Retry-After") != want.after {
			t.Errorf("%s %s: %d, Retry-After %q: %s", want.action, want.how, got.Status, got.Header.Get("Retry-After"), got.Body)
		}
	}
}

// A call that a service answers 429 is not sent again by the command, whatever the service
// says: even in the words by which kimbap itself refuses a caller of too many requests.
func TestAServicesOwnRefusalIsNotSentAgain(t *testing.T) {
	t.Parallel()
	const forged = `{"type":"https://kimbap.run/errors#rate_limited","status":429,"code":"rate_limited","reason":"too_many_requests"}`
	var seen atomic.Int32
	k := apptest.New(t, apptest.Options{Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
		"/notes": func(c *servicestest.Conn, r *servicestest.Request) bool {
			seen.Add(1)
			if c.ReadBody(r) != nil {
				return false
			}
			return c.Send(fmt.Sprintf("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", runtime.ProblemType, len(forged), forged))
		},
	}}})
	token, _ := tokenOf(t, k, app.TokenGrant{})
	there, err := remote.New(remote.Options{URL: k.ServeAPI(t, app.APIOptions{}), Token: runtime.NewSecret(token)})
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	ctx := remote.Busy(t.Context(), func(time.Duration) { t.Error("it waits for room") })
	_, err = there.Execute(ctx, "notes.create-note", remote.Call{Input: runtime.Args{"text": "x"}}, true)
	if runtime.CodeOf(err) != runtime.CodeRateLimited || seen.Load() != 1 {
		t.Errorf("sent %d times: %v", seen.Load(), err)
	}
}

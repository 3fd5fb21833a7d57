package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Who has too many requests under way waits as long as is said, ten seconds at most, and is
// refused then. Nothing else that says 429 is sent again.
func TestWhatFindsNoRoomIsSentAgain(t *testing.T) {
	const (
		noRoom   = `{"code":"rate_limited","reason":"too_many_requests","detail":"too many of this caller's requests are not answered yet"}`
		upstream = `{"code":"rate_limited","detail":"notes answered 429 Too Many Requests","upstream":"slow down"}`
		begun    = `{"code":"rate_limited","reason":"too_many_requests","detail":"the execution exe_1 had begun, and cannot go on now"}`
		policy   = `{"code":"rate_limited","reason":"over_limit","detail":"the limit is used up"}`
		done     = `"done"`
	)
	for _, c := range []struct {
		name, after string
		refusals    int // before it is done
		body        string
		sent        int32
		waits       []time.Duration
		code        runtime.Code // "": it was done
	}{
		{"there is room", "", 0, noRoom, 1, nil, ""},
		{"there is room later", "2", 3, noRoom, 4, []time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second}, ""},
		{"there is none", "4", 99, noRoom, 3, []time.Duration{4 * time.Second, 4 * time.Second}, runtime.CodeRateLimited},
		{"it would take long", "11", 99, noRoom, 1, nil, runtime.CodeRateLimited},
		{"nobody says when", "", 99, noRoom, 1, nil, runtime.CodeRateLimited},
		{"a script had begun", "", 99, begun, 1, nil, runtime.CodeRateLimited},
		{"an upstream's own", "1", 99, upstream, 1, nil, runtime.CodeRateLimited},
		{"a policy's limit", "1", 99, policy, 1, nil, runtime.CodeRateLimited},
		{"no kimbap's", "1", 99, "slow down", 1, nil, runtime.CodeUpstream},
	} {
		for path, do := range map[string]func(ctx context.Context, there *Client) ([]byte, error){
			"execute": func(ctx context.Context, there *Client) ([]byte, error) {
				return there.Execute(ctx, "notes.create-note", Call{Input: runtime.Args{"text": "x"}}, true)
			},
			"collect": func(ctx context.Context, there *Client) ([]byte, error) { return there.Collect(ctx, "apr_1") },
			"script": func(ctx context.Context, there *Client) ([]byte, error) {
				return there.Script(ctx, "", map[string]any{"code": "return 1"}, 0)
			},
			"resume": func(ctx context.Context, there *Client) ([]byte, error) {
				return there.Script(ctx, "exe_1", nil, time.Minute)
			},
			"action": func(ctx context.Context, there *Client) ([]byte, error) {
				_, err := there.Action(ctx, "notes.create-note")
				return []byte(done), err
			},
		} {
			t.Run(c.name+"/"+path, func(t *testing.T) {
				sent := atomic.Int32{}
				there := client(t, served(t, func(w http.ResponseWriter, r *http.Request) {
					n := sent.Add(1)
					if said, _ := io.ReadAll(r.Body); r.Method == http.MethodPost && len(said) == 0 {
						t.Errorf("the %d. request has no body", n)
					}
					if int(n) > c.refusals {
						_, _ = io.WriteString(w, map[string]string{http.MethodGet: `{}`, http.MethodPost: done}[r.Method])
						return
					}
					if c.after != "" {
						w.Header().Set("Retry-After", c.after)
					}
					w.Header().Set("Content-Type", runtime.ProblemType)
					w.WriteHeader(http.StatusTooManyRequests)
					_, _ = io.WriteString(w, c.body)
				}).URL, nil)
				var waited, told []time.Duration
				there.after = func(d time.Duration) <-chan time.Time {
					waited = append(waited, d)
					over := make(chan time.Time)
					close(over)
					return over
				}
				body, err := do(Busy(t.Context(), func(d time.Duration) { told = append(told, d) }), there)
				if runtime.CodeOf(err) != c.code || err == nil && string(body) != done {
					t.Errorf("%s, %v", body, err)
				}
				if sent.Load() != c.sent || !slices.Equal(waited, c.waits) || !slices.Equal(told, c.waits) {
					t.Errorf("sent %d times, waited %v, told %v; want %d, %v", sent.Load(), waited, told, c.sent, c.waits)
				}
			})
		}
	}
}

// Who leaves does not wait to the end.
func TestWhoLeavesDoesNotWaitForRoom(t *testing.T) {
	there := client(t, served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"code":"rate_limited","reason":"too_many_requests"}`)
	}).URL, nil)
	ctx, leave := context.WithCancel(t.Context())
	there.after = func(time.Duration) <-chan time.Time { leave(); return nil }
	if _, err := there.Collect(ctx, "apr_1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What was allowed may redirect to what a person must decide about too: that is waited for, as
// the first question is gone.
func TestAFurtherQuestionIsWaitedFor(t *testing.T) {
	var paths []string
	there := client(t, served(t, func(w http.ResponseWriter, r *http.Request) {
		if paths = append(paths, r.URL.Path); len(paths) == 3 {
			_, _ = io.WriteString(w, `"done"`)
			return
		}
		w.Header().Set("Content-Type", runtime.ProblemType)
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"code":"approval_pending","approval_id":"apr_2"}`)
	}).URL, nil)
	there.after = func(time.Duration) <-chan time.Time {
		over := make(chan time.Time)
		close(over)
		return over
	}
	body, err := there.Collect(t.Context(), "apr_1")
	if err != nil || string(body) != `"done"` || !slices.Equal(paths, []string{"/v1/approvals/apr_1:result", "/v1/approvals/apr_2:result", "/v1/approvals/apr_2:result"}) {
		t.Errorf("%s %v, asked for %v", body, err, paths)
	}
}

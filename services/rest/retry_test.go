package rest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// failing answers with each status in turn and with 200 after that.
func failing(fields string, statuses ...string) servicestest.Behave {
	times := 0
	return func(c *servicestest.Conn, r *servicestest.Request) bool {
		if c.ReadBody(r) != nil {
			return false
		}
		if times++; times <= len(statuses) {
			return c.Send("HTTP/1.1 ", statuses[times-1], "\r\n", fields, "Content-Length: 5\r\n\r\nlater")
		}
		return c.Send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
	}
}

// patientRig is a rig whose waits are noted and take no time.
func patientRig(t *testing.T, behave servicestest.Behave) (*rig, *[]time.Duration) {
	waited := &[]time.Duration{}
	return newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/work": behave}}, func(o *rest.Options) {
		o.Wait = func(_ context.Context, d time.Duration) error { *waited = append(*waited, d); return nil }
	}), waited
}

func (r *rig) built(method string, retry *runtime.Retry) *runtime.Call {
	c := r.call(method, "/work")
	c.Request.Raw, c.Request.Target = nil, runtime.Target{}
	c.Action.HTTP.Path, c.Action.HTTP.Retry, c.Action.Idempotent = "/work", retry, true
	return c
}

func TestABuiltRequestIsSentAgainAsItsServiceSays(t *testing.T) {
	r, waited := patientRig(t, failing("Retry-After: 3\r\n", "503 Service Unavailable", "429 Too Many Requests"))
	answer, result := r.must(t, r.built("GET", &runtime.Retry{Attempts: 3, On: []int{429, 503}}))
	equal(t, "body", string(answer.Body), "done")
	equal(t, "status", result.Status, 200)
	equal(t, "requests", len(r.Requests()), 3)
	if len(*waited) != 2 || (*waited)[0] != 3*time.Second || (*waited)[1] != 3*time.Second {
		t.Errorf("waited %v", *waited)
	}
}

func TestTheLastAnswerIsPassedOn(t *testing.T) {
	r, waited := patientRig(t, failing("", "503 a", "503 b", "503 c"))
	answer, _ := r.must(t, r.built("GET", &runtime.Retry{Attempts: 2, On: []int{503}}))
	equal(t, "status", answer.Status, 503)
	equal(t, "body", string(answer.Body), "later")
	equal(t, "requests", len(r.Requests()), 2)
	equal(t, "waits", len(*waited), 1)
}

func TestAServerThatWantsLongIsNotWaitedFor(t *testing.T) {
	r, waited := patientRig(t, failing("Retry-After: 3600\r\n", "503 a"))
	answer, _ := r.must(t, r.built("GET", &runtime.Retry{Attempts: 3, On: []int{503}}))
	equal(t, "status", answer.Status, 503)
	equal(t, "waits", len(*waited), 0)
}

func TestNothingIsSentAgainThatMayNotBe(t *testing.T) {
	for name, edit := range map[string]func(*runtime.Call){
		"not idempotent":   func(c *runtime.Call) { c.Action.Idempotent = false },
		"no retry":         func(c *runtime.Call) { c.Action.HTTP.Retry = nil },
		"another status":   func(c *runtime.Call) { c.Action.HTTP.Retry.On = []int{502} },
		"a caller's own":   func(c *runtime.Call) { c.Request.Raw = &runtime.Raw{Proto: "HTTP/1.1", Header: http.Header{}} },
		"a caller's body":  func(c *runtime.Call) { c.Request.Raw = bodyOf("hello") },
		"one attempt only": func(c *runtime.Call) { c.Action.HTTP.Retry.Attempts = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := patientRig(t, failing("", "503 a"))
			c := r.built("POST", &runtime.Retry{Attempts: 3, On: []int{503}})
			edit(c)
			if c.Request.Raw != nil {
				c.Request.Target = runtime.Target{Scheme: r.scheme, Authority: r.Authority, Method: "POST", Path: "/work"}
			}
			answer, _ := r.must(t, c)
			equal(t, "status", answer.Status, 503)
			equal(t, "requests", len(r.Requests()), 1)
		})
	}
}

func bodyOf(text string) *runtime.Raw {
	return &runtime.Raw{Proto: "HTTP/1.1", Header: http.Header{}, Body: strings.NewReader(text), ContentLength: int64(len(text))}
}

// An answer that nobody gets is no success where the time is over just behind it.
func TestTheTimeEndsWithAnAnswerThatIsNotPassedOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var answered atomic.Bool
	r := newRig(t, routes("/work", func(c *servicestest.Conn, _ *servicestest.Request) bool {
		answered.Store(true)
		return c.Send("HTTP/1.1 503 a\r\nContent-Length: 0\r\n\r\n")
	}), func(o *rest.Options) {
		o.Clock = func() time.Time { // which is asked when the head is there
			if answered.Load() {
				cancel()
			}
			return time.Now()
		}
	})
	out := &runtimetest.Responder{}
	call := r.built("GET", &runtime.Retry{Attempts: 3, On: []int{503}})
	_, err := r.backend.Execute(ctx, build(t, call), out)
	if e := runtime.AsError(err); err == nil || e.Code != runtime.CodeCanceled || out.Answer().Status != 0 {
		t.Errorf("status %d, %v", out.Answer().Status, err)
	}
}

func TestTheWaitEndsWithTheCallersTime(t *testing.T) {
	r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/work": failing("Retry-After: 0\r\n", "503 a")}}, func(o *rest.Options) {
		o.Wait = func(ctx context.Context, _ time.Duration) error { return context.DeadlineExceeded }
	})
	r.refused(t, r.built("GET", &runtime.Retry{Attempts: 3, On: []int{503}}), runtime.CodeTimeout, "")
}

// The credential of type body goes into every body that kimbap builds.
func TestACredentialInABuiltBody(t *testing.T) {
	for kind, want := range map[string]string{
		"json": `{"api_key":"` + canary + `","v":"x"}`, "form": "api_key=kbcanary-7f3a9c%2FZx%2BQ81w%3D%3D",
		"multipart": `name="api_key"` + "\r\n\r\n" + canary + "\r\n--kimbap-",
	} {
		r := newRig(t, servicestest.Options{})
		c := r.built("POST", nil)
		b := tmpl(map[string]any{"v": "{v}"})
		c.Action.Auth = &runtime.Auth{Type: runtime.AuthBody, Ref: "test", Field: "api_key"}
		c.Action.HTTP.Path, c.Action.HTTP.Body, c.Action.HTTP.BodyType, c.Args = "/", &b, kind, runtime.Args{"v": "x"}
		r.must(t, c)
		if got := string(r.Last(t).Body); !strings.Contains(got, want) {
			t.Errorf("%s: %q", kind, got)
		}
		preview, err := r.backend.Preview(c.Action, c.Built)
		if err != nil || !strings.Contains(preview.Body, "[secret]") && !strings.Contains(preview.Body, "%5Bsecret%5D") {
			t.Errorf("%s: %v %+v", kind, err, preview)
		}
		c.Action.HTTP.Body, c.Args = nil, nil
		r.must(t, c)
		if got := r.Last(t).Body; len(got) == 0 {
			t.Errorf("%s: an action without arguments has no body for its credential", kind)
		}
	}
}

// What an upstream shows of the credential in its answer is blanked out, wherever
// the credential was put.
func TestTheCredentialIsBlankedOutWhereverItStood(t *testing.T) {
	for _, auth := range []*runtime.Auth{
		{Type: runtime.AuthBearer}, {Type: runtime.AuthHeader, Header: "X-Key", Prefix: "k "}, {Type: runtime.AuthQuery, Query: "key"},
		{Type: runtime.AuthBody, Field: "key"}, {Type: runtime.AuthBasic, Username: "me"},
	} {
		r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/work": func(c *servicestest.Conn, q *servicestest.Request) bool {
			_ = c.ReadBody(q)
			shown := string(q.Head) + string(q.Body)
			return c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(shown), shown))
		}}})
		c := r.built("POST", nil)
		c.Action.Auth = auth
		auth.Ref = "test"
		out := &runtimetest.Responder{}
		if _, err := r.backend.Execute(context.Background(), build(t, c), out); err != nil {
			t.Fatal(auth.Type, err)
		}
		answer := string(out.Answer().Body)
		if !strings.Contains(answer, "***") || strings.Contains(answer, canary) {
			t.Errorf("%s: %s", auth.Type, answer)
		}
	}
}

// What was decided before a wait is asked again after it: the token, policy and
// the vault are those of that moment, and so is the credential.
func TestWhatIsSentAgainIsAskedAgain(t *testing.T) {
	r, _ := patientRig(t, failing("", "503 a", "503 b"))
	c := r.built("GET", &runtime.Retry{Attempts: 3, On: []int{503}})
	asked := 0
	c.Again = func(context.Context) error {
		if asked++; asked == 2 {
			return &runtime.Error{Code: runtime.CodeForbidden, Reason: runtime.ReasonPolicyChanged, Msg: "not any more"}
		}
		return nil
	}
	out := &runtimetest.Responder{}
	_, err := r.backend.Execute(t.Context(), build(t, c), out)
	if e := runtime.AsError(err); err == nil || e.Reason != runtime.ReasonPolicyChanged || out.Answer().Status != 0 {
		t.Errorf("%v, answered %d", err, out.Answer().Status)
	}
	equal(t, "requests", len(r.Requests()), 2)
}

// cutOff dials once; then the network is gone.
type cutOff struct {
	dialer
	dials atomic.Int32
}

func (d *cutOff) Dial(ctx context.Context, authority string, trusted, loopback bool) (net.Conn, string, bool, error) {
	if d.dials.Add(1) > 1 {
		return nil, "", false, errors.New("no route to host")
	}
	return d.dialer.Dial(ctx, authority, trusted, loopback)
}

// A call that reached its API and was not answered may have happened, whatever kept it
// from being sent again; one that never left has not.
func TestWhatWasSentOnceMayHaveHappened(t *testing.T) {
	taken := func(c *servicestest.Conn, r *servicestest.Request) bool { _ = c.ReadBody(r); return false }
	retry := &runtime.Retry{Attempts: 2, On: []int{503}}
	for name, c := range map[string]struct {
		dials    int32 // that were made before
		again    error
		happened bool
	}{
		"the network is gone at the second attempt": {0, nil, true},
		"it is not allowed any more":                {0, &runtime.Error{Code: runtime.CodeForbidden, Reason: runtime.ReasonPolicyChanged, Msg: "not any more"}, true},
		"the network was never there":               {1, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &cutOff{}
			d.dials.Store(c.dials)
			r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/work": taken}}, func(o *rest.Options) {
				o.Dialer, o.Wait = d, func(context.Context, time.Duration) error { return nil }
			})
			call := r.built("PUT", retry)
			call.Again = func(context.Context) error { return c.again }
			result, err := r.backend.Execute(t.Context(), build(t, call), &runtimetest.Responder{})
			e := *runtime.AsError(err)
			e.Stage = runtime.StageExecute // which the pipeline says where nobody has
			if runtime.MayHaveHappened(&e) != c.happened || (result.Address != "") != c.happened || result.Unsent == c.happened || err == nil {
				t.Errorf("may have happened: %v, want %v; at %q; %v", runtime.MayHaveHappened(&e), c.happened, result.Address, err)
			}
		})
	}
}

// The pauses of an API that does not answer have a bound, and end with the caller's time.
func TestPausesHaveABound(t *testing.T) {
	d := &cutOff{}
	d.dials.Store(1)
	var pauses []time.Duration
	r := newRig(t, servicestest.Options{}, func(o *rest.Options) {
		o.Dialer, o.Wait = d, func(_ context.Context, pause time.Duration) error { pauses = append(pauses, pause); return nil }
	})
	if _, err := r.backend.Execute(t.Context(), build(t, r.built("GET", &runtime.Retry{Attempts: 10, On: []int{503}})), &runtimetest.Responder{}); err == nil {
		t.Error("no error")
	}
	if len(pauses) != 9 || slices.Max(pauses) != time.Minute {
		t.Errorf("pauses %v", pauses)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pauses = nil
	if _, err := r.backend.Execute(ctx, build(t, r.built("GET", &runtime.Retry{Attempts: 10, On: []int{503}})), &runtimetest.Responder{}); !errors.Is(err, runtime.ErrNotSent) {
		t.Errorf("%v", err)
	}
	if len(pauses) == 0 || slices.Max(pauses) >= time.Minute {
		t.Errorf("within a minute: pauses %v", pauses)
	}
}

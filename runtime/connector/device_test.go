package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// A client with a secret shows it where a sign-in on another device begins, as it does for
// tokens (RFC 8628 section 3.1): there, in the same way, and on no other host.
func TestADeviceSignInShowsTheClient(t *testing.T) {
	t.Parallel()
	for style, want := range map[string]url.Values{
		"basic": {"client_id": {"client-2"}, "scope": {"read"}, "access_type": {"offline"}, "basic": {"client-2:client-secret-2"}},
		"post":  {"client_id": {"client-2"}, "scope": {"read"}, "access_type": {"offline"}, "client_secret": {"client-secret-2"}},
	} {
		r := newRig(t)
		at := r.oauth()
		at.ClientAuth = style
		if _, err := r.BeginOnDevice(t.Context(), at, desktop, []string{"read"}); err != nil {
			t.Fatal(err)
		}
		if got := r.p.begun[0]; got.Encode() != want.Encode() {
			t.Errorf("%s: %v", style, got)
		}
		at.TokenURL = strings.Replace(at.TokenURL, "127.0.0.1", "localhost", 1)
		if _, err := r.BeginOnDevice(t.Context(), at, desktop, nil); err != nil {
			t.Fatal(err)
		}
		if got := r.p.begun[1]; got.Has("client_secret") || got.Has("basic") {
			t.Errorf("%s: another host is shown %v", style, got)
		}
		public := desktop
		public.Secret = Client{}.Secret
		if _, err := r.BeginOnDevice(t.Context(), r.oauth(), public, nil); err != nil || r.p.begun[2].Has("client_secret") || r.p.begun[2].Has("basic") {
			t.Errorf("%s: a public client is shown as %v: %v", style, r.p.begun[2], err)
		}
	}
}

// A provider that fails for a moment, while a person types the code, is asked again (RFC 8628
// section 3.5), and not for ever.
func TestADeviceSignInOutlivesAFailure(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(http.ResponseWriter){
		"a connection's end": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"503":                func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		"429":                func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			way, err := r.BeginOnDevice(t.Context(), r.oauth(), desktop, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.p.mu.Lock()
			r.p.instead = func(w http.ResponseWriter, _ *http.Request) {
				r.p.itself()
				fail(w)
			}
			r.p.mu.Unlock()
			if g, err := way.Await(t.Context()); err != nil || g.AccessToken != "access-token-1" {
				t.Errorf("%+v %v", g, err)
			}
		})
	}
	r := newRig(t)
	r.p.answer(http.StatusBadGateway, "")
	way, err := r.BeginOnDevice(t.Context(), r.oauth(), desktop, nil)
	if err != nil {
		t.Fatal(err)
	}
	way.failures = longestOutage - 1
	if _, err := way.Await(t.Context()); runtime.AsError(err).Code != runtime.CodeUpstream || r.p.requests() != 2 {
		t.Errorf("%v after %d", err, r.p.requests())
	}
}

// A provider that has asked for longer pauses is asked in them from then on, also after it has
// failed for a moment (RFC 8628 section 3.5).
func TestADeviceSignInStaysAsSlowAsItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t)
		r.p.interval = 5
		answers := []string{"slow_down", "", "authorization_pending", "slow_down", "authorization_pending", "access_denied"}
		var pauses []string
		last := time.Now()
		r.p.instead = func(w http.ResponseWriter, _ *http.Request) {
			pauses = append(pauses, time.Since(last).String())
			last = time.Now()
			code := answers[len(pauses)-1]
			w.WriteHeader(map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusBadRequest}[code == ""])
			fmt.Fprintf(w, `{"error":%q}`, code)
		}
		way, err := r.BeginOnDevice(t.Context(), r.oauth(), desktop, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = way.Await(t.Context())
		if got := strings.Join(pauses, " "); runtime.AsError(err).Reason != runtime.ReasonNotGranted || got != "5s 10s 20s 20s 25s 25s" {
			t.Errorf("asked after %s: %v", got, err)
		}
	})
}

// A provider that refuses and calls that a success has refused: the person is told why, and what
// helps, in words of ours alone.
func TestADeviceSignInThatIsRefused(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][2]string{
		`{"error":"invalid_scope","error_description":"evil"}`: {"answered 200 invalid_scope", "correct the scopes"},
		"\ufeff" + `{"error":"invalid_client"}`:                {"answered 200 invalid_client", "client_auth"},
		`{"error":"<b>evil"}`:                                  {"answered 200", "check the client's id"},
		`{"error":"server_error"}`:                             {"answered 200 server_error", "start again later"},
		`{"error":""}`:                                         {"cannot be shown", "check the client's id"},
		`[]`:                                                   {"cannot be read", "check the client's id"},
	} {
		r := newRig(t)
		r.p.answer(http.StatusOK, body, "Content-Type", "application/json")
		at := r.oauth()
		at.DeviceURL = r.p.URL + "/token"
		_, err := r.BeginOnDevice(t.Context(), at, desktop, nil)
		e := runtime.AsError(err)
		if err == nil || e.Reason != runtime.ReasonNotGranted || !strings.Contains(e.Msg, want[0]) || !strings.Contains(e.Hint, want[1]) || strings.Contains(e.Msg+e.Hint, "evil") {
			t.Errorf("%s: %v; %s", body, err, e.Hint)
		}
	}
	r := newRig(t)
	r.p.answer(http.StatusOK, `{"error":"invalid_scope","device_code":"d","user_code":"WDJB-MJHT","verification_uri":"https://login.test/activate"}`)
	at := r.oauth()
	at.DeviceURL = r.p.URL + "/token"
	if way, err := r.BeginOnDevice(t.Context(), at, desktop, nil); err != nil || way.Code != "WDJB-MJHT" {
		t.Errorf("with a code: %v", err)
	}
}

// Who leaves while the provider is asked for a code is let go at once, and gets none.
func TestADeviceSignInThatIsLeftAtItsBeginning(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		_ = q.ParseForm() // so that the end of the connection is heard
		leave()
		<-q.Context().Done()
	}))
	defer s.Close()
	at := r.oauth()
	at.DeviceURL = s.URL + "/device"
	if way, err := r.BeginOnDevice(ctx, at, desktop, nil); way != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// What the device endpoint refuses, or does not answer, is not said of the token endpoint, which
// was not asked: who mends the service file looks at the other address. Nor is what a return meets.
func TestADeviceSignInNamesTheEndpointThatFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	away := httptest.NewServer(nil)
	away.Close()
	for name, c := range map[string]struct{ path, body, want string }{
		"an address that is not there": {path: r.p.URL + "/nowhere", want: "the device endpoint answered 404"},
		"a refusal":                    {body: `{"error":"invalid_scope"}`, want: "the device endpoint answered 200 invalid_scope"},
		"words":                        {body: "<html>words</html>", want: "the answer of the device endpoint cannot be read"},
		"nothing":                      {path: away.URL, want: "the device endpoint cannot be reached"},
		"silence":                      {path: "silence", want: "the device endpoint did not answer in time"},
	} {
		at := r.oauth()
		at.DeviceURL = cmp.Or(c.path, r.p.URL+"/token")
		r.p.answer(http.StatusOK, c.body)
		r.o.Client.Transport = http.DefaultTransport
		if c.path == "silence" {
			at.DeviceURL, r.o.Client.Transport = r.p.URL, mute{}
		}
		_, err := r.BeginOnDevice(t.Context(), at, desktop, nil)
		advises(t, name, err, "the provider gave no token: "+c.want)
	}
	gone := sealed(t, &Grant{TokenURL: r.p.URL + "/token", RevokeURL: away.URL, RefreshToken: "r", AccessToken: "a"})
	r.o.Client.Transport = nil
	if _, err := r.Return(t.Context(), "default", "another", gone); err == nil || !strings.Contains(err.Error(), "the revocation endpoint cannot be reached") {
		t.Errorf("a grant that cannot go back: %v", err)
	}
}

// mute is a way on which no answer comes in time.
type mute struct{}

func (mute) RoundTrip(*http.Request) (*http.Response, error) { return nil, context.DeadlineExceeded }

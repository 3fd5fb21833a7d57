package connector

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

func (r *rig) oauth() *runtime.OAuth {
	return &runtime.OAuth{
		AuthorizeURL: r.p.URL + "/authorize?hd=example.com", TokenURL: r.p.URL + "/token", DeviceURL: r.p.URL + "/device", RevokeURL: r.p.URL + "/revoke",
		Scopes: []string{"read", "write"}, ClientAuth: "post", Params: []runtime.Pair{{Name: "access_type", Text: "offline"}},
	}
}

var desktop = Client{ID: "client-2", Secret: runtime.NewSecret("client-secret-2")}

// visit is a browser that asks for an address.
func visit(t *testing.T, at string, host string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body)
}

// RA-014: only the browser that was sent out ends a sign-in, once, with the state and to the
// address that it was sent out with; anybody else changes nothing.
func TestRA014OnlyOurOwnCallbackEndsASignIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	back, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	way := r.Begin(r.oauth(), desktop, []string{"read"}, back.Redirect())
	at, err := url.Parse(way.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := at.Query()
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "client-2", "redirect_uri": back.Redirect(), "scope": "read", "access_type": "offline", "hd": "example.com", "code_challenge_method": "S256",
	} {
		if q.Get(name) != want {
			t.Errorf("%s is %q, not %q", name, q.Get(name), want)
		}
	}
	if strings.Contains(way.URL, "client-secret") || len(q.Get("state")) < 40 {
		t.Errorf("the address of the sign-in: %s", way.URL)
	}
	type end struct {
		g   *Grant
		err error
	}
	ended := make(chan end, 1)
	go func() {
		g, err := back.Wait(t.Context(), way)
		ended <- end{g, err}
	}()
	other := r.Begin(r.oauth(), desktop, nil, back.Redirect())
	foreign, _ := url.Parse(other.URL)
	state := q.Get("state")
	for name, try := range map[string][2]string{
		"no state":                  {"?code=stolen", ""},
		"a wrong state":             {"?code=stolen&state=wrong", ""},
		"the state of another":      {"?code=stolen&state=" + foreign.Query().Get("state"), ""},
		"two states":                {"?code=stolen&state=wrong&state=" + state, ""},
		"an error of somebody else": {"?error=access_denied&state=wrong", ""},
		"another name":              {"?code=stolen&state=" + state, "evil.test"},
		"another name for us":       {"?code=stolen&state=" + state, "localhost:" + strings.TrimPrefix(back.Addr().String(), "127.0.0.1:")},
	} {
		if status, body := visit(t, back.Redirect()+try[0], try[1]); status != http.StatusBadRequest && status != http.StatusNotFound || strings.Contains(body, "stolen") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if status, _ := visit(t, strings.Replace(back.Redirect(), "/callback", "/", 1)+"?code=stolen&state="+state, ""); status != http.StatusNotFound {
		t.Errorf("another page: %d", status)
	}
	if r.p.requests() != 0 {
		t.Fatal("a code of somebody else was exchanged")
	}
	if status, body := visit(t, back.Redirect()+"?code=the-code&state="+state+"&return_to=https://evil.test", ""); status != http.StatusOK || strings.Contains(body, "evil") || strings.Contains(body, "token") {
		t.Errorf("%d %s", status, body)
	}
	e := <-ended
	if e.err != nil || e.g.AccessToken != "access-token-1" || e.g.RefreshToken != "refresh-token-1" || e.g.ClientID != "client-2" || !e.g.Expires.Equal(r.now.Now().Add(time.Hour)) {
		t.Fatalf("%+v %v", e.g, e.err)
	}
	asked := r.p.asked[0]
	sum := sha256.Sum256([]byte(asked.Get("code_verifier")))
	if asked.Get("code") != "the-code" || asked.Get("redirect_uri") != back.Redirect() || asked.Get("client_secret") != "client-secret-2" || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") {
		t.Errorf("exchanged with %v", asked)
	}
	if _, err := way.Finish(t.Context(), url.Values{"code": {"again"}, "state": {state}}); !errors.Is(err, ErrForeign) {
		t.Errorf("a state that was used: %v", err)
	}
}

// at is a listener of which only the address counts.
type at struct {
	net.Listener
	addr string
}

func (a at) Addr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a.addr)) }

// A browser leaves the port of http out of what it asks for, and comes back all the same.
func TestACallbackOnThePortOfHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	way := r.Begin(r.oauth(), desktop, nil, "http://127.0.0.1:80/callback")
	for _, c := range []struct {
		listens, host string
		want          int
	}{
		{"127.0.0.1:80", "127.0.0.1", http.StatusBadRequest}, // of no sign-in, and heard
		{"127.0.0.1:80", "127.0.0.1:80", http.StatusBadRequest},
		{"127.0.0.1:80", "localhost", http.StatusNotFound},
		{"127.0.0.1:80", "127.0.0.1:8080", http.StatusNotFound},
		{"127.0.0.1:8080", "127.0.0.1", http.StatusNotFound},
		{"127.0.0.1:8080", "127.0.0.1:80", http.StatusNotFound},
		{"127.0.0.1:80", "", http.StatusNotFound},
	} {
		back, w := &Callback{at{addr: c.listens}}, httptest.NewRecorder()
		q := httptest.NewRequest(http.MethodGet, "/callback?state=wrong", http.NoBody)
		q.Host = c.host
		if _, ends := back.answer(t.Context(), w, q, way); ends || w.Code != c.want {
			t.Errorf("on %s for %q: %d", c.listens, c.host, w.Code)
		}
	}
}

// A person who does not agree ends it too, and of what the browser brings only a code is said.
func TestASignInThatIsNotGranted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for query, want := range map[string]string{"error=access_denied&error_description=evil": "access_denied", "error=" + url.QueryEscape("<b>evil"): "no code came", "": "no code came"} {
		way := r.Begin(r.oauth(), desktop, nil, "http://127.0.0.1:1/callback")
		at, _ := url.Parse(way.URL)
		q, _ := url.ParseQuery(query)
		q.Set("state", at.Query().Get("state"))
		_, err := way.Finish(t.Context(), q)
		if e := runtime.AsError(err); e.Reason != runtime.ReasonNotGranted || !strings.Contains(e.Msg, want) || strings.Contains(e.Msg, "evil") {
			t.Errorf("%s: %v", query, err)
		}
	}
	if r.p.requests() != 0 {
		t.Error("the provider was asked")
	}
}

// On another device the person types a code there, and the token is asked for until it is
// given.
func TestASignInOnAnotherDevice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	way, err := r.BeginOnDevice(t.Context(), r.oauth(), desktop, []string{"read"})
	if err != nil || way.Code != "WDJB-MJHT" || way.URL != r.p.URL+"/activate" {
		t.Fatalf("%+v %v", way, err)
	}
	r.p.answer(http.StatusBadRequest, `{"error":"authorization_pending"}`, "Content-Type", "application/json")
	go func() {
		for r.p.requests() == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		r.p.itself()
	}()
	g, err := way.Await(t.Context())
	if err != nil || g.AccessToken != "access-token-1" {
		t.Fatalf("%+v %v", g, err)
	}
	if last := r.p.asked[len(r.p.asked)-1]; last.Get("device_code") != "device-code-1" || last.Get("grant_type") != "urn:ietf:params:oauth:grant-type:device_code" {
		t.Errorf("asked with %v", last)
	}
	way, err = r.BeginOnDevice(t.Context(), r.oauth(), desktop, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.p.answer(http.StatusBadRequest, `{"error":"access_denied"}`, "Content-Type", "application/json")
	if _, err := way.Await(t.Context()); runtime.AsError(err).Reason != runtime.ReasonNotGranted {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := way.Await(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A person is sent to a page of the web and to nothing that runs or reads something here, and
// what the provider says of the pauses ends no process.
func TestADeviceSignInOfAHostileProvider(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, at := range []string{"javascript:alert(1)", "file:///etc/passwd", "http://login.test/activate", "https://", "login.test/activate", "https://me@login.test/", "https://login.test/\x1b[2J", "data:text/html,x"} {
		r.p.at = at
		if way, err := r.BeginOnDevice(t.Context(), r.oauth(), desktop, nil); err == nil || runtime.AsError(err).Reason != runtime.ReasonNotGranted {
			t.Errorf("%q is shown: %v", at, way.URL)
		}
	}
	r.p.at = "https://login.test/activate?lang=en"
	for _, interval := range []int{-1, -1 << 40} {
		r.p.interval = interval
		way, err := r.BeginOnDevice(t.Context(), r.oauth(), desktop, nil)
		if err != nil {
			t.Fatal(err)
		}
		if g, err := way.Await(t.Context()); err != nil || g.AccessToken == "" {
			t.Errorf("every %d seconds: %v", interval, err)
		}
	}
	way, err := r.BeginOnDevice(t.Context(), r.oauth(), desktop, nil)
	if err != nil {
		t.Fatal(err)
	}
	way.device.Expiry = time.Now().Add(-time.Second)
	if _, err := way.Await(t.Context()); !strings.Contains(runtime.AsError(err).Msg, "expired_token") {
		t.Errorf("a code that has expired: %v", err)
	}
}

// A browser that comes back twice at once ends the sign-in once: its code is exchanged once.
func TestTwoCallbacksAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	way := r.Begin(r.oauth(), desktop, nil, "http://127.0.0.1:1/callback")
	at, _ := url.Parse(way.URL)
	var all sync.WaitGroup
	var foreign atomic.Int32
	for range 20 {
		all.Go(func() {
			if _, err := way.Finish(t.Context(), url.Values{"code": {"c"}, "state": {at.Query().Get("state")}}); errors.Is(err, ErrForeign) {
				foreign.Add(1)
			}
		})
	}
	all.Wait()
	if foreign.Load() != 19 || r.p.requests() != 1 {
		t.Errorf("%d were refused, %d exchanged", foreign.Load(), r.p.requests())
	}
}

// What is given back is the refresh token, to the place of the grant; and a refresh token of
// elsewhere becomes a grant.
func TestRevokeAndRenewed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if became, err := r.Revoke(t.Context(), "default", "google.token"); became != Given || err != nil {
		t.Fatal(became, err)
	}
	if got := r.p.revoked; len(got) != 1 || got[0].Get("token") != "refresh-token-zero" {
		t.Errorf("%v", got)
	}
	r.s.values["plain"] = runtime.NewSecret("plain-token")
	for _, name := range []string{"plain", "nothing"} {
		if became, err := r.Revoke(t.Context(), "default", name); became != Nothing || err != nil {
			t.Errorf("%s: %v %v", name, became, err)
		}
	}
	g, err := r.Renewed(t.Context(), r.oauth(), desktop, runtime.NewSecret("refresh-token-zero"))
	if err != nil || g.AccessToken != "access-token-1" || g.RefreshToken != "refresh-token-1" {
		t.Errorf("%+v %v", g, err)
	}
	if _, err := r.Renewed(t.Context(), r.oauth(), desktop, runtime.NewSecret("wrong")); runtime.AsError(err).Reason != runtime.ReasonNotGranted || !strings.Contains(runtime.AsError(err).Hint, "refresh token") {
		t.Errorf("%v", err)
	}
	if who, scopes, err := r.Stored(t.Context(), "default", "google.token", r.oauth()); err != nil || who.ID != "client-1" || len(scopes) > 0 {
		t.Errorf("%v %v %v", who, scopes, err)
	}
	elsewhere := r.oauth()
	elsewhere.TokenURL = "https://evil.test/token"
	if who, scopes, err := r.Stored(t.Context(), "default", "google.token", elsewhere); err != nil || who.ID != "" || !who.Secret.Empty() || len(scopes) > 0 {
		t.Errorf("a client for another provider: %v %v %v", who.ID, scopes, err)
	}
}

// Where the service names the issuer of its provider, an answer of another one, or of nobody, is
// exchanged for nothing (RFC 9207): its code may be of a provider that was made to send it here.
// A service that names none takes whatever is said.
func TestAnAnswerOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := r.oauth()
	answer := func(iss ...string) error {
		way := r.Begin(at, desktop, nil, "http://127.0.0.1:1/callback")
		q := url.Values{"code": {"the-code"}, "state": {way.state}}
		if len(iss) > 0 {
			q["iss"] = iss
		}
		_, err := way.Finish(t.Context(), q)
		return err
	}
	if err := errors.Join(answer(), answer("https://evil.test")); err != nil {
		t.Errorf("no issuer is named: %v", err)
	}
	asked := r.p.requests()
	at.Issuer = "https://login.test"
	for _, iss := range [][]string{nil, {""}, {"https://evil.test"}, {"https://login.test/"}, {"HTTPS://login.test"}, {"https://login.test", "https://evil.test"}, {"https://login.test", "https://login.test"}, {"https://evil.test", "https://login.test"}} {
		err := answer(iss...)
		if e := runtime.AsError(err); err == nil || e.Reason != runtime.ReasonNotGranted || strings.Contains(e.Msg+e.Hint, "evil") || !strings.Contains(e.Hint, "issuer") {
			t.Errorf("%q: %v", iss, err)
		}
	}
	if r.p.requests() != asked {
		t.Error("a code of another issuer was exchanged")
	}
	if err := answer("https://login.test"); err != nil {
		t.Errorf("its own: %v", err)
	}
}

package connector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// A request gets the access token alone: what is stored never leaves, whatever a service says
// of its key.
func TestAGrantIsNeverTheCredential(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, kind := range []runtime.AuthType{runtime.AuthOAuth2, runtime.AuthBearer, runtime.AuthHeader, runtime.AuthQuery, runtime.AuthBody, runtime.AuthPath, runtime.AuthBasic} {
		cred, err := r.Credential(t.Context(), "default", &runtime.Auth{Type: kind, Ref: "google.token"})
		if err != nil || cred.Value.Reveal() != "access-token-zero" || cred.Name != "google.token" || len(cred.Authorities) != 1 {
			t.Errorf("%s: %q %v", kind, cred.Value.Reveal(), err)
		}
	}
	if still, err := (Still{r.s}).Credential(t.Context(), "default", asBearer); err != nil || still.Value.Reveal() != "access-token-zero" {
		t.Errorf("still: %v", err)
	}
	if r.p.requests() != 0 {
		t.Error("a token that is good was renewed")
	}
	for _, secret := range []string{"access-token-zero", "refresh-token-zero", "client-secret-1"} {
		if !slices.Contains(r.s.hidden, secret) {
			t.Errorf("%s is not kept out of the log", secret)
		}
	}
	r.s.values["plain.key"] = runtime.NewSecret("ya29.plain")
	if cred, err := r.Credential(t.Context(), "default", &runtime.Auth{Type: runtime.AuthOAuth2, Ref: "plain.key"}); err != nil || cred.Value.Reveal() != "ya29.plain" {
		t.Errorf("a pasted token: %v", err)
	}
	value, grant := r.s.values["google.token"], r.s.stored(t)
	for _, shown := range []string{fmt.Sprint(value), fmt.Sprintf("%+v %#v", value, value), fmt.Sprintf("%v %+v %#v %s", grant, grant, grant, *grant)} {
		if strings.Contains(shown, "token-zero") {
			t.Errorf("it prints: %s", shown)
		}
	}
	if !strings.Contains(value.Reveal()[:3], "\n") {
		t.Error("a grant could stand in a header field")
	}
}

// paired is a shelf whose every key has a user name.
type paired struct {
	*shelf
	user runtime.Secret
}

func (p paired) Credential(ctx context.Context, of runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	c, err := p.shelf.Credential(ctx, of, auth)
	c.Username = p.user
	return c, err
}

// A grant in the place of a user name goes nowhere either, and the fix names the tenant whose it is.
func TestAGrantIsNoUserName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.Connector.o
	o.Vault = paired{r.s, r.s.values["google.token"]}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	cred, err := c.Credential(t.Context(), "acme", &runtime.Auth{Type: runtime.AuthBasic, Ref: "google.token", UsernameRef: "google.user"})
	if hint := runtime.AsError(err).Hint; cred.Found() || hint != "kimbap --tenant acme vault set google.user" {
		t.Errorf("%v, hint %q", err, hint)
	}
}

// A grant of a later form, or one that was written by hand or is damaged, goes nowhere: what
// kimbap cannot read it does not send.
func TestAGrantThatCannotBeReadGoesNowhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, text := range []string{
		"{\n \"kimbap_oauth\": 2,\n \"refresh_token\": \"refresh-token-zero\"}", `{"kimbap_oauth":3,"access_token":"a"}`, " {\t\"kimbap_oauth\" :1", "{\n \"kimbap_oauth\": 1,", `{"kimbap_oauth":"1"}`,
		`{"kimbap_oauth":1,"token_url":"http://login.test/token","access_token":"a"}`, `{"kimbap_oauth":1,"access_token":"a"}`,
		`{"kimbap_oauth":1,"token_url":"https://login.test/token","revoke_url":"http://login.test/revoke","access_token":"a"}`,
	} {
		r.s.values["google.token"] = runtime.NewSecret(text)
		for name, v := range map[string]runtime.Vault{"connector": r.Connector, "still": Still{r.s}} {
			cred, err := v.Credential(t.Context(), "default", &runtime.Auth{Type: runtime.AuthQuery, Ref: "google.token"})
			if err == nil || cred.Found() || strings.Contains(err.Error(), "refresh-token") {
				t.Errorf("%s: %q is sent: %v", name, text, err)
			}
			if hint := runtime.AsError(runtime.OfService(err, "acme", "mail")).Hint; !strings.HasSuffix(hint, ": kimbap --tenant acme link mail") {
				t.Errorf("%s: %q: hint %q", name, text, hint)
			}
		}
	}
	for _, text := range []string{"", "{", "kimbap_oauth", `"kimbap_oauth": 1`, `{"client_id": "kimbap_oauth"}`} {
		if IsGrant(runtime.NewSecret(text)) {
			t.Errorf("%q is taken for a grant", text)
		}
	}
	grant, err := (&Grant{ClientID: "client-1", ClientSecret: "c", RefreshToken: "r", AccessToken: "a", TokenURL: "https://login.test/token"}).Seal()
	if err != nil || len(Parts(grant)) != 3 || len(Parts(runtime.NewSecret("key"))) != 0 {
		t.Errorf("its parts: %d %v", len(Parts(grant)), err)
	}
}

// Near its end a token is renewed, and what replaces the refresh token is stored.
func TestATokenIsRenewedInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.now.Advance(54 * time.Minute)
	r.uses(t, "access-token-zero")
	r.now.Advance(2 * time.Minute)
	r.uses(t, "access-token-1")
	r.uses(t, "access-token-1")
	g := r.s.stored(t)
	if g.RefreshToken != "refresh-token-1" || g.AccessToken != "access-token-1" || !g.Expires.Equal(r.now.Now().Add(time.Hour)) || strings.Join(g.Scopes, " ") != "read write" {
		t.Errorf("stored: %+v", g)
	}
	if got := r.p.asked; len(got) != 1 || got[0].Get("grant_type") != "refresh_token" || got[0].Get("refresh_token") != "refresh-token-zero" || got[0].Get("basic") != "client-1:client-secret-1" || got[0].Has("client_secret") {
		t.Errorf("asked: %v", got)
	}
	if strings.Join(r.s.events, ", ") != "oauth.refresh google.token" {
		t.Errorf("recorded: %v", r.s.events)
	}
	r.now.Advance(2 * time.Hour)
	r.uses(t, "access-token-2")
}

// Tokens that live for a minute are not renewed with every request.
func TestShortLivesAreUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.p.life = 60
	r.now.Advance(2 * time.Hour)
	r.uses(t, "access-token-1")
	r.now.Advance(40 * time.Second)
	r.uses(t, "access-token-1")
	r.now.Advance(10 * time.Second)
	r.uses(t, "access-token-2")
}

// A provider that does not say how long a token lives is not asked for another.
func TestATokenWithoutAnEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.p.answer(http.StatusOK, `{"access_token":"for-ever","token_type":"Bearer"}`)
	r.now.Advance(2 * time.Hour)
	r.uses(t, "for-ever")
	r.now.Advance(1000 * time.Hour)
	r.uses(t, "for-ever")
	if g := r.s.stored(t); g.RefreshToken != "refresh-token-zero" {
		t.Errorf("a provider that gives no new refresh token leaves the old one: %q", g.RefreshToken)
	}
}

// What a provider says of a token's life is believed within bounds, in JSON and in the form that
// some answer in; a token that is over already is used for a second and not for ever.
func TestOddLives(t *testing.T) {
	t.Parallel()
	const asForm = "application/x-www-form-urlencoded"
	for body, want := range map[string]time.Duration{
		`{"access_token":"t","expires_in":"3600"}`:                  time.Hour,
		`{"access_token":"t","expires_in":-5}`:                      time.Second,
		`{"access_token":"t","expires_in":0}`:                       0,
		`{"access_token":"t","expires_in":99999999999999}`:          longestLife * time.Second,
		`{"access_token":"t","expires_in":99999999999999999999999}`: longestLife * time.Second,
		`{"access_token":"t","expires_in":3600.0}`:                  time.Hour,
		`{"access_token":"t","expires_in":3599.97}`:                 3599 * time.Second,
		`{"access_token":"t","expires_in":3.6e3}`:                   time.Hour,
		`{"access_token":"t","expires_in":"3600.5"}`:                time.Hour,
		`{"access_token":"t","expires_in":0.5}`:                     time.Second,
		`{"access_token":"t","expires_in":""}`:                      0,
		`{"access_token":"t","expires_in":"never"}`:                 0,
		`{"access_token":"t","expires_in":null}`:                    0,
		`{"access_token":"t","expires_in":{"seconds":5}}`:           0,
		`access_token=t&expires_in=28800&refresh_token=r&scope=a+b`: 8 * time.Hour,
		`access_token=t&expires_in=99999999999999`:                  longestLife * time.Second,
		`access_token=t&expires_in=-1`:                              time.Second,
		`access_token=t`:                                            0,
	} {
		r := newRig(t)
		kind := "application/json"
		if body[0] == 'a' {
			kind = asForm
		}
		r.p.answer(http.StatusOK, body, "Content-Type", kind)
		r.now.Advance(2 * time.Hour)
		r.uses(t, "t")
		g := r.s.stored(t)
		if want == 0 != g.Expires.IsZero() || want != 0 && g.Expires.Sub(g.Obtained) != want {
			t.Errorf("%s: until %v", body, g.Expires)
		}
	}
	r := newRig(t)
	r.p.answer(http.StatusOK, `{"access_token":"t","expires_in":3600,"scope":"`+strings.Repeat("x ", 100<<10)+`"}`)
	r.now.Advance(2 * time.Hour)
	r.uses(t, "t")
	if g := r.s.stored(t); len(g.Scopes) > 0 || g.AccessToken != "t" {
		t.Errorf("%d scopes", len(g.Scopes))
	}
	for _, token := range []string{strings.Repeat("x", longestToken+1), "line\nbreak", "ü"} {
		r := newRig(t)
		text, _ := json.Marshal(map[string]any{"access_token": "t", "refresh_token": token})
		r.p.answer(http.StatusOK, string(text))
		r.now.Advance(2 * time.Hour)
		if got, err := use(t, r.Connector); err == nil {
			t.Errorf("%q is taken: %.20q", got, token)
		}
	}
}

// A provider that says another type than it sends is understood: the refresh token that it took
// is used, and without its answer the grant would be over.
func TestAnAnswerOfAnotherType(t *testing.T) {
	t.Parallel()
	const object = `{"access_token":"t","refresh_token":"r","expires_in":60}`
	for kind, body := range map[string]string{"text/plain; charset=utf-8": object, "application/x-www-form-urlencoded": " \r\n" + object, "text/html": object, "application/json;charset=UTF-8": "\ufeff" + object} {
		r := newRig(t)
		r.p.answer(http.StatusOK, body, "Content-Type", kind)
		r.now.Advance(2 * time.Hour)
		r.uses(t, "t")
		if g := r.s.stored(t); g.RefreshToken != "r" || g.Expires.Sub(g.Obtained) != time.Minute {
			t.Errorf("%s: %+v", kind, *g)
		}
	}
}

// A lifetime counts from when it was given, and a provider may take its time to say it: at the
// latest from when it was asked.
func TestALifeCountsFromTheQuestion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.now.Advance(2 * time.Hour)
	asked := r.now.Now()
	r.p.mu.Lock()
	r.p.instead = func(w http.ResponseWriter, _ *http.Request) {
		r.now.Advance(8 * time.Second)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"t","expires_in":10}`)
	}
	r.p.mu.Unlock()
	r.uses(t, "t")
	if g := r.s.stored(t); !g.Expires.Equal(asked.Add(10 * time.Second)) {
		t.Errorf("until %v, asked at %v", g.Expires, asked)
	}
}

// A clock that was set back says nothing of a token's end: it is renewed, not used for a day.
func TestAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.now.Advance(-time.Minute)
	r.uses(t, "access-token-zero")
	r.now.Advance(-24 * time.Hour)
	r.uses(t, "access-token-1")
	r.uses(t, "access-token-1")
	r.now.Advance(24 * time.Hour)
	r.uses(t, "access-token-2")
}

// A request with a token that is still good does not wait for a provider that never answers.
func TestAGoodTokenDoesNotWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.p.wait = make(chan struct{})
	r.now.Advance(57 * time.Minute)
	r.uses(t, "access-token-zero")
	if r.p.requests() != 1 {
		t.Error("nothing is renewed")
	}
	close(r.p.wait)
	if err := r.Close(t.Context()); err != nil || r.s.stored(t).AccessToken != "access-token-1" {
		t.Errorf("what came of it: %v", err)
	}
}

// A command that ends while it renews, as its caller has left, waits for what the provider
// gives, and stores it: the next one has no other refresh token. One that could not be stored
// is tried once more, and told of.
func TestTheEndOfAProcessLosesNoGrant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.p.wait = make(chan struct{})
	r.now.Advance(2 * time.Hour)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := r.Credential(ctx, "default", asBearer)
		left <- err
	}()
	for r.p.requests() == 0 {
		time.Sleep(time.Millisecond)
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Close(t.Context()) }()
	close(r.p.wait)
	if err := <-ended; err != nil || r.s.stored(t).RefreshToken != "refresh-token-1" {
		t.Errorf("%v, stored %q", err, r.s.stored(t).RefreshToken)
	}
	r.now.Advance(2 * time.Hour)
	runtimetest.Eventually(t, "an ended process gives nothing", func() bool { // once what it had under way is forgotten
		_, err := use(t, r.Connector)
		return err != nil
	})
	if r.p.requests() != 1 {
		t.Error("an ended process renews")
	}

	next := r.another(t)
	r.s.fill(true)
	if token, err := use(t, next); err != nil || token != "access-token-2" {
		t.Fatal(token, err)
	}
	soon, cancel := context.WithCancel(t.Context())
	cancel()
	if err := next.Close(soon); err == nil || !strings.Contains(err.Error(), "google.token") || strings.Contains(err.Error(), "token-2") {
		t.Errorf("a grant that is lost: %v", err)
	}
	go func() { ended <- next.Close(t.Context()) }()
	for n := r.s.tried(); r.s.tried() == n; {
		time.Sleep(time.Millisecond)
	}
	r.s.fill(false) // whoever had the database is done
	if err := <-ended; err != nil || r.s.stored(t).RefreshToken != "refresh-token-2" {
		t.Errorf("%v, stored %q", err, r.s.stored(t).RefreshToken)
	}
}

// After a lock nothing of a grant is in memory.
func TestForgetDropsGrants(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.uses(t, "access-token-zero")
	r.Forget()
	r.opened.Range(func(any, any) bool { t.Error("a grant is still there"); return false })
	r.s.hidden = nil
	r.uses(t, "access-token-zero")
	if len(r.s.hidden) != 3 {
		t.Error("what is opened anew is not kept out of the log")
	}
}

// Many requests of many processes at once renew once: a refresh token is taken once.
func TestOneRenewalForAll(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	processes := []*Connector{r.Connector, r.another(t), r.another(t)}
	r.now.Advance(2 * time.Hour)
	r.p.wait = make(chan struct{})
	var all sync.WaitGroup
	got := make(chan string, 300)
	for i := range 300 {
		all.Go(func() {
			token, err := use(t, processes[i%len(processes)])
			if err != nil {
				token = err.Error()
			}
			got <- token
		})
	}
	for r.p.requests() == 0 {
		time.Sleep(time.Millisecond)
	}
	close(r.p.wait)
	all.Wait()
	close(got)
	for token := range got {
		if token != "access-token-1" {
			t.Fatal(token)
		}
	}
	if n := r.p.requests(); n != 1 {
		t.Errorf("%d renewals", n)
	}
}

// CR-007: a provider that fails is left alone for some seconds, a token that is still good stays
// in use, and none of its words reach a caller.
func TestCR007AProviderThatFails(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(p *provider){
		"500":              func(p *provider) { p.answer(500, "<html>internal words</html>") },
		"503 in JSON":      func(p *provider) { p.answer(503, `{"error":"invalid_grant","error_description":"internal words"}`) },
		"429":              func(p *provider) { p.answer(429, "internal words", "Retry-After", "3600") },
		"HTML":             func(p *provider) { p.answer(200, "<html>internal words</html>", "Content-Type", "text/html") },
		"a body of 10 MiB": func(p *provider) { p.answer(200, `{"access_token":"`+strings.Repeat("x", 10<<20)+`"}`) },
		"another type":     func(p *provider) { p.answer(200, `{"access_token":"t","token_type":"mac"}`) },
		"a token of lines": func(p *provider) { p.answer(200, `{"access_token":"a\r\nX: internal words","token_type":"bearer"}`) },
		"no token":         func(p *provider) { p.answer(200, `{"token_type":"bearer"}`) },
		"a redirect":       func(p *provider) { p.answer(302, "", "Location", "http://127.0.0.1:1/internal-words") },
		"a connection's end": func(p *provider) {
			p.instead = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		},
		"an odd error code": func(p *provider) { p.answer(400, `{"error":"internal words <b>"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			fail(r.p)
			r.now.Advance(57 * time.Minute)
			r.uses(t, "access-token-zero") // it is still good
			if n := r.p.requests(); n != 1 {
				t.Fatalf("%d requests", n)
			}
			r.uses(t, "access-token-zero")
			r.now.Advance(3 * time.Hour)
			_, err := use(t, r.Connector)
			if err == nil || err.Code != runtime.CodeUpstream || err.Reason != runtime.ReasonOAuthRefreshFailed || err.Status() != http.StatusBadGateway || err.RetryAfter < firstPause {
				t.Fatalf("%+v", err)
			}
			if text := err.Msg + err.Hint + fmt.Sprint(err.Err); strings.Contains(text, "internal") || strings.Contains(text, "refresh-token") {
				t.Errorf("it says %s", text)
			}
			if !errors.Is(err, runtime.ErrNotSent) {
				t.Error("nothing of the request was sent, and the error does not say so")
			}
			n := r.p.requests()
			for range 100 {
				_, _ = use(t, r.Connector)
			}
			if r.p.requests() != n {
				t.Error("a provider that fails is asked by every request")
			}
			r.now.Advance(40 * time.Second)
			r.p.itself()
			r.uses(t, "access-token-1")
		})
	}
}

// CR-006: killed between the provider's answer and storing what it gave, the grant is over,
// and the next request says so: nothing is asked again and again.
func TestCR006KilledWhileRenewing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.now.Advance(2 * time.Hour)
	r.p.refresh = "what only the killed one knew"
	_, err := use(t, r.Connector)
	if err == nil || err.Code != runtime.CodeNoCredential || err.Reason != runtime.ReasonOAuthRefreshFailed || !strings.Contains(err.Hint, "kimbap link") {
		t.Fatalf("%+v", err)
	}
	if text := err.Error() + err.Msg + err.Hint; strings.Contains(text, "script") {
		t.Errorf("the provider's words: %s", text)
	}
	for _, c := range []*Connector{r.Connector, r.another(t)} {
		for range 10 {
			r.now.Advance(time.Hour)
			if _, err := use(t, c); err == nil || err.Code != runtime.CodeNoCredential {
				t.Fatalf("%v", err)
			}
		}
	}
	if r.p.requests() != 1 {
		t.Errorf("asked %d times", r.p.requests())
	}
	if g := r.s.stored(t); g.Over != "invalid_grant" || g.RefreshToken != "" || g.AccessToken != "" || g.ClientID != "client-1" {
		t.Errorf("stored: %+v", g)
	}
	if strings.Join(r.s.events, ", ") != "oauth.refresh google.token, oauth.over google.token invalid_grant" {
		t.Errorf("told: %v", r.s.events)
	}
}

// What cannot be stored stays in use, and is stored as soon as it can be; a new sign-in wins.
func TestARenewedGrantThatCannotBeStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.s.fill(true)
	r.now.Advance(2 * time.Hour)
	r.uses(t, "access-token-1")
	r.uses(t, "access-token-1")
	if r.s.stored(t).RefreshToken != "refresh-token-zero" {
		t.Fatal("it was stored")
	}
	r.now.Advance(2 * time.Hour)
	r.uses(t, "access-token-2") // by the refresh token that is not stored
	r.s.fill(false)
	r.now.Advance(firstPause)
	r.uses(t, "access-token-2")
	if r.s.stored(t).RefreshToken != "refresh-token-2" {
		t.Error("it is not stored although it could be")
	}

	r.s.fill(true)
	r.now.Advance(2 * time.Hour)
	r.uses(t, "access-token-3")
	anew := &Grant{TokenURL: r.p.URL + "/token", ClientID: "c", RefreshToken: "r", AccessToken: "signed-in-anew"}
	r.s.fill(false)
	r.s.set(t, anew, r.s.version) // the key was removed, so its count starts anew
	r.uses(t, "signed-in-anew")
	r.now.Advance(firstPause)
	r.uses(t, "signed-in-anew")
	if r.s.stored(t).AccessToken != "signed-in-anew" {
		t.Error("the grant of before took the place of the new sign-in")
	}
}

// Who signs in anew, or stores another key, while the grant of before is renewed keeps what
// came of it, whatever the provider says of the one before; and the token of the new one
// goes where both may go, no further.
func TestASignInDuringARenewalStays(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]bool{"renewed": false, "over": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if over {
				r.p.answer(http.StatusBadRequest, `{"error":"invalid_grant"}`)
			}
			r.p.wait = make(chan struct{})
			r.now.Advance(2 * time.Hour)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = use(t, r.Connector)
			}()
			for r.p.requests() == 0 {
				time.Sleep(time.Millisecond)
			}
			anew := &Grant{TokenURL: r.p.URL + "/token", ClientID: "c", RefreshToken: "r", AccessToken: "signed-in-anew"}
			r.s.set(t, anew, 2, "other.test:443")
			close(r.p.wait)
			<-ended
			if got := r.s.stored(t); got.AccessToken != "signed-in-anew" || got.Over != "" {
				t.Errorf("stored: %+v", got)
			}
			r.uses(t, "signed-in-anew")
		})
	}
}

// What is renewed goes to no host that it was not stored for, also when somebody stores
// another grant, for other hosts, between the look at it and its renewal.
func TestARenewedTokenStaysWithItsHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.now.Advance(2 * time.Hour)
	before := r.p.requests()
	with := func(stores func()) runtime.Credential {
		got, read := make(chan runtime.Credential, 1), r.s.reads()
		r.s.lock <- struct{}{} // another process renews
		go func() {
			cred, err := r.Credential(t.Context(), "default", asBearer)
			if err != nil {
				t.Error(err)
			}
			got <- cred
		}()
		for r.s.reads() == read {
			time.Sleep(time.Millisecond)
		}
		stores()
		<-r.s.lock
		return <-got
	}
	anew := &Grant{TokenURL: r.p.URL + "/token", ClientID: "c", RefreshToken: "r", AccessToken: "for-others-only"}
	cred := with(func() { r.s.set(t, anew, 2, "other.test:443", "api.test:443") })
	if cred.Value.Reveal() != "for-others-only" || !slices.Equal(cred.Authorities, []string{"api.test:443"}) || cred.Version != 2 {
		t.Errorf("%q for %v, version %d", cred.Value.Reveal(), cred.Authorities, cred.Version)
	}

	r.s.set(t, anew, 3, "api.test:443")
	r.uses(t, "for-others-only")
	old := *anew
	old.Obtained, old.Expires = r.now.Now().Add(-2*time.Hour), r.now.Now().Add(-time.Hour)
	for was, is := range map[int]int{4: 5, 1: 1} { // removed and linked anew: its count begins anew
		r.s.set(t, &old, was, "api.test:443")
		if cred := with(func() { r.s.set(t, anew, is, "other.test:443") }); len(cred.Authorities) > 0 {
			t.Errorf("what was stored for another host goes to %v", cred.Authorities)
		}
	}
	if r.p.requests() != before {
		t.Error("the provider was asked")
	}
}

// While one process cannot store what it got, no other shows the provider the refresh token
// that was used: it waits, and gets what is stored in the end.
func TestAUsedRefreshTokenIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := r.another(t)
	r.s.fill(true)
	r.now.Advance(2 * time.Hour)
	r.uses(t, "access-token-1")
	got, read := make(chan string, 1), r.s.reads()
	go func() {
		token, err := use(t, other)
		if err != nil {
			token = err.Error()
		}
		got <- token
	}()
	for r.s.reads() == read {
		time.Sleep(time.Millisecond)
	}
	r.s.fill(false)
	if token := <-got; token != "access-token-1" || r.p.requests() != 1 {
		t.Errorf("the other process got %q, %d requests", token, r.p.requests())
	}
}

// A renewal that cannot be recorded is not done.
func TestNoRenewalWithoutARecord(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.s.silent = true
	r.now.Advance(2 * time.Hour)
	if token, err := use(t, r.Connector); err == nil {
		t.Errorf("%q", token)
	}
	if r.p.requests() != 0 {
		t.Error("the provider was asked")
	}
}

// Without a refresh token a grant ends with its token.
func TestAGrantThatDoesNotLast(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	g := r.s.stored(t)
	g.RefreshToken = ""
	r.s.values["google.token"], _ = g.Seal()
	r.s.version++
	r.uses(t, "access-token-zero")
	r.now.Advance(59*time.Minute + 30*time.Second)
	if _, err := use(t, r.Connector); err == nil || err.Code != runtime.CodeNoCredential {
		t.Errorf("%v", err)
	}
	if r.p.requests() != 0 {
		t.Error("the provider was asked")
	}
	if over, found, err := r.Over(t.Context(), "default", "google.token"); over || !found || err != nil {
		t.Errorf("over before its end: %v %v %v", over, found, err)
	}
	if ends := Ends(r.s.values["google.token"]); !ends.Equal(g.Expires) {
		t.Errorf("it ends at %v", ends)
	}
	r.now.Advance(time.Minute)
	if over, _, err := r.Over(t.Context(), "default", "google.token"); !over || err != nil {
		t.Errorf("not over after its end: %v", err)
	}
	g.Expires = time.Time{}
	r.s.set(t, g, 3)
	if over, _, err := r.Over(t.Context(), "default", "google.token"); over || err != nil || !Ends(r.s.values["google.token"]).IsZero() {
		t.Errorf("one without an end is over: %v", err)
	}
	g.RefreshToken, g.Expires = "r", r.now.Now()
	r.s.set(t, g, 4)
	if over, _, err := r.Over(t.Context(), "default", "google.token"); over || err != nil || !Ends(r.s.values["google.token"]).IsZero() {
		t.Errorf("one that is renewed is over: %v", err)
	}
	if !Ends(runtime.NewSecret("a token")).IsZero() {
		t.Error("a value that is no grant ends")
	}
}

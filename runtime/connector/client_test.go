package connector

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// machine is a service whose tokens the client itself is given.
func (r *rig) machine() *runtime.OAuth {
	return &runtime.OAuth{
		Grant: runtime.GrantClientCredentials, TokenURL: r.p.URL + "/token", RevokeURL: r.p.URL + "/revoke", ClientAuth: "basic",
		Scopes: []string{"read", "admin"}, Params: []runtime.Pair{{Name: "audience", Text: "https://api.test/"}, {Name: "resource", Text: "https://api.test/v1"}},
	}
}

var confidential = Client{ID: "id:1", Secret: runtime.NewSecret("client secret+%/&=")}

// linked stores what the client itself is given.
func (r *rig) linked(t *testing.T, at *runtime.OAuth) *Grant {
	t.Helper()
	g, err := r.BeginAsClient(at, confidential, at.Scopes).Ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.s.set(t, g, 2)
	return g
}

// The client's secret gets each token, of which none brings what could renew it: a refresh token
// that comes is left, and the scopes that are asked for stay those of the service.
func TestAClientGetsTokensForItself(t *testing.T) {
	t.Parallel()
	for style, want := range map[string]string{"basic": "id%3A1:client+secret%2B%25%2F%26%3D", "post": ""} {
		r := newRig(t)
		at := r.machine()
		at.ClientAuth = style
		way := r.BeginAsClient(at, confidential, at.Scopes)
		g, err := way.Ask(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if less := way.Withheld(g); len(less) != 1 || less[0] != "admin" { // the provider names read and write
			t.Errorf("withheld: %v", less)
		}
		r.s.set(t, g, 2)
		r.uses(t, "access-token-1")
		r.now.Advance(56 * time.Minute)
		r.uses(t, "access-token-2")
		r.now.Advance(20 * time.Hour)
		r.uses(t, "access-token-3")
		for _, form := range r.p.asked {
			if form.Get("grant_type") != "client_credentials" || form.Get("scope") != "read admin" || form.Get("audience") != "https://api.test/" ||
				len(form["resource"]) != 1 || form.Get("resource") != "https://api.test/v1" || form.Get("basic") != want {
				t.Errorf("%s: asked: %v", style, form)
			}
			if shown := form.Get("client_secret"); form.Has("refresh_token") || form.Has("code") || (style == "post") != (shown == confidential.Secret.Reveal()) || style == "basic" && shown != "" {
				t.Errorf("%s: asked: %v", style, form)
			}
		}
		kept := r.s.stored(t)
		if kept.RefreshToken != "" || strings.Join(kept.Scopes, " ") != "read admin" || !slices.Contains(r.s.hidden, "access-token-3") {
			t.Errorf("stored: %+v", kept)
		}
		value, err := kept.Seal()
		if err != nil || !Ends(value).IsZero() || len(Parts(value)) != 2 {
			t.Errorf("ends %v, %d parts", Ends(value), len(Parts(value)))
		}
		if over, found, err := r.Over(t.Context(), "default", "google.token"); over || !found || err != nil {
			t.Errorf("over %v %v %v", over, found, err)
		}
	}
}

// What is no token is not taken, nor stored at the end: the secret goes to one address, and no
// word of the provider comes from it.
func TestAnAnswerThatGivesAClientNothing(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"stolen","token_type":"Bearer"}`)
	}))
	t.Cleanup(other.Close)
	for name, c := range map[string]struct {
		status     int
		body, hint string
		field      string
	}{
		"elsewhere":       {307, "", "check the client's id and secret", other.URL + "/token"},
		"moved":           {302, "", "", other.URL + "/token"},
		"no client":       {401, `{"error":"invalid_client","error_description":"words of it"}`, "auth.oauth2.client_auth", ""},
		"not allowed":     {400, `{"error":"unauthorized_client"}`, "allow this client the client credentials grant", ""},
		"invalid grant":   {400, `{"error":"invalid_grant","error_description":"words of it"}`, "allow this client", ""},
		"no such grant":   {400, `{"error":"unsupported_grant_type"}`, "take grant out", ""},
		"no audience":     {403, `{"error":"access_denied"}`, "audience", ""},
		"in a success":    {200, `{"error":"invalid_scope"}`, "--scope", ""},
		"another type":    {200, `{"access_token":"a","token_type":"DPoP","expires_in":60}`, "plain bearer tokens", ""},
		"mac":             {200, `{"access_token":"a","token_type":"mac"}`, "plain bearer tokens", ""},
		"no token":        {200, `{"token_type":"Bearer"}`, "", ""},
		"an id token":     {200, `{"id_token":"a","token_type":"Bearer"}`, "", ""},
		"two lines":       {200, `{"access_token":"a\r\nHost: evil.test","token_type":"Bearer"}`, "", ""},
		"garbage":         {200, "<html>words of it</html>", "", ""},
		"too long":        {200, `{"access_token":"` + strings.Repeat("a", longestAnswer) + `"}`, "", ""},
		"long":            {200, `{"access_token":"` + strings.Repeat("a", longestToken+1) + `","token_type":"Bearer"}`, "", ""},
		"asked too often": {429, `{}`, "asked too often: start again later", ""},
		"down":            {503, `{"error":"temporarily_unavailable"}`, "start again later", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.linked(t, r.machine())
			r.p.answer(c.status, c.body, "Location", c.field)
			g, err := r.BeginAsClient(r.machine(), confidential, nil).Ask(t.Context())
			e := runtime.AsError(err)
			if g != nil || err == nil || e.Reason != runtime.ReasonNotGranted || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("%v: hint %q", err, e.Hint)
			}
			for _, text := range []string{"words of it", "client secret", "evil.test"} {
				if strings.Contains(fmt.Sprint(err, e.Msg, e.Hint), text) {
					t.Errorf("it says %q: %v", text, err)
				}
			}
			// A grant that is stored outlives it, asks again, and is as good as before.
			r.now.Advance(56 * time.Minute)
			r.uses(t, "access-token-1")
			r.now.Advance(time.Hour)
			if got, err := use(t, r.Connector); err == nil || err.Code != runtime.CodeUpstream || err.Reason != runtime.ReasonOAuthRefreshFailed || got != "" {
				t.Errorf("it gives %q, %v", got, err)
			}
			if kept := r.s.stored(t); kept.Over != "" || kept.ClientSecret != confidential.Secret.Reveal() {
				t.Errorf("stored: %+v", kept)
			}
			r.p.itself()
			r.now.Advance(time.Minute)
			if got, err := use(t, r.Connector); err != nil || !strings.HasPrefix(got, "access-token-") {
				t.Errorf("it does not go on: %q %v", got, err)
			}
		})
	}
	t.Cleanup(func() {
		if n := elsewhere.Load(); n != 0 {
			t.Errorf("the secret went elsewhere %d times", n)
		}
	})
}

// While a provider refuses the client it is left alone, as any that fails.
func TestARefusedClientIsNotAskedForEver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.linked(t, r.machine())
	r.now.Advance(2 * time.Hour)
	r.p.answer(401, `{"error":"invalid_client"}`)
	for range 50 {
		if _, err := use(t, r.Connector); err == nil || !strings.Contains(err.Hint, "kimbap link SERVICE --client FILE") {
			t.Fatalf("%v", err)
		}
	}
	if n := r.p.requests(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// However long a provider says that a token lives, it is used, and renewed no more than it must be.
func TestAClientsTokenLivesAsItsProviderSays(t *testing.T) {
	t.Parallel()
	const years = longestLife * time.Second
	for said, want := range map[string]time.Duration{
		"3600": time.Hour, `"3600"`: time.Hour, "3599.97": 3599 * time.Second, "0": 0, `""`: 0, "null": 0, `"soon"`: 0, "-5": time.Second,
		"9223372036854775807": years, "99999999999999999999999": years, "1e300": years, "-1e300": time.Second, "-9223372036854775808": time.Second,
	} {
		r := newRig(t)
		r.p.answer(200, `{"access_token":"a","token_type":"Bearer","expires_in":`+said+`}`)
		g := r.linked(t, r.machine())
		life := time.Duration(0)
		if !g.Expires.IsZero() {
			life = g.Expires.Sub(g.Obtained)
		}
		if life != want {
			t.Errorf("%s: %v", said, life)
		}
		r.uses(t, "a")
		if n := r.p.requests(); n != 1 {
			t.Errorf("%s: %d requests", said, n)
		}
	}
}

// Of many processes one asks, and the others take what it was given.
func TestOneProcessAsksForTheClient(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.linked(t, r.machine())
	r.now.Advance(2 * time.Hour)
	var all sync.WaitGroup
	for range 4 {
		c := r.another(t)
		for range 4 {
			all.Go(func() {
				if got, err := use(t, c); got != "access-token-2" {
					t.Errorf("%q %v", got, err)
				}
			})
		}
	}
	all.Wait()
	if n := r.p.requests(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// A token that an API refuses before its end is replaced, within the bounds of any.
func TestAClientsTokenThatIsRefusedEarly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.linked(t, r.machine())
	refuse := func() {
		cred, err := r.Credential(t.Context(), "default", asBearer)
		if err != nil {
			t.Fatal(err)
		}
		cred.Refused(true)
		r.running.Wait()
	}
	refuse()
	r.uses(t, "access-token-1") // too young for that
	r.now.Advance(2 * time.Minute)
	refuse()
	if !r.s.stored(t).Spent {
		t.Error("the other processes do not know")
	}
	r.uses(t, "access-token-2")
}

// A service that names another place, or that no person of before has signed in for, gets the
// client of neither.
func TestAClientsSecretStaysWithItsProvider(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.linked(t, r.machine())
	at := r.machine()
	if who, scopes, err := r.Stored(t.Context(), "default", "google.token", at); err != nil || who.ID != confidential.ID || !who.Secret.Equal(confidential.Secret) || len(scopes) != 2 {
		t.Errorf("%v %v %v", who.ID, scopes, err)
	}
	at.Grant = ""
	if who, scopes, err := r.Stored(t.Context(), "default", "google.token", at); err != nil || who.ID != confidential.ID || scopes != nil {
		t.Errorf("the scopes of a client are asked of a person: %v %v %v", who.ID, scopes, err)
	}
	for _, change := range []func(*runtime.OAuth){
		func(o *runtime.OAuth) { o.TokenURL = "https://evil.test/token" },
		func(o *runtime.OAuth) { o.TokenURL += "?x" },
		func(o *runtime.OAuth) { o.RevokeURL = "https://evil.test/revoke" },
	} {
		at := r.machine()
		change(at)
		if who, _, err := r.Stored(t.Context(), "default", "google.token", at); err != nil || who.ID != "" || !who.Secret.Empty() {
			t.Errorf("%s gets it: %v", at.TokenURL, err)
		}
	}
	// Nor does an API see it come back, where it is on the same host.
	host := strings.TrimPrefix(r.p.URL, "http://")
	for authority, want := range map[string]int{host: 1, "api.test:443": 0} {
		if got := r.s.stored(t).beside(r.now.Now(), []string{authority}); len(got) != want {
			t.Errorf("%s: %d are searched for", authority, len(got))
		}
	}
}

// The access token is given back; where it is not, it lasts until its end, and nothing else does.
func TestAClientsTokenIsGivenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	g := r.linked(t, r.machine())
	if got, err := r.Revoke(t.Context(), "default", "google.token"); got != Given || err != nil || r.p.revoked[0].Get("token") != g.AccessToken {
		t.Errorf("%q %v %v", got, err, r.p.revoked)
	}
	at := r.machine()
	at.RevokeURL = ""
	r.linked(t, at)
	if got, err := r.Revoke(t.Context(), "default", "google.token"); got != Lasting || err != nil {
		t.Errorf("%q %v", got, err)
	}
	r.now.Advance(2 * time.Hour)
	if got, err := r.Revoke(t.Context(), "default", "google.token"); got != Nothing || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// A kind that is of a later kimbap goes nowhere.
func TestAGrantOfAnotherKindIsNotUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.s.values["google.token"] = runtime.NewSecret("{\n \"kimbap_oauth\": 1,\n \"token_url\": \"https://login.test/token\", \"grant_type\": \"password\", \"access_token\": \"a\"}")
	if got, err := use(t, r.Connector); err == nil || got != "" {
		t.Errorf("%q is used", got)
	}
}

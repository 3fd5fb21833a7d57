package app_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

const mailService = `name: mail
version: 1.0.0
base_url: https://mail.notes.test
auth:
  type: oauth2
  credential_ref: mail.token
  oauth2:
    authorize_url: https://login.notes.test/oauth/authorize
    token_url: https://login.notes.test/oauth/token
    revoke_url: https://login.notes.test/oauth/revoke
    scopes: [mail.read]
placeholders: {MAIL_TOKEN: mail_kimbap}
actions:
  list-mail: {description: List, method: GET, path: /inbox, idempotent: true, risk: {level: low}}
`

// provider is the token endpoint of an upstream. Each refresh token is taken once.
type provider struct {
	mu      sync.Mutex
	n       int
	over    bool
	revoked string

	takenBack, challenge string // a token that is refused, and what is said of it
}

func (p *provider) access(n int) string { return fmt.Sprintf("ya29.access-%04d-Zm9vYmFyYmF6", n) }

func (p *provider) refresh(n int) string { return fmt.Sprintf("1//refresh-%04d-cXV1eGNvcmdl", n) }

func (p *provider) routes() map[string]servicestest.Behave {
	answer := func(c *servicestest.Conn, status, body string) bool {
		return c.Send(fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body))
	}
	return map[string]servicestest.Behave{
		"/oauth/token": func(c *servicestest.Conn, r *servicestest.Request) bool {
			if c.ReadBody(r) != nil {
				return false
			}
			form, _ := url.ParseQuery(string(r.Body))
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.over || form.Get("grant_type") == "refresh_token" && form.Get("refresh_token") != p.refresh(p.n) {
				return answer(c, "400 Bad Request", `{"error":"invalid_grant","error_description":"words of the provider"}`)
			}
			p.n++
			return answer(c, "200 OK", fmt.Sprintf(`{"access_token":%q,"refresh_token":%q,"token_type":"Bearer","expires_in":3600}`, p.access(p.n), p.refresh(p.n)))
		},
		"/oauth/revoke": func(c *servicestest.Conn, r *servicestest.Request) bool {
			if c.ReadBody(r) != nil {
				return false
			}
			form, _ := url.ParseQuery(string(r.Body))
			p.mu.Lock()
			defer p.mu.Unlock()
			p.revoked = form.Get("token")
			return answer(c, "200 OK", "{}")
		},
		"/inbox": func(c *servicestest.Conn, r *servicestest.Request) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			if r.Header.Get("Authorization") != "Bearer "+p.access(p.n) || p.takenBack == p.access(p.n) {
				return c.Send(fmt.Sprintf("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: %s\r\nContent-Length: 14\r\n\r\n{\"wrong\":true}", p.challenge))
			}
			return answer(c, "200 OK", fmt.Sprintf(`{"echo":%q}`, r.Header.Get("Authorization")))
		},
	}
}

// Clients as a provider knows them, one of which has a secret.
var (
	public       = app.OAuthClient{ID: "client-1"}
	confidential = app.OAuthClient{ID: "client-1", Secret: runtime.NewSecret("GOCSPX-client-secret-1")}
)

// signIn has a person sign in for mail, and links it; try tries the key.
func signIn(t *testing.T, owner *app.App, client app.OAuthClient, try bool) {
	t.Helper()
	s, err := owner.SignIns().For(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	secret, err := owner.SignIns().SignIn(t.Context(), s, app.SignInOptions{Client: client, Show: comesBack(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Link(t.Context(), "mail", secret, try); err != nil {
		t.Fatal(err)
	}
}

// comesBack is a browser whose person agrees at once.
func comesBack(t *testing.T) func(at, code, redirect string) {
	return func(at, _, redirect string) {
		u, err := url.Parse(at)
		if err != nil || u.Host != "login.notes.test" || u.Query().Get("redirect_uri") != redirect {
			t.Errorf("the sign-in is at %s: %v", at, err)
			return
		}
		go func() {
			answer, err := http.Get(redirect + "?code=c&state=" + url.QueryEscape(u.Query().Get("state")))
			if err != nil {
				t.Error(err)
				return
			}
			answer.Body.Close()
		}()
	}
}

// A sign-in, a request with the token that it gave, one with the token that came after it, the
// end of the grant, a new sign-in and its return: and none of the secrets is anywhere but at
// the provider, sealed in the database, and at the API the access token.
func TestAServiceThatSignsIn(t *testing.T) {
	t.Parallel()
	p := &provider{}
	var ahead atomic.Int64
	k := apptest.New(t, apptest.Options{
		Services: []string{apptest.Notes, mailService}, Resolve: []string{"mail.notes.test:443", "login.notes.test:443"},
		Upstream: servicestest.Options{Routes: p.routes()}, Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	owner := k.Open(t, "")
	signInChecked := func() {
		t.Helper()
		s, err := owner.SignIns().For(t.Context(), "mail")
		if err != nil || s == nil || !s.Browser || s.Device || strings.Join(s.Scopes, " ") != "mail.read" {
			t.Fatalf("%+v %v", s, err)
		}
		secret, err := owner.SignIns().SignIn(t.Context(), s, app.SignInOptions{Client: confidential, Show: comesBack(t)})
		if err != nil {
			t.Fatal(err)
		}
		linked, err := owner.Link(t.Context(), "mail", secret, true)
		if err != nil || linked.Checked != "mail.list-mail" || linked.Problem != "" || strings.Join(linked.Hosts, " ") != "mail.notes.test:443" {
			t.Fatalf("%+v %v", linked, err)
		}
	}
	signInChecked()
	read := func() apptest.Answer { return k.Do(t, "GET https://mail.notes.test/inbox", "") }
	apptest.Eventually(t, "the key is taken up", func() bool { return read().Status == http.StatusOK })
	if got := read(); strings.Contains(got.Body, "ya29") {
		t.Errorf("the access token comes back: %s", got.Body)
	}
	k.Do(t, "GET https://mail.notes.test/login.notes.test/"+p.access(1)+"/GOCSPX-client-secret-1", "")
	apptest.Eventually(t, "what is no secret of a grant is told in the trail", func() bool {
		text, _ := json.Marshal(k.Records(t))
		return strings.Contains(string(text), "/login.notes.test/")
	})
	ahead.Add(int64(2 * time.Hour))
	if got := read(); got.Status != http.StatusOK || p.n != 2 {
		t.Errorf("with the token after it: %d %s, %d tokens", got.Status, got.Body, p.n)
	}
	if s, err := owner.SignIns().For(t.Context(), "mail"); err != nil || s.Client.ID != "client-1" {
		t.Errorf("the client is known for the next time: %v %v", s.Client.ID, err)
	}
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	ahead.Add(int64(2 * time.Hour))
	for range 3 {
		if got := read(); got.Problem.Code != "no_credential" || got.Problem.Reason != "oauth_refresh_failed" || strings.Contains(got.Body, "words of the provider") {
			t.Errorf("the grant is over: %d %s", got.Status, got.Body)
		}
	}
	status, err := k.Open(t, "").Status(t.Context())
	if err != nil || strings.Join(status.Ended, " ") != "mail" || status.EndedFix != "kimbap link mail" {
		t.Errorf("the owner is told %v %q, %v", status.Ended, status.EndedFix, err)
	}
	p.mu.Lock()
	p.over = false
	p.mu.Unlock()
	signInChecked()
	apptest.Eventually(t, "the new grant is taken up", func() bool { return read().Status == http.StatusOK })
	if became := owner.GiveBack(t.Context(), "mail"); became != app.GrantGiven || p.revoked != p.refresh(p.n) {
		t.Errorf("given back: %v %q", became, p.revoked)
	}
	var events []string
	for _, r := range k.Records(t) {
		if strings.HasPrefix(r.Event, "oauth.") {
			events = append(events, r.Event)
		}
	}
	slices.Sort(events) // each process has a ledger of its own
	if got := strings.Join(events, " "); got != "oauth.over oauth.refresh oauth.refresh oauth.revoke" {
		t.Errorf("recorded: %s", got)
	}
	secrets := []string{"GOCSPX-client-secret-1"}
	for n := 1; n <= p.n; n++ {
		secrets = append(secrets, p.access(n), p.refresh(n))
	}
	err = filepath.WalkDir(k.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, secret := range secrets {
			if strings.Contains(string(data), secret) {
				t.Errorf("%s is in %s", secret, path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, secret := range secrets {
		if strings.Contains(k.Log.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
}

// A service that names the key of another one and a provider of its own, as a file of somebody
// else may, is neither sent the client's secret nor what was granted; nor is one that would have
// it given back elsewhere.
func TestAnotherProviderGetsNothingOfAGrant(t *testing.T) {
	t.Parallel()
	p := &provider{}
	as := func(name, from, to string) string {
		return strings.NewReplacer("name: mail\n", "name: "+name+"\n", from, to, "mail.notes.test", name+".notes.test", "mail_kimbap", name+"_kimbap", "MAIL_TOKEN", strings.ToUpper(name)+"_TOKEN").Replace(mailService)
	}
	k := apptest.New(t, apptest.Options{
		Services: []string{
			apptest.Notes, mailService, as("evil", "login.notes.test/oauth/token", "login.evil.test/oauth/token"), as("worse", "login.notes.test/oauth/revoke", "login.evil.test/oauth/revoke"),
			as("calendar", "    revoke_url: https://login.notes.test/oauth/revoke\n", ""), as("drive", "login.notes.test/oauth/revoke", "login.notes.test/revoke"),
		},
		Resolve: []string{"mail.notes.test:443", "login.notes.test:443"}, Upstream: servicestest.Options{Routes: p.routes()},
	})
	owner := k.Open(t, "")
	signIn(t, owner, confidential, false)
	for service, id := range map[string]string{"mail": "client-1", "evil": "", "worse": "", "calendar": "client-1", "drive": "client-1"} {
		s, err := owner.SignIns().For(t.Context(), service)
		if err != nil || s.Client.ID != id || s.Client.Secret.Empty() != (id == "") {
			t.Errorf("%s: the client of before is %q, %v", service, s.Client.ID, err)
		}
	}
}

// A provider on this machine may be named as such.
func TestAProviderOnThisMachine(t *testing.T) {
	t.Parallel()
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"a-token-of-here","token_type":"bearer","refresh_token":"r"}`)
	}))
	t.Cleanup(local.Close)
	for _, host := range []string{"localhost", "127.0.0.1", "login.localhost"} {
		at := strings.Replace(local.URL, "127.0.0.1", host, 1) + "/token"
		k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes, strings.Replace(mailService, "https://login.notes.test/oauth/token", at, 1)}})
		owner := k.Open(t, "")
		s, err := owner.SignIns().For(t.Context(), "mail")
		if err != nil {
			t.Fatal(err)
		}
		if secret, err := owner.SignIns().SignIn(t.Context(), s, app.SignInOptions{Client: app.OAuthClient{ID: "c"}, Show: comesBack(t)}); err != nil || secret.Empty() {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// SS-018: a provider on an address that nothing may reach is asked nothing, whatever the
// service file says of it, and a sign-in that nobody completes ends.
func TestSS018ProvidersGoThroughTheGuard(t *testing.T) {
	t.Parallel()
	// What upstream.resolve leads to is open, unless it is denied.
	const named = "    \"login.inner.test:443\": \"10.0.0.1:443\"\negress: {private: auto, deny: [10.0.0.1]}\n"
	for _, at := range []string{"https://10.1.2.3/token", "https://169.254.169.254/token", "https://login.inner.test/token"} {
		k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes, strings.Replace(mailService, "https://login.notes.test/oauth/token", at, 1)}, Config: named})
		owner := k.Open(t, "")
		s, err := owner.SignIns().For(t.Context(), "mail")
		if err != nil {
			t.Fatal(err)
		}
		secret, err := owner.SignIns().SignIn(t.Context(), s, app.SignInOptions{Client: app.OAuthClient{ID: "c"}, Show: comesBack(t)})
		if err == nil || !secret.Empty() || runtime.AsError(err).Reason != runtime.ReasonNotGranted {
			t.Errorf("%s: %v", at, err)
		}
		if hint := runtime.AsError(err).Hint; !strings.Contains(hint, "may not be reached through kimbap") {
			t.Errorf("%s: the advice is %q", at, hint)
		}
	}
	k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes, mailService}})
	owner := k.Open(t, "")
	s, err := owner.SignIns().For(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	short, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	_, err = owner.SignIns().SignIn(short, s, app.SignInOptions{Client: app.OAuthClient{ID: "c"}, Show: func(string, string, string) {}})
	if e := runtime.AsError(err); e.Code != runtime.CodeTimeout || !strings.Contains(e.Hint, "kimbap link mail") {
		t.Errorf("nobody agrees: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = owner.SignIns().SignIn(ctx, s, app.SignInOptions{Client: app.OAuthClient{ID: "c"}, Show: func(string, string, string) { cancel() }})
	if err == nil || ctx.Err() == nil {
		t.Errorf("%v", err)
	}
}

// A token that the API takes no more, though its time has not come: the client hears the 401
// as it is, over each way to the upstream, and its next request goes out with another token.
func TestATokenThatTheAPITakesBackEarly(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"std", "relay"} {
		p := &provider{challenge: `Bearer realm="https://login.notes.test", error="invalid_token"`}
		var ahead atomic.Int64
		k := apptest.New(t, apptest.Options{
			Services: []string{apptest.Notes, mailService}, Resolve: []string{"mail.notes.test:443", "login.notes.test:443"}, Engine: engine,
			Upstream: servicestest.Options{Routes: p.routes()}, Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		})
		owner := k.Open(t, "")
		signIn(t, owner, public, true)
		read := func() apptest.Answer { return k.Do(t, "GET https://mail.notes.test/inbox", "") }
		apptest.Eventually(t, "the key is taken up", func() bool { return read().Status == http.StatusOK })
		ahead.Add(int64(5 * time.Minute))
		p.mu.Lock()
		p.takenBack = p.access(p.n)
		p.mu.Unlock()
		if got := read(); got.Status != http.StatusUnauthorized || got.Body != `{"wrong":true}` || got.Header.Get("WWW-Authenticate") != p.challenge {
			t.Errorf("%s: the 401 is not passed on: %d %s %v", engine, got.Status, got.Body, got.Header)
		}
		if got := read(); got.Status != http.StatusOK || p.n != 2 {
			t.Errorf("%s: the next one: %d %s, %d tokens", engine, got.Status, got.Body, p.n)
		}
		p.mu.Lock()
		p.takenBack = p.access(p.n)
		p.mu.Unlock()
		for range 5 {
			if got := read(); got.Status != http.StatusUnauthorized {
				t.Errorf("%s: %d", engine, got.Status)
			}
		}
		if p.n != 2 {
			t.Errorf("%s: an API that always refuses has %d tokens asked for", engine, p.n)
		}
	}
}

// An API that shows the token of before, which it may still take, or at the provider's own host
// the refresh token and the client's secret, shows them to nobody, in no encoding; what is not
// sent to that host is not looked for there.
func TestAnAPIThatShowsTheRestOfAGrant(t *testing.T) {
	t.Parallel()
	for host, hides := range map[string]bool{"login.notes.test": false, "mail.notes.test": true} {
		p := &provider{}
		routes := p.routes()
		routes["/inbox"] = func(c *servicestest.Conn, _ *servicestest.Request) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			body := fmt.Sprintf("%s %s %s %s", p.access(1), base64.StdEncoding.EncodeToString([]byte(p.access(1))), url.QueryEscape(p.refresh(p.n)), "GOCSPX-client-secret-1")
			return c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Token: %s\r\nContent-Length: %d\r\n\r\n%s", p.access(1), len(body), body))
		}
		var ahead atomic.Int64
		k := apptest.New(t, apptest.Options{
			Services: []string{apptest.Notes, strings.Replace(mailService, "https://login.notes.test/oauth/token", "https://"+host+"/oauth/token", 1)}, Resolve: []string{"mail.notes.test:443", "login.notes.test:443"},
			Upstream: servicestest.Options{Routes: routes}, Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		})
		owner := k.Open(t, "")
		signIn(t, owner, confidential, false)
		read := func() apptest.Answer { return k.Do(t, "GET https://mail.notes.test/inbox", "") }
		apptest.Eventually(t, "the key is taken up", func() bool { return read().Status == http.StatusOK })
		ahead.Add(int64(57 * time.Minute))
		apptest.Eventually(t, "it is renewed", func() bool { read(); p.mu.Lock(); defer p.mu.Unlock(); return p.n == 2 })
		got := read()
		if strings.Contains(got.Body, p.access(1)) || strings.Contains(got.Body, "eWEyOS5hY2Nlc3M") || strings.Contains(got.Header.Get("X-Token"), "access-0001") {
			t.Errorf("%s: the token of before comes back: %s %v", host, got.Body, got.Header)
		}
		if shown := strings.Contains(got.Body, "refresh-0002") && strings.Contains(got.Body, "client-secret-1"); shown == hides {
			t.Errorf("%s: %s", host, got.Body)
		}
		ahead.Add(int64(4 * time.Minute))
		if got := read(); !strings.Contains(got.Body, p.access(1)) {
			t.Errorf("%s: a token that has ended is looked for: %s", host, got.Body)
		}
	}
}

// Over the REST API too a grant that is removed goes back to its provider, in the tenant of the
// token alone.
func TestAGrantRemovedOverTheAPIGoesBack(t *testing.T) {
	t.Parallel()
	p := &provider{}
	k := apptest.New(t, apptest.Options{
		Services: []string{apptest.Notes, mailService}, Resolve: []string{"mail.notes.test:443", "login.notes.test:443"}, Upstream: servicestest.Options{Routes: p.routes()},
	})
	owner := k.Open(t, "")
	if err := owner.CreateTenant(t.Context(), acme, false); err != nil {
		t.Fatal(err)
	}
	theirs := k.OpenAs(t, acme)
	signIn(t, theirs, public, false)
	c := newAPI(t, k)
	ours, _ := tokenOf(t, k, app.TokenGrant{Roles: []string{runtime.RoleAdmin}})
	if got := c.ask(t, ours, "DELETE", "/v1/vault/mail.token", ""); got.Status != 404 || p.revoked != "" {
		t.Errorf("another tenant's: %d, %q is given back", got.Status, p.revoked)
	}
	admin, _, err := theirs.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, Roles: []string{runtime.RoleAdmin}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.ask(t, admin.Reveal(), "DELETE", "/v1/vault/mail.token", ""); got.Status != 204 || p.revoked != p.refresh(1) {
		t.Errorf("%d %s, %q is given back", got.Status, got.Body, p.revoked)
	}
}

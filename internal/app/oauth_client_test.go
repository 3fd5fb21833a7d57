package app_test

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
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

const fleetService = `name: fleet
version: 1.0.0
base_url: https://fleet.notes.test
auth:
  type: oauth2
  credential_ref: fleet.token
  oauth2:
    grant: client_credentials
    token_url: https://login.notes.test/oauth/token
    revoke_url: https://login.notes.test/oauth/revoke
    scopes: ["jobs:read"]
    params: {audience: "https://fleet.notes.test/"}
placeholders: {FLEET_TOKEN: fleet_kimbap}
actions:
  list-jobs: {description: List, method: GET, path: /jobs, idempotent: true, risk: {level: low}}
`

// issuer is a token endpoint that knows one client, and an API of its tokens.
type issuer struct {
	mu      sync.Mutex
	n       int
	asked   int
	secret  string
	instead string // is answered to a good client, whole
	revoked string
	strayed int // requests where nobody should come
}

func (p *issuer) access(n int) string { return fmt.Sprintf("eyJ.access-%04d-Zm9vYmFyYmF6", n) }

func (p *issuer) count() (asked, given int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, p.n
}

func (p *issuer) say(answer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instead = answer
}

func jsonAnswer(status, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

func (p *issuer) routes(t *testing.T) map[string]servicestest.Behave {
	form := func(c *servicestest.Conn, r *servicestest.Request) url.Values {
		if c.ReadBody(r) != nil {
			return nil
		}
		f, _ := url.ParseQuery(string(r.Body))
		p.mu.Lock()
		return f
	}
	return map[string]servicestest.Behave{
		"/oauth/token": func(c *servicestest.Conn, r *servicestest.Request) bool {
			f := form(c, r)
			if f == nil {
				return false
			}
			defer p.mu.Unlock()
			p.asked++
			if f.Get("grant_type") != "client_credentials" || f.Get("scope") != "jobs:read" || f.Get("audience") != "https://fleet.notes.test/" || f.Has("client_secret") {
				t.Errorf("asked: %v", f)
			}
			client := url.QueryEscape("client-1") + ":" + url.QueryEscape(p.secret)
			switch {
			case r.Header.Get("Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte(client)):
				return c.Send(jsonAnswer("401 Unauthorized", `{"error":"invalid_client","error_description":"words of the provider"}`))
			case p.instead != "":
				return c.Send(p.instead)
			}
			p.n++
			return c.Send(jsonAnswer("200 OK", fmt.Sprintf(`{"access_token":%q,"refresh_token":"1//not-to-be-used","token_type":"Bearer","expires_in":3600}`, p.access(p.n))))
		},
		"/oauth/revoke": func(c *servicestest.Conn, r *servicestest.Request) bool {
			f := form(c, r)
			if f == nil {
				return false
			}
			defer p.mu.Unlock()
			p.revoked = f.Get("token")
			return c.Send(jsonAnswer("200 OK", "{}"))
		},
		"/elsewhere": func(c *servicestest.Conn, r *servicestest.Request) bool {
			f := form(c, r)
			if f == nil {
				return false
			}
			defer p.mu.Unlock()
			p.strayed++
			return c.Send(jsonAnswer("200 OK", `{"access_token":"stolen","token_type":"Bearer"}`))
		},
		"/jobs": func(c *servicestest.Conn, r *servicestest.Request) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			if r.Header.Get("Authorization") != "Bearer "+p.access(p.n) {
				return c.Send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 14\r\n\r\n{\"wrong\":true}")
			}
			return c.Send(jsonAnswer("200 OK", fmt.Sprintf(`{"echo":%q}`, r.Header.Get("Authorization"))))
		},
	}
}

// linkFleet links fleet with a client of that secret.
func linkFleet(t *testing.T, owner *app.App, secret string) error {
	t.Helper()
	s, err := owner.SignIns().For(t.Context(), "fleet")
	if err != nil || s == nil || !s.Machine || s.Browser || s.Device {
		t.Fatalf("%+v %v", s, err)
	}
	grant, err := owner.SignIns().SignIn(t.Context(), s, app.SignInOptions{Client: app.OAuthClient{ID: "client-1", Secret: runtime.NewSecret(secret)}})
	if err != nil {
		return err
	}
	linked, err := owner.Link(t.Context(), "fleet", grant, true)
	if err == nil && (linked.Checked != "fleet.list-jobs" || linked.Problem != "" || linked.Ends != nil) {
		t.Errorf("%+v", linked)
	}
	return err
}

// A client is linked over TLS with no person, its tokens follow each other, and a provider that
// refuses it, or sends it elsewhere, is told of until it takes the client again. No secret is
// anywhere but at the provider, and in the answers of the API none.
func TestAServiceOfAClientItself(t *testing.T) {
	t.Parallel()
	p := &issuer{secret: "s3cret-of/client+1"}
	var ahead atomic.Int64
	k := apptest.New(t, apptest.Options{
		Services: []string{apptest.Notes, fleetService}, Resolve: []string{"fleet.notes.test:443", "login.notes.test:443"},
		Upstream: servicestest.Options{Routes: p.routes(t)}, Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	owner := k.Open(t, "")
	if err := linkFleet(t, owner, "another secret"); err == nil || runtime.AsError(err).Reason != runtime.ReasonNotGranted || strings.Contains(err.Error(), "words of the provider") {
		t.Fatalf("a client that the provider refuses: %v", err)
	}
	if err := linkFleet(t, owner, ""); err == nil || runtime.AsError(err).Code != runtime.CodeInvalidInput {
		t.Errorf("a client without a secret: %v", err)
	}
	if s, err := owner.SignIns().For(t.Context(), "fleet"); err != nil || s.Client.ID != "" {
		t.Errorf("it is stored: %+v %v", s, err)
	}
	if err := linkFleet(t, owner, p.secret); err != nil {
		t.Fatal(err)
	}
	read := func() apptest.Answer { return k.Do(t, "GET https://fleet.notes.test/jobs", "") }
	apptest.Eventually(t, "the key is taken up", func() bool { return read().Status == http.StatusOK })
	if got := read(); strings.Contains(got.Body, "eyJ") {
		t.Errorf("the access token comes back: %s", got.Body)
	}
	ahead.Add(int64(2 * time.Hour))
	asked, _ := p.count()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := read(); got.Status != http.StatusOK {
				t.Errorf("with the token after it: %d %s", got.Status, got.Body)
			}
		})
	}
	all.Wait()
	if now, given := p.count(); now != asked+1 || given != 2 {
		t.Errorf("%d questions, %d tokens", now-asked, given)
	}
	for name, answer := range map[string]string{
		"elsewhere": "HTTP/1.1 307 Temporary Redirect\r\nLocation: https://fleet.notes.test/elsewhere\r\nContent-Length: 0\r\n\r\n",
		"refused":   jsonAnswer("401 Unauthorized", `{"error":"invalid_client"}`),
		"over":      jsonAnswer("400 Bad Request", `{"error":"invalid_grant"}`),
	} {
		p.say(answer)
		ahead.Add(int64(2 * time.Hour))
		if got := read(); got.Problem.Code != "upstream" || got.Problem.Reason != "oauth_refresh_failed" {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
		apptest.Eventually(t, "the owner is told of "+name, func() bool { // once the outcome is written
			status, err := owner.Status(t.Context())
			return err == nil && strings.Join(status.Unrenewed, " ") == "fleet" && len(status.Ended) == 0
		})
		p.say("")
		ahead.Add(int64(time.Minute))
		if got := read(); got.Status != http.StatusOK {
			t.Errorf("%s: it does not go on: %d %s", name, got.Status, got.Body)
		}
	}
	if became := owner.GiveBack(t.Context(), "fleet"); became != app.GrantGiven || p.revoked != p.access(p.n) {
		t.Errorf("given back: %v %q", became, p.revoked)
	}
	secrets := []string{p.secret, "another secret", "1//not-to-be-used"}
	for n := 1; n <= p.n; n++ {
		secrets = append(secrets, p.access(n))
	}
	if p.strayed != 0 {
		t.Error("the secret went elsewhere")
	}
	notIn(t, k, secrets)
}

// notIn has none of these in a file of the home or in the log.
func notIn(t *testing.T, k *apptest.Kimbap, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(k.Log.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
	err := filepath.WalkDir(k.Dir, func(path string, d fs.DirEntry, err error) error {
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
}

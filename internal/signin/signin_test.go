package signin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/internal/signin"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/runtime/store/sqlite"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// desk signs in at a provider on this machine, over a vault of its own.
type desk struct {
	signin.Desk
	provider *httptest.Server
	revoked  func(token string) // called with each token that comes back
	fetched  []string           // commands that were run for a value that another store keeps
	broken   error              // of these commands
	key      vault.MasterKey
	log      strings.Builder
}

const signedIn = `name: %s
version: 1.0.0
base_url: https://%[1]s.test
auth:
  type: oauth2
  credential_ref: %[1]s.token
  oauth2: {authorize_url: https://login.test/authorize, token_url: https://login.test/token, revoke_url: https://login.test/revoke, scopes: [read]}
actions:
  get-it: {description: Get it, method: GET, path: /it, idempotent: true, risk: {level: low}}
`

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{key: vault.RandomMasterKey(), revoked: func(string) {}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /revoke", func(_ http.ResponseWriter, r *http.Request) { d.revoked(r.FormValue("token")) })
	d.provider = httptest.NewServer(mux)
	t.Cleanup(d.provider.Close)
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "kimbap.db"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	stored, err := vault.New(vault.Options{Store: db, Key: d.key, Clock: time.Now, Fetch: d})
	if err == nil {
		err = stored.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	grants, err := connector.New(connector.Options{
		Vault: stored, Keeper: stored, Client: d.provider.Client(), Clock: time.Now,
		Lock: func(ctx context.Context, _ runtime.Tenant, _ string) (func(), error) { return func() {}, ctx.Err() },
		Note: func(context.Context, runtime.Tenant, string, string, string) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Desk = signin.Desk{
		Connector: grants, Vault: stored, Tenant: runtime.DefaultTenant, Services: servicestest.Set(t, "mail.yaml", fmt.Sprintf(signedIn, "mail")),
		Expects: func(net.Addr) {}, Log: zerolog.New(&d.log),
	}
	return d
}

// Fetch implements [vault.Fetcher].
func (d *desk) Fetch(_ context.Context, r vault.Reference) (runtime.Secret, error) {
	d.fetched = append(d.fetched, r.Command[0])
	return runtime.NewSecret("fetched"), d.broken
}

// grant stores one; over says that its provider has ended it.
func (d *desk) grant(t *testing.T, name, over string) {
	t.Helper()
	g := connector.Grant{
		TokenURL: d.provider.URL + "/token", RevokeURL: d.provider.URL + "/revoke", ClientID: "c",
		RefreshToken: "refresh of " + name, AccessToken: "access of " + name, Obtained: time.Now(), Expires: time.Now().Add(time.Hour), Over: over,
	}
	value, err := g.Seal()
	if err == nil {
		_, err = d.Vault.Set(t.Context(), d.Tenant, name, value, []string{"mail.test:443"})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Of a tenant that goes all grants are given back. Those for which the time was too short are
// told as what they are, alive, and so is none whose value was never one.
func TestGrantsThatCouldNotBeGivenBackInTimeAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		until string // the grant with which the time is over
		alive []string
	}{
		"in time":        {"none", nil},
		"with the first": {"refresh of a.token", []string{"a.token", "c.token", "mail.token"}},
		"with the last":  {"refresh of mail.token", []string{"mail.token"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.grant(t, "a.token", "")
			d.grant(t, "c.token", "")
			d.grant(t, "d.token", "revoked by its owner")
			d.grant(t, "mail.token", "")
			if _, err := d.Vault.Set(t.Context(), d.Tenant, "b.key", runtime.NewSecret("a plain key"), []string{"b.test:443"}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			back := []string{}
			d.revoked = func(token string) {
				back = append(back, token)
				if token == c.until {
					cancel()
					<-ctx.Done()
					panic(http.ErrAbortHandler)
				}
			}
			if alive := d.GiveBackAll(ctx); !slices.Equal(alive, c.alive) {
				t.Errorf("alive %v, want %v; given back were %v", alive, c.alive, back)
			}
			if said := d.log.String(); strings.Contains(said, "refresh of") || strings.Contains(said, "access of") {
				t.Errorf("the log has a token: %s", said)
			}
		})
	}
}

// Looking how sign-ins are is no use of a key, and runs no command of another store for it.
func TestLookingAtSignInsUsesNoKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.grant(t, "mail.token", "revoked by its owner")
	if ended := d.Ended(t.Context()); !slices.Equal(ended, []string{"mail"}) {
		t.Errorf("ended: %v", ended)
	}
	if err := d.Vault.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stored, err := d.Vault.List(t.Context(), d.Tenant); err != nil || len(stored) != 1 || !stored[0].LastUsed.IsZero() {
		t.Errorf("it counts as used: %+v, %v", stored, err)
	}
	if _, err := d.Vault.SetReference(t.Context(), d.Tenant, "mail.token", vault.Reference{Command: []string{"/usr/bin/op", "read"}}, []string{"mail.test:443"}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if ended := d.Ended(t.Context()); len(ended) > 0 || len(d.fetched) > 0 {
		t.Errorf("ended: %v; run were %v", ended, d.fetched)
	}
	if became := d.GiveBack(t.Context(), "mail.token"); became != connector.Nothing || len(d.fetched) > 0 {
		t.Errorf("given back: %q; run were %v", became, d.fetched)
	}
}

// Nobody can tell of a locked vault what a value in it is. One that a service signs in for is
// told as alive, since it is about to be removed.
func TestALockedVaultGivesNothingBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.grant(t, "mail.token", "")
	d.grant(t, "other.token", "")
	d.revoked = func(token string) { t.Errorf("%s came back", token) }
	d.Vault.Lock()
	for name, want := range map[string]connector.Returned{"mail.token": connector.Alive, "other.token": connector.Nothing, "none": connector.Nothing} {
		if got := d.GiveBack(t.Context(), name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if alive, ended := d.GiveBackAll(t.Context()), d.Ended(t.Context()); !slices.Equal(alive, []string{"mail.token"}) || ended != nil {
		t.Errorf("alive %v, ended %v", alive, ended)
	}
}

// A person can sign in anew over what is stored and cannot be read, as requests tell them to.
// What nobody can look at, in a locked vault, is told.
func TestASignInOverWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"of a later form": `{"kimbap_oauth":2,"token_url":"https://login.test/token"}`,
		"damaged":         `{"kimbap_oauth":1,"tok`,
		"in clear":        `{"kimbap_oauth":1,"token_url":"http://login.test/token","client_id":"c"}`,
		"kept elsewhere":  "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			var err error
			if text != "" {
				_, err = d.Vault.Set(t.Context(), d.Tenant, "mail.token", runtime.NewSecret(text), []string{"mail.test:443"})
			} else {
				d.broken = errors.New("signed out there")
				_, err = d.Vault.SetReference(t.Context(), d.Tenant, "mail.token", vault.Reference{Command: []string{"/usr/bin/op", "read"}}, []string{"mail.test:443"}, time.Time{})
			}
			if err != nil {
				t.Fatal(err)
			}
			offer, err := d.For(t.Context(), "mail")
			if err != nil || offer == nil || offer.Client.ID != "" || !slices.Equal(offer.Scopes, []string{"read"}) {
				t.Errorf("%+v, %v", offer, err)
			}
			d.Vault.Lock()
			if _, err := d.For(t.Context(), "mail"); runtime.CodeOf(err) != runtime.CodeVaultLocked {
				t.Errorf("locked: %v", err)
			}
		})
	}
}

// A client that is given tokens itself leaves at most a token behind, also where its value cannot be
// looked at; what it is stored for says so.
func TestWhatAClientItselfLeavesBehind(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	fleet := strings.Replace(fmt.Sprintf(signedIn, "fleet"), "authorize_url: https://login.test/authorize", "grant: client_credentials", 1)
	d.Services = servicestest.Set(t, "fleet.yaml", fleet)
	d.grant(t, "fleet.token", "")
	d.grant(t, "other.token", "")
	if of, err := d.For(t.Context(), "fleet"); err != nil || !of.Machine || of.Browser || of.Device {
		t.Errorf("%+v %v", of, err)
	}
	d.Vault.Lock()
	for name, want := range map[string]connector.Returned{"fleet.token": connector.Lasting, "other.token": connector.Nothing} {
		if got := d.GiveBack(t.Context(), name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if alive := d.GiveBackAll(t.Context()); !slices.Equal(alive, []string{"fleet.token"}) {
		t.Errorf("of a tenant that goes: %v", alive)
	}
}

// way answers what a provider is asked, without a socket.
type way func(r *http.Request) (body string, err error)

// RoundTrip implements [http.RoundTripper].
func (w way) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := w(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// offered is what mail offers, at a provider that answers so.
func (d *desk) offered(t *testing.T, answers way) *signin.Offer {
	t.Helper()
	d.provider.Client().Transport = answers
	d.Services = servicestest.Set(t, "mail.yaml", strings.Replace(fmt.Sprintf(signedIn, "mail"), "{authorize_url", "{device_url: https://login.test/device, authorize_url", 1))
	of, err := d.For(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	return of
}

// Scopes that were given in one word are asked for and granted as what they are: a provider that
// grants both has granted them.
func TestScopesInOneWordAreThoseInIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var asked []string
	of := d.offered(t, func(r *http.Request) (string, error) {
		asked = append(asked, r.FormValue("scope"))
		if r.URL.Path == "/device" {
			return `{"device_code":"d","user_code":"WDJB-MJHT","verification_uri":"https://login.test/activate","expires_in":600,"interval":1}`, nil
		}
		return `{"access_token":"a","refresh_token":"r","scope":"write read"}`, nil
	})
	synctest.Test(t, func(t *testing.T) {
		_, err := d.SignIn(t.Context(), of, signin.Options{
			Client: connector.Client{ID: "c"}, Scopes: []string{" read  write "}, Device: true, Show: func(_, _, _ string) {},
			Less: func(scopes []string) { t.Errorf("not granted: %q", scopes) },
		})
		if err != nil || len(asked) != 2 || asked[0] != "read write" {
			t.Errorf("asked for %q: %v", asked, err)
		}
		time.Sleep(time.Minute) // the library leaves the first answer open
	})
}

// late is a context whose time is over when a test says so.
type late struct {
	context.Context
	over chan struct{}
}

func (l late) Done() <-chan struct{} { return l.over }

func (l late) Err() error {
	select {
	case <-l.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Somebody who has agreed at the end of the time, at a provider that then says nothing, is told of
// the provider: to be quicker does not help.
func TestAProviderThatIsSilentAfterAYes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := late{t.Context(), make(chan struct{})}
	of := d.offered(t, func(*http.Request) (string, error) {
		close(ctx.over)
		return "", context.DeadlineExceeded
	})
	_, err := d.SignIn(ctx, of, signin.Options{Client: connector.Client{ID: "c"}, Show: func(at, _, redirect string) {
		u, err := url.Parse(at)
		if err != nil {
			t.Error(err)
		}
		go func() {
			if answer, err := http.Get(redirect + "?code=c&state=" + url.QueryEscape(u.Query().Get("state"))); err == nil {
				answer.Body.Close()
			}
		}()
	}})
	if e := runtime.AsError(err); err == nil || !strings.Contains(e.Msg, "did not answer in time") {
		t.Errorf("%v", err)
	}
}

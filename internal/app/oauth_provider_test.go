package app_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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
	"github.com/kimbap-run/kimbap/proxy/egress/egresstest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// A provider that takes connections and says nothing, not even its TLS, holds none of them for
// longer than a renewal may take: a proxy asks it again and again for months.
func TestASilentProviderHoldsNoConnection(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	const tries = 4
	ended := make(chan struct{}, tries)
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
				ended <- struct{}{}
			}()
		}
	}()
	k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes, strings.Replace(mailService, "https://login.notes.test/oauth/token", "https://"+silent.Addr().String()+"/token", 1)}})
	owner := k.Open(t, "")
	s, err := owner.SignIns().For(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range tries {
		all.Go(func() {
			short, cancel := context.WithTimeout(t.Context(), 3*time.Second) // which has to reach the provider
			defer cancel()
			if _, err := owner.SignIns().Renew(short, s, app.OAuthClient{ID: "c"}, runtime.NewSecret("refresh")); err == nil {
				t.Error("it gave a grant")
			}
		})
	}
	all.Wait()
	end := time.After(15 * time.Second)
	for i := range tries {
		select {
		case <-ended:
		case <-end:
			t.Fatalf("%d of %d connections are held", tries-i, tries)
		}
	}
}

// A file of roots that could not be read when a grant was to be renewed is read again for the
// next renewal.
func TestRootsThatWereMissingOnceAreReadAgain(t *testing.T) {
	t.Parallel()
	p := &provider{}
	var ahead atomic.Int64
	k := apptest.New(t, apptest.Options{
		Services: []string{apptest.Notes, mailService}, Resolve: []string{"mail.notes.test:443", "login.notes.test:443"},
		Upstream: servicestest.Options{Routes: p.routes()}, Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	owner := k.Open(t, "")
	signIn(t, owner, public, false)
	read := func() apptest.Answer { return k.Do(t, "GET https://mail.notes.test/inbox", "") }
	apptest.Eventually(t, "the key is taken up", func() bool { return read().Status == http.StatusOK })
	roots := filepath.Join(k.Dir, "upstream-ca.pem")
	if err := os.Rename(roots, roots+".away"); err != nil {
		t.Fatal(err)
	}
	ahead.Add(int64(2 * time.Hour))
	if got := read(); got.Problem.Reason != "oauth_refresh_failed" || strings.Contains(got.Body, "upstream-ca") {
		t.Fatalf("without its roots: %d %s", got.Status, got.Body)
	}
	if err := os.Rename(roots+".away", roots); err != nil {
		t.Fatal(err)
	}
	ahead.Add(int64(time.Minute))
	if got := read(); got.Status != http.StatusOK {
		t.Errorf("with its roots: %d %s", got.Status, got.Body)
	}
}

// A company's proxy is the way to the provider too: for the sign-in, for renewals, which are
// refused where it refuses, and for what is given back.
func TestAProviderBehindTheCompanysProxy(t *testing.T) {
	t.Parallel()
	company := egresstest.New(t, egresstest.Options{})
	p := &provider{}
	k := apptest.New(t, apptest.Options{
		Services: []string{apptest.Notes, mailService}, Upstream: servicestest.Options{Routes: p.routes()},
		Config: "proxy:\n  upstream_proxy: http://" + company.Address + "\n",
	})
	company.Route("login.notes.test:443", k.Up.Authority)
	owner := k.Open(t, "")
	signIn(t, owner, public, false)
	if became := owner.GiveBack(t.Context(), "mail"); became != app.GrantGiven {
		t.Errorf("%q", became)
	}
	if got := strings.Join(company.Targets(), " "); got != "login.notes.test:443 login.notes.test:443" {
		t.Errorf("the proxy was asked for %s", got)
	}
}

// A grant that nothing renews: whoever links it hears when it ends, and from then on status, the
// list of services and doctor say what to do.
func TestASignInThatNothingRenews(t *testing.T) {
	t.Parallel()
	clock := runtimetest.NewClock()
	k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes, mailService}, Clock: clock.Now})
	owner := k.Open(t, "")
	ends := clock.Now().Add(time.Hour).UTC().Truncate(time.Second)
	grant := connector.Grant{TokenURL: "https://login.notes.test/oauth/token", ClientID: "c", AccessToken: "a", Obtained: clock.Now().UTC(), Expires: ends}
	secret, err := grant.Seal()
	if err != nil {
		t.Fatal(err)
	}
	linked, err := owner.Link(t.Context(), "mail", secret, false)
	if err != nil || linked.Ends == nil || !linked.Ends.Equal(ends) {
		t.Fatalf("%+v %v", linked, err)
	}
	told := func() (ended []string, finding app.Finding) {
		s, err := owner.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range owner.Doctor(t.Context()) {
			if f.Check == "credentials" {
				finding = f
			}
		}
		return s.Ended, finding
	}
	over := func() (out []string) {
		list, err := owner.ListAvailable(t.Context())
		if err != nil || len(list) != 2 {
			t.Fatal(list, err)
		}
		for _, s := range list {
			if s.SignInOver {
				out = append(out, s.Name)
			}
		}
		return out
	}
	if listed := over(); len(listed) > 0 {
		t.Errorf("listed as over before its end: %v", listed)
	}
	if ended, f := told(); len(ended) > 0 || f.State != "ok" {
		t.Errorf("before its end: %v %+v", ended, f)
	}
	clock.Advance(time.Hour + time.Second)
	if ended, f := told(); !slices.Equal(ended, []string{"mail"}) || f.State != "warn" || f.Fix != "kimbap link mail" || !strings.Contains(f.Said, "sign-in of mail is over") {
		t.Errorf("after its end: %v %+v", ended, f)
	}
	if listed := over(); !slices.Equal(listed, []string{"mail"}) {
		t.Errorf("listed as over after its end: %v", listed)
	}
}

// A provider that gives no new token, as it refuses the client, is told by status and doctor until
// there is one again.
func TestASignInThatIsNotRenewed(t *testing.T) {
	t.Parallel()
	var refuses atomic.Bool
	refuses.Store(true)
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if refuses.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_client"}`)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"a-token-of-here","refresh_token":"r","expires_in":3600}`)
	}))
	t.Cleanup(local.Close)
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes, strings.Replace(mailService, "https://login.notes.test/oauth/token", local.URL, 1)}, Resolve: []string{"mail.notes.test:443"}, Clock: now})
	owner := k.Open(t, "")
	link := func() {
		grant := connector.Grant{TokenURL: local.URL, ClientID: "c", AccessToken: "a", RefreshToken: "r", Obtained: now().UTC(), Expires: now().Add(time.Hour).UTC()}
		secret, err := grant.Seal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := owner.Link(t.Context(), "mail", secret, false); err != nil {
			t.Fatal(err)
		}
	}
	read := func() apptest.Answer { return k.Do(t, "GET https://mail.notes.test/inbox", "") }
	told := func(want ...string) {
		t.Helper()
		apptest.Eventually(t, "status tells of "+strings.Join(want, " "), func() bool { // once the outcome is written
			s, err := owner.Status(t.Context())
			return err == nil && slices.Equal(s.Unrenewed, want)
		})
		for _, f := range owner.Doctor(t.Context()) {
			if f.Check == "credentials" && (f.State == "warn") != (len(want) > 0) {
				t.Errorf("doctor: %+v", f)
			}
		}
	}
	link()
	apptest.Eventually(t, "the key is taken up", func() bool { return read().Status == http.StatusOK })
	told()
	ahead.Add(int64(2 * time.Hour))
	if got := read(); got.Problem.Code != "upstream" || got.Problem.Reason != "oauth_refresh_failed" {
		t.Fatalf("a client that is refused: %d %s", got.Status, got.Body)
	}
	told("mail")
	refuses.Store(false)
	ahead.Add(int64(time.Minute)) // it was left alone for a while
	if got := read(); got.Status != http.StatusOK {
		t.Fatalf("once it is not: %d %s", got.Status, got.Body)
	}
	told()
	refuses.Store(true)
	ahead.Add(int64(2 * time.Hour))
	read()
	told("mail")
	ahead.Add(int64(time.Second))
	link()
	told()
}

// What the provider did not grant is told, in the words of the service file and of who signs in.
func TestASignInThatGrantsLess(t *testing.T) {
	t.Parallel()
	said := atomic.Pointer[string]{}
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"a-token-of-here","refresh_token":"r","scope":"`+*said.Load()+`"}`)
	}))
	t.Cleanup(local.Close)
	k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes, strings.Replace(mailService, "https://login.notes.test/oauth/token", local.URL+"/token", 1)}})
	owner := k.Open(t, "")
	for _, step := range []struct {
		granted string
		asked   []string
		want    string
	}{
		{"mail.read", nil, ""},
		{`\u001b[31m-of-the-provider`, nil, "mail.read"},
		{"mail.write", nil, "mail.read"}, // what was granted before is asked for, and not told
		{"mail.read", []string{"mail.read", "mail.write"}, "mail.write"},
	} {
		said.Store(&step.granted)
		s, err := owner.SignIns().For(t.Context(), "mail")
		if err != nil {
			t.Fatal(err)
		}
		told := ""
		secret, err := owner.SignIns().SignIn(t.Context(), s, app.SignInOptions{
			Client: app.OAuthClient{ID: "c"}, Scopes: step.asked, Show: comesBack(t), Less: func(scopes []string) { told = strings.Join(scopes, " ") },
		})
		if err == nil {
			_, err = owner.Link(t.Context(), "mail", secret, false)
		}
		if err != nil || told != step.want {
			t.Errorf("%s: without %q, %v", step.granted, told, err)
		}
	}
}

package app_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

// lentTo is a client of a server that lends its proxy, for a token.
func lentTo(t *testing.T, base, token string, roots *x509.CertPool) *remote.Client {
	t.Helper()
	c, err := remote.New(remote.Options{URL: base, Token: runtime.NewSecret(token), Roots: roots})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// borrowing is a program whose connections are a server's proxy's. It shows the proxy
// another token than the one that its connections are of.
func borrowing(t *testing.T, k *apptest.Kimbap, there *remote.Client, run, shows string) *http.Client {
	t.Helper()
	transport := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", User: url.User(shows), Host: "proxy.invalid:1"}), TLSClientConfig: k.ClientOf(t, "127.0.0.1:1", "").Transport.(*http.Transport).TLSClientConfig.Clone(),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return there.Borrow(ctx, remote.Loan{Run: run, Address: "127.0.0.1:9"})
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func got(t *testing.T, c *http.Client, path string) (status int, body string) {
	t.Helper()
	answer, err := c.Get("https://" + apptest.Host + path)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// A borrowed connection is its token's, in TLS and in clear, whatever the program shows;
// it ends with the token; and how many requests of a run there were, only its token reads.
func TestABorrowedConnectionIsItsTokens(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		k := apptest.New(t, apptest.Options{})
		o, roots := app.APIOptions{Proxy: true}, (*x509.CertPool)(nil)
		if secure {
			o.Cert, o.Key = certificate(t)
			text, err := os.ReadFile(o.Cert)
			if err != nil {
				t.Fatal(err)
			}
			roots = x509.NewCertPool()
			roots.AppendCertsFromPEM(text)
		}
		base := k.ServeAPI(t, o)
		far, farID := tokenOf(t, k, app.TokenGrant{Agent: "far", Scopes: []string{"notes.get-*"}})
		other, _ := tokenOf(t, k, app.TokenGrant{Agent: "other"})
		there := lentTo(t, base, far, roots)
		program := borrowing(t, k, there, "r1", other)
		mark := k.Mark(t)
		if status, body := got(t, program, "/notes/7"); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		if status, body := got(t, program, "/plain"); status != 403 {
			t.Errorf("outside of the token's scope: %d %s", status, body)
		}
		apptest.Eventually(t, "the records", func() bool { return len(k.Requests(t, mark)) >= 3 })
		for _, r := range k.Requests(t, mark) {
			if !strings.Contains(r.Line, `"agent":"far"`) || r.Surface != "proxy" {
				t.Errorf("recorded as %s", r.Line)
			}
		}
		program.CloseIdleConnections()
		var counts app.Counts
		if err := there.Run(t.Context(), "r1", &counts); err != nil || counts.Requests != 2 || counts.Denied != 1 || counts.Pending != 0 {
			t.Errorf("%+v %v", counts, err)
		}
		impostor := borrowing(t, k, lentTo(t, base, other, roots), "r1", other)
		if status, body := got(t, impostor, "/notes/7"); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		impostor.CloseIdleConnections()
		if err := there.Run(t.Context(), "r1", &counts); err != nil || counts.Requests != 2 {
			t.Errorf("another token's requests count as this one's: %+v %v", counts, err)
		}
		for _, run := range []string{"r1", "r2"} {
			if err := lentTo(t, base, other, roots).Run(t.Context(), run, &counts); runtime.AsError(err).Reason != runtime.ReasonNotFound {
				t.Errorf("the run of another: %v", err)
			}
		}
		if status, body := got(t, program, "/notes/7"); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		if ok, err := k.Open(t, "").RevokeToken(t.Context(), farID); err != nil || !ok {
			t.Fatal(err)
		}
		apptest.Eventually(t, "the end of the token", func() bool { status, _ := got(t, program, "/notes/7"); return status != 200 })
		if _, err := there.Borrow(t.Context(), remote.Loan{Run: "r1", Address: "127.0.0.1:9"}); runtime.CodeOf(err) != runtime.CodeUnauthenticated {
			t.Errorf("borrowed with a token that is gone: %v", err)
		}
	}
}

// What is not quite an upgrade is refused as any page refuses, and opens nothing.
func TestWhoMayBorrowTheProxy(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	base := k.ServeAPI(t, app.APIOptions{Proxy: true})
	c := &api{base, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}}
	token, _ := tokenOf(t, k, app.TokenGrant{})
	good := map[string]string{"Connection": "Upgrade", "Upgrade": "kimbap-proxy", "Kimbap-Run": "r1", "Kimbap-Address": "127.0.0.1:9"}
	ask := func(token, body, name, value string) heard {
		t.Helper()
		var headers []string
		for field, v := range good {
			if field == name {
				v = value
			}
			if v != "" {
				headers = append(headers, field, v)
			}
		}
		if good[name] == "" && name != "" {
			headers = append(headers, name, value)
		}
		return c.ask(t, token, "GET", "/v1/proxy/connection", body, headers...)
	}
	if r := ask(token, "", "", ""); r.Status != 101 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	for _, bad := range []struct {
		token, body, name, value string
		status                   int
	}{
		{"", "", "", "", 401},
		{"kmb_0000000000000000000000000000000000000000000000000000", "", "", "", 401},
		{token, "", "Origin", "https://example.com", 403},
		{token, "", "Sec-Fetch-Site", "same-origin", 403},
		{token, "", "Host", "kimbap.example.com", 421},
		{token, "", "Upgrade", "websocket", 400},
		{token, "", "Upgrade", "", 400},
		{token, "", "Connection", "", 400},
		{token, "", "Kimbap-Run", "", 400},
		{token, "", "Kimbap-Run", "../x", 400},
		{token, "", "Kimbap-Run", strings.Repeat("r", 65), 400},
		{token, "", "Kimbap-Address", "", 400},
		{token, "", "Kimbap-Address", "192.0.2.1:80", 400},
		{token, "", "Kimbap-Address", "localhost:80", 400},
		{token, "{}", "", "", 400},
	} {
		if r := ask(bad.token, bad.body, bad.name, bad.value); r.Status != bad.status {
			t.Errorf("%s: %s: %d %s", bad.name, bad.value, r.Status, r.Body)
		}
	}
	without := k.ServeAPI(t, app.APIOptions{})
	for _, path := range []string{"/v1/proxy", "/v1/proxy/connection", "/v1/proxy/runs/r1"} {
		if r := (&api{without, c.client}).ask(t, token, "GET", path, ""); r.Status != 404 {
			t.Errorf("%s of a server that lends nothing: %d %s", path, r.Status, r.Body)
		}
	}
}

// Connections that were borrowed take none of the API's places.
func TestBorrowedConnectionsLeaveTheAPIItsPlaces(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	base := k.ServeAPI(t, app.APIOptions{Proxy: true})
	token, _ := tokenOf(t, k, app.TokenGrant{})
	there := lentTo(t, base, token, nil)
	for range 300 { // the API has 256
		conn, err := there.Borrow(t.Context(), remote.Loan{Run: "r1", Address: "127.0.0.1:9"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if linked, err := there.Linked(t.Context()); err != nil || len(linked) != 1 || linked[0] != "notes" {
		t.Errorf("%v %v", linked, err)
	}
}

// tokenOfRun is the newest token that was made for a run.
func tokenOfRun(t *testing.T, a *app.App) (found app.Token, ok bool) {
	t.Helper()
	all, err := a.ListTokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(t app.Token) bool { return t.Run != "" })
	if i < 0 {
		return app.Token{}, false
	}
	return all[i], true
}

// What nobody can be asked is denied at once, for the connections that say so alone.
func TestAnUnattendedConnectionWaitsForNobody(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	base := k.ServeAPI(t, app.APIOptions{Proxy: true})
	token, _ := tokenOf(t, k, app.TokenGrant{})
	there := lentTo(t, base, token, nil)
	ask := func(unattended bool) string {
		program := borrowing(t, k, there, "r1", token)
		program.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return there.Borrow(ctx, remote.Loan{Run: "r1", Address: "127.0.0.1:9", Unattended: unattended})
		}
		r, err := http.NewRequestWithContext(t.Context(), "DELETE", "https://"+apptest.Host+"/notes/3", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Prefer", "respond-async")
		answer, err := program.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if said := ask(true); !strings.Contains(said, `"unattended"`) {
		t.Errorf("unattended: %s", said)
	}
	if said := ask(false); !strings.Contains(said, `"approval_pending"`) {
		t.Errorf("attended: %s", said)
	}
	if n := len(k.Up.Requests()); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
}

// A run that goes by a name of its own has a token that is its maker's under that name:
// no scope, group or role more, none of the API, and no longer life.
func TestTheTokenOfANamedRunIsNoWiderThanItsMakers(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	base := k.ServeAPI(t, app.APIOptions{Proxy: true})
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	chief, chiefID := tokenOf(t, k, app.TokenGrant{
		Agent: "chief", Scopes: []string{"notes.get-*", "notes.read-*"}, Roles: []string{"kimbap.admin", "kimbap.operator", "developer"}, Groups: []string{"eu"}, TTL: 10 * time.Minute,
	})
	other, _ := tokenOf(t, k, app.TokenGrant{Agent: "other", Roles: []string{"kimbap.operator"}})
	if _, _, _, err := lentTo(t, base, agent, nil).RunToken(t.Context(), "me"); runtime.AsError(err).Reason != runtime.ReasonNotOperator {
		t.Errorf("by an agent: %v", err)
	}
	there := lentTo(t, base, chief, nil)
	for _, name := range []string{"", "me*", "a b", strings.Repeat("a", 65)} {
		if _, _, _, err := there.RunToken(t.Context(), name); runtime.CodeOf(err) != runtime.CodeInvalidInput {
			t.Errorf("%q: %v", name, err)
		}
	}
	id, token, ttl, err := there.RunToken(t.Context(), "me")
	if err != nil || ttl <= 0 || ttl > 10*time.Minute {
		t.Fatal(ttl, err)
	}
	made, _ := tokenOfRun(t, k.App)
	if made.ID != id || made.Agent != "me" || fmt.Sprint(made.Scopes, made.Roles, made.Groups, made.Creator) != "[notes.get-* notes.read-*] [developer] [eu]token:"+chiefID {
		t.Errorf("%+v", made)
	}
	program := borrowing(t, k, there.As(token), "r1", "")
	mark := k.Mark(t)
	if status, body := got(t, program, "/notes/7"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if r := k.Await(t, mark, 1); !strings.Contains(r[0].Line, `"agent":"me"`) {
		t.Errorf("recorded as %s", r[0].Line)
	}
	if ttl, ok, err := there.Prolong(t.Context(), id); !ok || err != nil || ttl > 10*time.Minute {
		t.Errorf("prolonged: %v %v %v", ttl, ok, err)
	}
	if _, ok, err := lentTo(t, base, other, nil).Prolong(t.Context(), id); ok || err != nil {
		t.Errorf("prolonged by another: %v %v", ok, err)
	}
	for what, c := range map[string]*remote.Client{"itself": there.As(token), "an agent": lentTo(t, base, agent, nil)} {
		if _, ok, err := c.Prolong(t.Context(), id); ok || runtime.AsError(err).Reason != runtime.ReasonNotOperator {
			t.Errorf("prolonged by %s: %v %v", what, ok, err)
		}
	}
	if _, ok, err := there.Prolong(t.Context(), chiefID); ok || err != nil {
		t.Errorf("a token of no run was prolonged: %v %v", ok, err)
	}
	if err := there.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := there.Prolong(t.Context(), id); ok || err != nil {
		t.Errorf("after its end: %v %v", ok, err)
	}
}

// A token that is revoked takes those of the runs that it has made with it.
func TestTheTokenOfANamedRunEndsWithItsMakers(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	there := func(grant app.TokenGrant, base string) (*remote.Client, string) {
		token, id := tokenOf(t, k, grant)
		return lentTo(t, base, token, nil), id
	}
	base := k.ServeAPI(t, app.APIOptions{Proxy: true})
	first, id := there(app.TokenGrant{Agent: "first", Roles: []string{"kimbap.operator"}}, base)
	second, _ := there(app.TokenGrant{Agent: "second", Roles: []string{"kimbap.operator"}}, base)
	_, mine, _, err := first.RunToken(t.Context(), "me")
	if err != nil {
		t.Fatal(err)
	}
	_, other, _, err := second.RunToken(t.Context(), "me")
	if err != nil {
		t.Fatal(err)
	}
	if done, err := k.Open(t, "").RevokeToken(t.Context(), id); !done || err != nil {
		t.Fatal(done, err)
	}
	who := func(token runtime.Secret) error {
		_, err := k.App.Tokens().Identify(t.Context(), runtime.Caller{Token: token})
		return err
	}
	apptest.Within(t, soon, "the end of its run's token", func() bool {
		err := who(mine)
		return err != nil && runtime.AsError(err).Reason == runtime.ReasonTokenRevoked
	})
	if err := who(other); err != nil {
		t.Errorf("that of another maker: %v", err)
	}
}

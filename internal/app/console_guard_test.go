package app_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// What another page has made the browser send decides nothing and shows nothing, though it
// carries the cookie of the session (RA-003, G11).
func TestRA003PagesOfOthersReachNoConsole(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	other := signedIn(t, link())
	id := asked(t, k, http.MethodDelete, "/notes/7", "")
	good := url.Values{"form": {b.get(t, "approvals/"+id).form(t)}}
	accept := "approvals/" + id + "/accept"

	at, _ := url.Parse(b.base)
	for name, send := range map[string]func() page{
		"Origin of another site": func() page { return b.send(t, accept, good, "Origin", "https://evil.test") },
		"Origin of another port": func() page {
			return b.send(t, accept, good, "Origin", "http://127.0.0.1:3000", "Sec-Fetch-Site", "same-site")
		},
		"Origin of another port, old":      func() page { return b.send(t, accept, good, "Origin", "http://127.0.0.1:3000", "Sec-Fetch-Site", "") },
		"Origin: null":                     func() page { return b.send(t, accept, good, "Origin", "null") },
		"cross-site without an Origin":     func() page { return b.send(t, accept, good, "Origin", "", "Sec-Fetch-Site", "cross-site") },
		"no sign of a page at all":         func() page { return b.send(t, accept, good, "Origin", "", "Sec-Fetch-Site", "") },
		"an Origin that only begins so":    func() page { return b.send(t, accept, good, "Origin", "http://"+at.Host+".evil.test") },
		"without the value of the session": func() page { return b.send(t, accept, nil) },
		"the value of another session":     func() page { return b.send(t, accept, url.Values{"form": {other.get(t, "tokens").form(t)}}) },
		"the value in the query":           func() page { return b.send(t, accept+"?form="+url.QueryEscape(good.Get("form")), nil) },
	} {
		send().says(t, http.StatusForbidden)
		if got := b.get(t, "approvals/"+id); !strings.Contains(got.Body, ">pending<") {
			t.Fatalf("%s has decided: %s", name, got.Body)
		}
	}
	for _, kind := range []string{"text/plain", "application/json", "multipart/form-data; boundary=x", ""} {
		b.send(t, accept, good, "Content-Type", kind).says(t, http.StatusUnsupportedMediaType)
	}
	if got := b.do(t, http.MethodGet, accept, nil); got.Status != http.StatusNotFound && got.Status != http.StatusMethodNotAllowed {
		t.Errorf("a link decides: %d %s", got.Status, got.Body)
	}

	// What embeds or reads: nothing but a whole page that somebody goes to, and of that none by itself.
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
		{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Origin", "http://127.0.0.1:3000"},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
	} {
		b.get(t, "trail", headers...).says(t, http.StatusForbidden, "another page")
	}
	led := b.get(t, "approvals/"+id, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	if led.Status != http.StatusOK || strings.Contains(led.Body, "delete-note") || led.Header.Get("Refresh") != "0; url="+at.Path+"approvals/"+id {
		t.Errorf("a link of another site: %d %q %s", led.Status, led.Header.Get("Refresh"), led.Body)
	}
}

// The names that others may have been given (RA-002), what is at no known place, and links
// that were used or are old.
func TestConsoleLetsInOnce(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	k := apptest.New(t, apptest.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	link, _ := openConsole(t, k, "")
	first := link()
	b := newBrowser(t, first)
	_, code, _ := strings.Cut(first, "?code=")

	if got := b.get(t, "approvals"); got.Status != http.StatusSeeOther || !strings.HasSuffix(got.Header.Get("Location"), "/sign-in?next=approvals") {
		t.Errorf("nobody has signed in: %d %s", got.Status, got.Header.Get("Location"))
	}
	b.get(t, "sign-in?code="+code).says(t, http.StatusOK, "signs you in once")
	b.get(t, "sign-in?code="+code).says(t, http.StatusOK, "signs you in once") // looking uses nothing up
	b.send(t, "sign-in", url.Values{"code": {"guessed"}}).says(t, http.StatusUnauthorized, "newest link")
	b.send(t, "sign-in", url.Values{"code": {""}}).says(t, http.StatusUnauthorized)
	b.send(t, "sign-in", url.Values{"code": {code}}, "Origin", "https://evil.test").says(t, http.StatusForbidden)
	b.get(t, "approvals", "Host", "evil.test:8080").says(t, http.StatusMisdirectedRequest)
	got := b.send(t, "sign-in", url.Values{"code": {code}, "next": {"//evil.test/x"}})
	if got.Status != http.StatusSeeOther || !strings.HasSuffix(got.Header.Get("Location"), "/approvals") || !strings.HasPrefix(got.Header.Get("Location"), "/console-") {
		t.Fatalf("%d %s %s", got.Status, got.Header.Get("Location"), got.Body)
	}
	cookie := got.Header.Get("Set-Cookie")
	at, _ := url.Parse(b.base)
	for _, word := range []string{"kimbap-console=", "Path=" + at.Path, "HttpOnly", "SameSite=Strict"} {
		if !strings.Contains(cookie, word) {
			t.Errorf("no %s in %s", word, cookie)
		}
	}
	newBrowser(t, first).send(t, "sign-in", url.Values{"code": {code}}).says(t, http.StatusUnauthorized, "was used")
	b.get(t, "approvals").says(t, http.StatusOK)

	root := &browser{client: b.client, base: at.Scheme + "://" + at.Host + "/"}
	for _, path := range []string{"", "console/", "approvals", "v1/approvals", "console-guessed/approvals"} {
		if got := root.get(t, path); got.Status != http.StatusNotFound {
			t.Errorf("/%s: %d %s", path, got.Status, got.Body)
		}
	}

	second := link()
	ahead.Add(int64(11 * time.Minute))
	_, old, _ := strings.Cut(second, "?code=")
	newBrowser(t, second).send(t, "sign-in", url.Values{"code": {old}}).says(t, http.StatusUnauthorized, "too old")
	ahead.Add(int64(12 * time.Hour))
	if got := b.get(t, "approvals"); got.Status != http.StatusSeeOther {
		t.Errorf("after half a day: %d", got.Status)
	}
}

// Signing out ends the session for everybody who holds its cookie.
func TestConsoleSignOut(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	at, _ := url.Parse(b.base)
	held := b.client.Jar.Cookies(at)
	if got := b.send(t, "sign-out", url.Values{"form": {b.get(t, "tokens").form(t)}}); got.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	b.client.Jar.SetCookies(at, held)
	if got := b.get(t, "tokens"); got.Status != http.StatusSeeOther {
		t.Errorf("its cookie still opens: %d", got.Status)
	}
}

// What agents write is text on every page, whatever it looks like (RA-012), and no page
// lets a script run.
func TestRA012TextOfAgentsIsText(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: "version: 1\nrules:\n  - {name: ask, match: {action: notes.create-note}, then: require_approval}\n"})
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)><a href="javascript:alert(1)">x</a>`
	_, token := tokenOf(t, k, app.TokenGrant{Agent: "agent"})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	answer := k.Do(t, "POST https://"+apptest.Host+"/notes", `{"text":"\"><script>alert(1)</script><img src=x onerror=alert(1)><a href=\"javascript:alert(1)\">x</a>"}`)
	id := answer.Problem.Approval
	if id == "" {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	k.Do(t, "GET https://"+apptest.Host+"/"+url.PathEscape(evil), "")
	form := url.Values{"form": {b.get(t, "tokens").form(t)}, "reason": {evil}}
	shown := b.get(t, "approvals/"+id)
	shown.says(t, http.StatusOK, "<script>alert(1)</script>") // as text
	b.send(t, "approvals/"+id+"/reject", form)
	for _, path := range []string{"approvals", "approvals/" + id, "trail", "trail?text=" + url.QueryEscape(evil), "trail?action=" + url.QueryEscape(evil), "trail?since=" + url.QueryEscape(evil), "tokens", "sign-in?code=" + url.QueryEscape(evil), "approvals/" + url.PathEscape(evil), "nowhere"} {
		got := b.get(t, path)
		for _, raw := range []string{"<script", "<img", `href="javascript:`, " onerror=alert(1)>"} {
			if strings.Contains(got.Body, raw) {
				t.Errorf("%s has %s: %s", path, raw, got.Body)
			}
		}
		policy := got.Header.Get("Content-Security-Policy")
		for _, word := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, word) {
				t.Errorf("%s: no %s in %q", path, word, policy)
			}
		}
		if strings.Contains(policy, "script-src") || strings.Contains(policy, "unsafe-inline") || got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", path, got.Header)
		}
	}
	if b.get(t, "tokens").says(t, http.StatusOK, token); strings.Contains(b.get(t, "trail").Body, apptest.Key) {
		t.Error("the stored credential is on a page")
	}
}

// Beside an API a token signs in, with a role and for its own tenant, and never for what
// it asked for itself; its end is that of its sessions.
func TestConsoleByToken(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	mate, mateID := tokenOf(t, k, app.TokenGrant{Agent: "mate", Roles: []string{runtime.RoleOperator}})
	plain, _ := tokenOf(t, k, app.TokenGrant{Agent: "plain"})
	base := serveWithConsole(t, k, app.APIOptions{})
	enter := func(token string) (*browser, page) {
		b := newBrowser(t, base)
		return b, b.send(t, "sign-in", url.Values{"token": {token}})
	}
	for _, wrong := range []string{"", "kmb_wrong", plain} {
		if _, got := enter(wrong); got.Status != http.StatusUnauthorized && got.Status != http.StatusForbidden || got.Header.Get("Set-Cookie") != "" {
			t.Errorf("%.8q: %d %s", wrong, got.Status, got.Body)
		} else if strings.Contains(got.Body, "proxy URL") || wrong != plain && !strings.Contains(got.Body, "--role kimbap.operator") {
			t.Errorf("%.8q: it says what does not help here: %s", wrong, got.Body)
		}
	}
	b, got := enter(mate)
	if got.Status != http.StatusSeeOther || strings.Contains(got.Header.Get("Set-Cookie"), mate) {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	own := apptest.Send(t, k.Client(t, mate), "DELETE https://"+apptest.Host+"/notes/9", "").Problem.Approval
	form := url.Values{"form": {b.get(t, "tokens").form(t)}}
	b.send(t, "approvals/"+own+"/accept", form).says(t, http.StatusForbidden, "decides nothing that it")
	id := asked(t, k, http.MethodDelete, "/notes/7", "")
	if got := b.send(t, "approvals/"+id+"/accept", form); got.Status != http.StatusSeeOther {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	b.get(t, "approvals/"+id).says(t, http.StatusOK, "token:"+mateID)
	if got := b.get(t, "tokens"); strings.Contains(got.Body, mate) || strings.Contains(got.Body, plain) {
		t.Error("a token's value is on a page")
	}

	if err := k.Open(t, "").CreateTenant(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	theirs := k.OpenAs(t, "acme")
	secret, _, err := theirs.CreateToken(t.Context(), app.TokenGrant{Agent: "them", Scopes: []string{"*"}, Roles: []string{runtime.RoleOperator}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	stranger, _ := enter(secret.Reveal())
	stranger.get(t, "approvals/"+id).says(t, http.StatusNotFound)
	if got := stranger.get(t, "tokens"); strings.Contains(got.Body, mateID) {
		t.Error("tokens of another tenant")
	}
	stranger.send(t, "tokens/"+mateID+"/revoke", url.Values{"form": {stranger.get(t, "tokens").form(t)}}).says(t, http.StatusNotFound)

	b.send(t, "tokens/"+mateID+"/revoke", form)
	apptest.Eventually(t, "the session of a revoked token ends", func() bool { return b.get(t, "approvals").Status != http.StatusOK })
}

// The agents of a proxy do not reach it, whatever they call it, and the API refuses browsers
// as before.
func TestNoProxyLeadsToAConsole(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "egress: {allow: [\"127.0.0.1/32\"]}\n"})
	link, _ := openConsole(t, k, "")
	at, _ := url.Parse(link())
	for _, name := range []string{at.Host, "localhost:" + at.Port()} {
		if answer := k.Do(t, "GET http://"+name+at.RequestURI(), ""); answer.Problem.Code != "egress_denied" {
			t.Errorf("%s: %d %s", name, answer.Status, answer.Body)
		}
	}
	base := serveWithConsole(t, k, app.APIOptions{})
	api, _ := url.Parse(base)
	b := &browser{client: newBrowser(t, base).client, base: api.Scheme + "://" + api.Host + "/"}
	b.get(t, "v1/approvals", "Sec-Fetch-Site", "same-origin").says(t, http.StatusForbidden, "pages of a browser")
	b.get(t, "console/").says(t, http.StatusNotFound) // in clear it is at no place that can be guessed
}

// Whoever looks at what was decided reads who it was, as the header of the page calls them.
func TestTheConsoleNamesWhoDecided(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	ada, adaID := tokenOf(t, k, app.TokenGrant{Agent: "ada", Roles: []string{runtime.RoleOperator}})
	api := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{Agent: "ci"})
	id := api.ask(t, agent, "POST", "/v1/actions/notes/delete-note:execute", `{"input":{"id":3}}`).problem(t).ApprovalID
	b := newBrowser(t, serveWithConsole(t, k, app.APIOptions{}))
	b.send(t, "sign-in", url.Values{"token": {ada}})
	form := b.get(t, "tokens").form(t)
	b.send(t, "approvals/"+id+"/accept", url.Values{"form": {form}, "also": {"10m"}})
	b.get(t, "approvals/"+id).says(t, http.StatusOK, "Decided by <b>ada ("+adaID+")</b>")
	short := `title="ada (` + adaID + `)">ada <span class="dim">…` + adaID[len(adaID)-4:] + `</span>`
	for _, path := range []string{"approvals", "trail?text=" + id + "&kind=event"} {
		b.get(t, path).says(t, http.StatusOK, short)
	}
	if got := api.ask(t, ada, "POST", "/v1/tokens", `{"agent":"child","scopes":["*"],"ttl":"30m"}`); got.Status != http.StatusCreated {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	b.get(t, "tokens").says(t, http.StatusOK, "by <span class=\"who\" "+short)
}

// Over TLS the place is known, so that a message can link to it, and the cookie is bound to
// the host by the browser itself.
func TestConsoleOverTLS(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	cert, key := certificate(t)
	mate, _ := tokenOf(t, k, app.TokenGrant{Agent: "mate", Roles: []string{runtime.RoleOperator}})
	base := serveWithConsole(t, k, app.APIOptions{Cert: cert, Key: key})
	if !strings.HasPrefix(base, "https://") || !strings.HasSuffix(base, "/console/") {
		t.Fatal(base)
	}
	b := newBrowser(t, base)
	trusting(t, b, cert)
	id := asked(t, k, http.MethodDelete, "/notes/7", "")
	root := &browser{client: b.client, base: strings.TrimSuffix(base, "console/")}
	if got := root.get(t, "console"); got.Status != http.StatusSeeOther || got.Header.Get("Location") != "/console/" {
		t.Errorf("without the slash: %d %s", got.Status, got.Body)
	}
	root.get(t, "console", "Host", "evil.test").says(t, http.StatusMisdirectedRequest)
	got := b.get(t, "approvals/"+id)
	if to := got.Header.Get("Location"); to != "/console/sign-in?next=approvals%2F"+id {
		t.Fatalf("%d %s", got.Status, to)
	}
	in := b.send(t, "sign-in", url.Values{"token": {mate}, "next": {"approvals/" + id}})
	cookie := in.Header.Get("Set-Cookie")
	if in.Header.Get("Location") != "/console/approvals/"+id || !strings.HasPrefix(cookie, "__Host-kimbap-console=") || !strings.Contains(cookie, "Secure") || !strings.Contains(cookie, "Path=/;") {
		t.Errorf("%d %s %s", in.Status, in.Header.Get("Location"), cookie)
	}
	b.get(t, "approvals/"+id).says(t, http.StatusOK, "notes.delete-note")
	at, _ := url.Parse(b.base)
	b.send(t, "approvals/"+id+"/accept", url.Values{"form": {b.get(t, "tokens").form(t)}}, "Origin", "http://"+at.Host).says(t, http.StatusForbidden)
}

// Behind a proxy in which TLS ends, what is seen from outside counts: the place that a message
// can link to, the cookie that goes to no port in clear, and one origin, which is https.
func TestConsoleBehindTLS(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "serve: {url: 'https://Kimbap.test:443/'}\n"})
	mate, _ := tokenOf(t, k, app.TokenGrant{Agent: "mate", Roles: []string{runtime.RoleOperator}})
	listening := make(chan string, 1)
	if base := serveWithConsole(t, k, app.APIOptions{Ready: func(url, _ string) { listening <- url }}); base != "https://kimbap.test/console/" {
		t.Fatal(base)
	}
	at := <-listening
	b := newBrowser(t, at+"/console/")
	id := asked(t, k, http.MethodDelete, "/notes/7", "")
	if got := b.get(t, "approvals/"+id, "Host", "kimbap.test"); got.Header.Get("Location") != "/console/sign-in?next=approvals%2F"+id {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	token := url.Values{"token": {mate}, "next": {"approvals/" + id}}
	for _, origin := range []string{"http://kimbap.test", "https://kimbap.test:8443", at, "null"} {
		b.send(t, "sign-in", token, "Host", "kimbap.test", "Origin", origin).says(t, http.StatusForbidden, "another page sent this")
	}
	in := b.send(t, "sign-in", token, "Host", "kimbap.test", "Origin", "https://kimbap.test")
	cookie := in.Header.Get("Set-Cookie")
	if in.Status != http.StatusSeeOther || !strings.HasPrefix(cookie, "__Host-kimbap-console=") || !strings.Contains(cookie, "Secure") || !strings.Contains(cookie, "Path=/;") {
		t.Errorf("%d %s", in.Status, cookie)
	}
	b.get(t, "approvals", "Host", "other.test").says(t, http.StatusMisdirectedRequest)
}

// trusting has a browser trust one certificate.
func trusting(t testing.TB, b *browser, cert string) {
	t.Helper()
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	b.client.Transport = transport
}

// Only this machine reaches the owner's.
func TestConsoleOfTheOwnerIsOnLoopback(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	for _, at := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:80", "console"} {
		err := k.Open(t, "").ServeConsole(t.Context(), app.ConsoleOptions{Listen: at, Link: func(string, string) {}})
		if e := runtime.AsError(err); e.Reason != runtime.ReasonInsecureScheme {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// serveWithConsole serves the API with its console until the test ends, and returns where
// the console is.
func serveWithConsole(t testing.TB, k *apptest.Kimbap, o app.APIOptions) string {
	t.Helper()
	a := k.Open(t, "serve")
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	o.Listen, o.Console = "127.0.0.1:0", true
	told := o.Ready
	o.Ready = func(url, pages string) {
		if told != nil {
			told(url, pages)
		}
		ready <- pages
	}
	go func() { done <- a.ServeAPI(ctx, o) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	select {
	case at := <-ready:
		return at
	case err := <-done:
		done <- err
		t.Fatalf("serve: %v", err)
	}
	return ""
}

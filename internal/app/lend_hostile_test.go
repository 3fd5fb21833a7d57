package app_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

// lentConn is one borrowed connection, spoken to by hand.
type lentConn struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func borrowed(t *testing.T, there *remote.Client) *lentConn {
	t.Helper()
	conn, err := there.Borrow(t.Context(), remote.Loan{Run: "r1", Address: "127.0.0.1:9"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &lentConn{t, conn, bufio.NewReader(conn)}
}

// says sends a head and returns the answer to it.
func (c *lentConn) says(head string) (status int, body string) {
	c.t.Helper()
	if _, err := io.WriteString(c, head); err != nil {
		c.t.Fatal(err)
	}
	method, _, _ := strings.Cut(head, " ")
	answer, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("%.60q: %v", head, err)
	}
	if answer.StatusCode == 200 && method == "CONNECT" {
		return 200, ""
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// A borrowed connection leads to no page of the server that lends it, however the
// request is written and whatever token it shows.
func TestABorrowedConnectionDoesNotLeadToTheServerItself(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "egress: {allow: [127.0.0.0/8]}\n"})
	base := k.ServeAPI(t, app.APIOptions{Proxy: true})
	self := strings.TrimPrefix(base, "http://")
	_, port, _ := net.SplitHostPort(self)
	token, _ := tokenOf(t, k, app.TokenGrant{})
	chief, _ := tokenOf(t, k, app.TokenGrant{Roles: []string{runtime.RoleAdmin}})
	there := lentTo(t, base, token, nil)
	show := "Authorization: Bearer " + chief + "\r\nProxy-Authorization: Bearer " + chief + "\r\n\r\n"
	for _, head := range []string{
		"GET /v1/tokens HTTP/1.1\r\nHost: " + self + "\r\n",
		"GET /v1/tokens HTTP/1.1\r\nHost: localhost\r\n",
		"GET /v1/proxy/connection HTTP/1.1\r\nHost: " + self + "\r\nConnection: Upgrade\r\nUpgrade: kimbap-proxy\r\nKimbap-Run: r1\r\nKimbap-Address: 127.0.0.1:9\r\n",
		"GET http://" + self + "/v1/tokens HTTP/1.1\r\nHost: " + self + "\r\n",
		"GET http://localhost:" + port + "/v1/tokens HTTP/1.1\r\nHost: localhost:" + port + "\r\n",
		"GET http://[::ffff:127.0.0.1]:" + port + "/v1/tokens HTTP/1.1\r\nHost: [::ffff:127.0.0.1]:" + port + "\r\n",
		"GET http://127.1:" + port + "/v1/tokens HTTP/1.1\r\nHost: 127.1:" + port + "\r\n",
		"GET http://" + self + "/v1/tokens HTTP/1.1\r\nHost: " + apptest.Host + "\r\n",
		"POST http://" + self + "/v1/actions/notes/get-note:execute HTTP/1.1\r\nHost: " + self + "\r\nContent-Length: 0\r\n",
		"CONNECT " + self + " HTTP/1.1\r\nHost: " + self + "\r\n",
		"CONNECT localhost:" + port + " HTTP/1.1\r\nHost: localhost:" + port + "\r\n",
	} {
		if status, body := borrowed(t, there).says(head + show); status < 400 || status >= 500 || strings.Contains(body, "tok_") {
			t.Errorf("%s%d %s", head, status, body)
		}
	}
}

// Host fields that name another place than the request or its tunnel reach nobody.
func TestABorrowedConnectionIsForOneHost(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	base := k.ServeAPI(t, app.APIOptions{Proxy: true})
	token, _ := tokenOf(t, k, app.TokenGrant{})
	there := lentTo(t, base, token, nil)
	for _, head := range []string{
		"CONNECT " + apptest.Authority + " HTTP/1.1\r\nHost: other.test:443\r\n\r\n",
		"CONNECT " + apptest.Authority + " HTTP/1.1\r\nHost: " + apptest.Authority + "\r\nHost: other.test\r\n\r\n",
		"CONNECT " + apptest.Host + " HTTP/1.1\r\nHost: " + apptest.Host + "\r\n\r\n",
		"CONNECT http://" + apptest.Authority + "/ HTTP/1.1\r\nHost: " + apptest.Authority + "\r\n\r\n",
		"CONNECT user@" + apptest.Authority + " HTTP/1.1\r\nHost: " + apptest.Authority + "\r\n\r\n",
		"GET http://" + apptest.Host + "/notes/1 HTTP/1.1\r\nHost: " + apptest.Host + "\r\n\r\n", // in clear
		"GET http://other.test/ HTTP/1.1\r\nHost: a b\r\n\r\n",
		"GET https://" + apptest.Host + "/notes/1 HTTP/1.1\r\nHost: " + apptest.Host + "\r\n\r\n",
		"GET /notes/1 HTTP/1.1\r\nHost: " + apptest.Host + "\r\n\r\n",
	} {
		if status, body := borrowed(t, there).says(head); status < 400 || status >= 500 {
			t.Errorf("%s%d %s", head, status, body)
		}
	}
	if n := len(k.Up.Requests()); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
}

// A token of another tenant, or without a scope for what is asked, is refused by the
// lent proxy as by any other: no credential leaves, and no run of others is seen.
func TestABorrowedConnectionStaysInItsTenantAndScope(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	base := k.ServeAPI(t, app.APIOptions{Proxy: true})
	if err := k.Open(t, "").CreateTenant(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	secret, _, err := k.OpenAs(t, "acme").CreateToken(t.Context(), app.TokenGrant{Agent: "theirs", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ours, _ := tokenOf(t, k, app.TokenGrant{})
	useless, _ := tokenOf(t, k, app.TokenGrant{Scopes: []string{"elsewhere.*"}})
	program := borrowing(t, k, lentTo(t, base, ours, nil), "r1", "")
	if status, body := got(t, program, "/notes/7"); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := got(t, borrowing(t, k, lentTo(t, base, useless, nil), "r1", ours), "/notes/7"); status != 403 {
		t.Errorf("without a scope: %d %s", status, body)
	}
	before := len(k.Up.Requests())
	there := lentTo(t, base, secret.Reveal(), nil)
	abroad := borrowing(t, k, there, "r1", ours)
	apptest.Eventually(t, "the tenant's policy", func() bool { status, _ := got(t, abroad, "/notes/7"); return status == 200 })
	sent := k.Up.Requests()[before:]
	if len(sent) == 0 {
		t.Error("the upstream saw nothing of the tenant's")
	}
	for _, r := range sent { // it has no key of its own
		if key := r.Header.Get("Authorization"); key != "" {
			t.Errorf("%s went out with %q", r.Target, key)
		}
	}
	var counts app.Counts
	if err := there.Run(t.Context(), "r1", &counts); runtime.AsError(err).Reason != runtime.ReasonNotFound {
		t.Errorf("it sees a run of another tenant: %+v %v", counts, err)
	}
}

// An answer in plain HTTP that flows to a program elsewhere ends within moments when
// its token is revoked, and does not look complete.
func TestABorrowedConnectionEndsWithItsTokenInPlainHTTP(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "egress: {allow: [127.0.0.0/8]}\n"})
	base := k.ServeAPI(t, app.APIOptions{Proxy: true})
	flowing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer flowing.Close()
	token, id := tokenOf(t, k, app.TokenGrant{})
	c := borrowed(t, lentTo(t, base, token, nil))
	if _, err := io.WriteString(c, "GET "+flowing.URL+"/ HTTP/1.1\r\nHost: "+strings.TrimPrefix(flowing.URL, "http://")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(c.r, nil)
	if err != nil || answer.StatusCode != 200 {
		t.Fatal(answer, err)
	}
	if _, err := io.ReadFull(answer.Body, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if ok, err := k.Open(t, "").RevokeToken(t.Context(), id); err != nil || !ok {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if late := (net.Error)(nil); err == nil || errors.As(err, &late) && late.Timeout() {
		t.Errorf("it ended with %v", err)
	}
}

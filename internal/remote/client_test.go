package remote

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

const token = "kmb_a-token-that-stays-here"

// client talks to a server, as its user configured it.
func client(t *testing.T, url string, roots *x509.CertPool) *Client {
	t.Helper()
	c, err := New(Options{URL: url, Token: runtime.NewSecret(token), Roots: roots})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// served is a server that answers as it is told.
func served(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s
}

// However a server answers, it is told in words and soon, and nothing follows from it.
func TestServersThatAreNoKimbap(t *testing.T) {
	elsewhere := atomic.Int32{}
	other := served(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	problem := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", runtime.ProblemType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		code   runtime.Code
		msg    string
	}{
		{"a page", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, runtime.CodeUpstream, "does not answer as a kimbap does"},
		{"an endless answer", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, runtime.CodeUpstream, "too long"},
		{"an endless head", func(w http.ResponseWriter, _ *http.Request) {
			for i := range 4096 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 64))
			}
		}, "", "did not answer"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/v1/proxy", http.StatusTemporaryRedirect)
		}, runtime.CodeUpstream, "answered 307"},
		{"no page", problem(404, `{"code":"invalid_input","reason":"not_found","detail":"there is no such page"}`), runtime.CodeInvalidInput, "lends no proxy"},
		{"another token", problem(401, `{"code":"unauthenticated","detail":"the token is not known"}`), runtime.CodeUnauthenticated, "the token is not known"},
		{"an error of a proxy before it", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) }, runtime.CodeUpstream, "answered 502"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, _, err := client(t, served(t, c.answer).URL, nil).Proxy(t.Context())
			if err == nil || c.code != "" && runtime.CodeOf(err) != c.code || !strings.Contains(err.Error()+runtime.AsError(err).Msg, c.msg) {
				t.Errorf("%s: %v", root, err)
			}
			if strings.Contains(fmt.Sprint(err), token) {
				t.Error("the token is in the error")
			}
		})
	}
	if elsewhere.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

// Who wrote https:// for http://, or the other way round, is told so, and that nothing was sent
// where nothing was.
func TestTheOtherSchemeIsSaid(t *testing.T) {
	plain := served(t, func(http.ResponseWriter, *http.Request) {})
	secure := httptest.NewTLSServer(plain.Config.Handler)
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	closes := served(t, func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = conn.Close()
		}
	})
	for _, c := range []struct {
		url, msg, hint string
		uncertain      bool
	}{
		{strings.Replace(plain.URL, "http:", "https:", 1), "does not speak TLS", "write http://", false},
		{strings.Replace(secure.URL, "https:", "http:", 1), "wants TLS", "write https://", false},
		{closes.URL, "did not answer", "perhaps it wants https://", true},
	} {
		_, err := client(t, c.url, nil).Do(t.Context(), http.MethodPost, "/v1/exec", map[string]any{})
		if e := runtime.AsError(err); !strings.Contains(e.Msg, c.msg) || !strings.Contains(e.Hint, c.hint) || Uncertain(err) != c.uncertain || strings.Contains(e.Hint, "see whether it was done") != c.uncertain {
			t.Errorf("%s: %v, %q", c.url, err, e.Hint)
		}
	}
}

// Of what a server refuses, the hint for a client of MCP, who is behind the command and has no
// flags, comes along.
func TestBothHintsComeAlong(t *testing.T) {
	s := served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"code":"invalid_input","detail":"no","hint":"--for 10m","ask":"for: 10m"}`)
	})
	_, _, err := client(t, s.URL, nil).Proxy(t.Context())
	if e := runtime.AsError(err); e.Hint != "--for 10m" || e.Ask != "for: 10m" {
		t.Errorf("%q, %q", e.Hint, e.Ask)
	}
}

// A server that says nothing is waited for as long as is said, not for ever.
func TestASilentServerIsGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	silent := served(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, _, err := client(t, silent.URL, nil).Proxy(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c := client(t, silent.URL, nil)
	if err := c.late(t.Context(), context.DeadlineExceeded); runtime.CodeOf(err) != runtime.CodeTimeout {
		t.Error(err)
	}
}

// The token goes in clear to this machine only, whatever a name was made to mean, and
// never to who cannot prove to be the server.
func TestTheTokenGoesToTheServerAlone(t *testing.T) {
	for _, url := range []string{"http://kimbap.example.com", "http://192.0.2.1:8080", "http://127.0.0.1.example.com", "http://u:p@127.0.0.1", "ftp://127.0.0.1", "http://127.0.0.1/?x", "//127.0.0.1", ""} {
		if _, err := New(Options{URL: url, Token: runtime.NewSecret(token)}); runtime.CodeOf(err) != runtime.CodeInvalidInput {
			t.Errorf("%s: %v", url, err)
		}
	}
	// localhost, where somebody's hosts file or DNS has it elsewhere: what is dialled is
	// another machine's address.
	c := client(t, "http://localhost:8080", nil)
	conn, err := c.dial(t.Context(), "tcp", "192.0.2.1:8080")
	if err == nil || !strings.Contains(err.Error(), "in clear") {
		t.Errorf("%v %v", conn, err)
	}
	for address, here := range map[string]bool{"127.0.0.1:80": true, "[::1]:80": true, "[::ffff:127.0.0.1]:80": true, "10.0.0.1:80": false, "[::ffff:10.0.0.1]:80": false, "[fe80::1%lo]:80": false, "x": false} {
		if err := onlyHere("tcp", address, nil); (err == nil) != here {
			t.Errorf("%s: %v", address, err)
		}
	}
	shown := atomic.Int32{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			shown.Add(1)
		}
	}))
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	stranger := client(t, s.URL, nil)
	_, _, err = stranger.Proxy(t.Context())
	if e := runtime.AsError(err); e.Code != runtime.CodeUpstreamTLS || e.Hint == "" {
		t.Errorf("%v", err)
	}
	if _, err := stranger.Borrow(t.Context(), Loan{Run: "r", Address: "127.0.0.1:1"}); runtime.CodeOf(err) != runtime.CodeUpstreamTLS {
		t.Errorf("%v", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	named := client(t, strings.Replace(s.URL, netip.MustParseAddrPort(s.Listener.Addr().String()).Addr().String(), "localhost", 1), roots)
	if _, err := named.Borrow(t.Context(), Loan{Run: "r", Address: "127.0.0.1:1"}); runtime.CodeOf(err) != runtime.CodeUpstreamTLS { // it is for another name
		t.Errorf("%v", err)
	}
	if shown.Load() > 0 {
		t.Error("the token was shown to a server that proved nothing")
	}
}

// An answer that is not quite an upgrade opens nothing.
func TestOnlyAnUpgradeIsBorrowed(t *testing.T) {
	for name, answer := range map[string]string{
		"another protocol":  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"a word too early":  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: kimbap-proxy\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
		"not an upgrade":    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"a redirect":        "HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n",
		"no HTTP":           "SSH-2.0-OpenSSH_9.2\r\n",
		"an endless head":   "HTTP/1.1 101 Switching Protocols\r\nX: " + strings.Repeat("x", 1<<20),
		"nothing":           "",
		"no word of nobody": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: kimbap-proxy\r\n\r\n", // a server that would ask
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4<<10))
				_, _ = io.WriteString(conn, answer)
			}()
			conn, err := client(t, "http://"+ln.Addr().String(), nil).Borrow(t.Context(), Loan{Run: "r", Address: "127.0.0.1:1", Unattended: name == "no word of nobody"})
			if err == nil {
				_ = conn.Close()
				t.Error("it was opened")
			}
			_ = ln.Close()
			<-done
		})
	}
}

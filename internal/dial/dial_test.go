package dial_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/dial"
	"github.com/kimbap-run/kimbap/proxy/egress"
	"github.com/kimbap-run/kimbap/proxy/egress/egresstest"
	"github.com/kimbap-run/kimbap/runtime"
)

// dialer is one over a guard that has these options, and none of our own ports but own.
func dialer(t *testing.T, o egress.Options, own ...netip.AddrPort) dial.Dialer {
	t.Helper()
	o.Private, o.Own = egress.ModeAuto, func() []netip.AddrPort { return own }
	guard, err := egress.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return dial.Dialer{Guard: egress.NewLive(guard)}
}

// breaking is a proxy that reads something of a handshake and breaks the connection off: with a
// reset, or by an end.
func breaking(t *testing.T, resets bool) *egress.Via {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4<<10)) // all of the hello: what is left unread makes any end a reset
			if resets {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
			_ = c.Close()
		}
	}()
	return &egress.Via{Authority: ln.Addr().String(), TLS: &tls.Config{MinVersion: tls.VersionTLS12}}
}

func TestRefusalsAreThePipelinesErrors(t *testing.T) {
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	at := up.Listener.Addr().String()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // its connections wait to be accepted
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	hangs := &egress.Via{Authority: silent.Addr().String(), TLS: &tls.Config{MinVersion: tls.VersionTLS12}}
	secured := httptest.NewTLSServer(http.NotFoundHandler())
	defer secured.Close()
	foreign := &egress.Via{Authority: secured.Listener.Addr().String(), TLS: &tls.Config{MinVersion: tls.VersionTLS12}}
	closed := egresstest.New(t, egresstest.Options{User: "somebody", Password: "else"})
	for about, c := range map[string]struct {
		dialer    dial.Dialer
		authority string
		code      runtime.Code
		says      string
	}{
		"a private address":        {dialer(t, egress.Options{}), "10.0.0.1:443", runtime.CodeEgressDenied, "may not be reached through kimbap"},
		"one of ours":              {dialer(t, egress.Options{}, netip.MustParseAddrPort(at)), at, runtime.CodeEgressDenied, "kimbap itself"},
		"a proxy that wants a key": {dialer(t, egress.Options{Via: &egress.Via{Authority: closed.Address}}), "example.com:443", runtime.CodeUpstream, "407"},
		"a proxy that hangs":       {dialer(t, egress.Options{Via: hangs, Timeout: 50 * time.Millisecond}), "example.com:443", runtime.CodeTimeout, "did not answer in time"},
		"a proxy that resets":      {dialer(t, egress.Options{Via: breaking(t, true)}), "example.com:443", runtime.CodeUpstream, "cannot be reached"},
		"a proxy that ends":        {dialer(t, egress.Options{Via: breaking(t, false)}), "example.com:443", runtime.CodeUpstreamTLS, "not one to trust"},
		"a proxy nobody knows":     {dialer(t, egress.Options{Via: foreign}), "example.com:443", runtime.CodeUpstreamTLS, "not one to trust: no authority"},
	} {
		_, _, _, err := c.dialer.Dial(t.Context(), c.authority, false, true)
		if e := runtime.AsError(err); e.Code != c.code || !strings.Contains(e.Msg, c.says) {
			t.Errorf("%s: %v", about, err)
		}
	}
}

// A redirect is an answer, and who answers has proved who it is.
func TestAClientGoesNoFurther(t *testing.T) {
	asked := 0
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/again", http.StatusFound)
	}))
	defer up.Close()
	roots := x509.NewCertPool()
	roots.AddCert(up.Certificate())
	d := dialer(t, egress.Options{})
	trusting := d.Client(time.Minute, func() (*tls.Config, error) { return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil })
	answer, err := trusting.Get(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusFound || asked != 1 {
		t.Errorf("status %d, %d requests", answer.StatusCode, asked)
	}
	if _, err := d.Client(time.Minute, func() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS12}, nil }).Get(up.URL); err == nil {
		t.Error("nobody signed its certificate")
	}
	gone := errors.New("upstream.ca_file is gone")
	if _, err := d.Client(time.Minute, func() (*tls.Config, error) { return nil, gone }).Get(up.URL); !errors.Is(err, gone) {
		t.Errorf("without roots: %v", err)
	}
	if asked != 1 {
		t.Errorf("%d requests", asked)
	}
}

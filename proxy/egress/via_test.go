package egress

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/proxy/egress/egresstest"
)

const (
	companyUser     = "agent"
	companyPassword = "canary-c7d1:with a colon"
)

// company is a guard behind the proxy of a company. Its resolver knows the
// proxy's name only through the table of names.
func company(t *testing.T, o Options, p *egresstest.Proxy) (*Guard, *names) {
	t.Helper()
	if o.Via == nil {
		o.Via = &Via{Authority: p.Address, Authorization: func() string { return egresstest.Basic(companyUser, companyPassword) }}
	}
	g, n, _ := guard(t, o)
	g.dialer = &net.Dialer{}
	return g, n
}

// echo is an upstream that says back what it is told.
func echo(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return ln.Addr().String()
}

// talk says something over the connection and wants to hear it back.
func talk(t *testing.T, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "hello" {
		t.Fatalf("heard %q, %v", got, err)
	}
}

// Connections go through the proxy with its password, whatever the port and
// without asking our resolver for the name of the target.
func TestThroughTheProxy(t *testing.T) {
	up := echo(t)
	p := egresstest.New(t, egresstest.Options{User: companyUser, Password: companyPassword, Routes: map[string]string{
		"api.test:443": up, "api.test:80": up, "93.184.216.34:443": up, "[2606:4700::1]:443": up,
	}})
	g, n := company(t, Options{}, p)
	for _, authority := range []string{"api.test:443", "API.test.:80", "93.184.216.34:443", "[2606:4700::1]:443"} {
		conn, info, err := g.Dial(t.Context(), Request{Authority: authority})
		if err != nil || info.Address != p.Address || info.Private {
			t.Fatalf("%s: %+v %v", authority, info, err)
		}
		talk(t, conn)
	}
	if len(n.asked) > 0 {
		t.Errorf("our resolver was asked for %v", n.asked)
	}
	if want := []string{"api.test:443", "api.test:80", "93.184.216.34:443", "[2606:4700::1]:443"}; !slices.Equal(p.Targets(), want) {
		t.Errorf("the proxy was asked for %v, want %v", p.Targets(), want)
	}
	for _, a := range p.Asked() {
		if a.Method != "CONNECT" || a.Host != a.Target || len(a.Header) != 1 {
			t.Errorf("the proxy was asked %+v", a)
		}
	}
}

// Bytes of an upstream that speaks first are not lost, nor is a 1xx answer
// before the final one taken for it, nor what says how long a body is: there is none.
func TestBytesBehindTheAnswer(t *testing.T) {
	p := egresstest.New(t, egresstest.Options{Raw: map[string]string{
		"smtp.test:443":  "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", 5000) + "\r\n\r\n220 ready\r\n",
		"early.test:443": "HTTP/1.1 102 Wait\r\n\r\nHTTP/1.0 204 Fine\r\nContent-Length: 3\r\n\r\n220 ready\r\n",
		"framed.test:443": "HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n" +
			"Content-Length: 0\r\nContent-Length: 5\r\n\r\n220 ready\r\n",
	}})
	g, _ := company(t, Options{Via: &Via{Authority: p.Address}}, p)
	for _, authority := range []string{"smtp.test:443", "early.test:443", "framed.test:443"} {
		conn, _, err := g.Dial(t.Context(), Request{Authority: authority})
		if err != nil {
			t.Fatalf("%s: %v", authority, err)
		}
		got := make([]byte, 11)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != "220 ready\r\n" {
			t.Errorf("%s: %q %v", authority, got, err)
		}
		talk(t, conn)
	}
	if shown := p.Asked()[0].Header.Get("Proxy-Authorization"); shown != "" {
		t.Errorf("a password that nobody set: %q", shown)
	}
}

// What the guard can tell without resolving it still refuses, before the proxy
// hears of it; what is this host or excepted does not go through the proxy.
func TestTheGuardStillJudges(t *testing.T) {
	up := echo(t)
	p := egresstest.New(t, egresstest.Options{Routes: map[string]string{"10.0.0.5:443": up, "inner.test:443": up}})
	own := func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:7788")} }
	for _, c := range []struct {
		name      string
		options   Options
		authority string
		as        string
		want      string // "via", or as outcome has it
	}{
		{"metadata address", Options{Private: ModeAllow}, "169.254.169.254:80", trusted, "denied metadata"},
		{"metadata in NAT64", Options{Allow: []string{"::/0"}}, "[64:ff9b::a9fe:a9fe]:80", trusted, "denied metadata"},
		{"metadata name", Options{}, "metadata.google.internal:80", trusted, "denied metadata"},
		{"loopback address", Options{}, "127.0.0.1:22", trusted, "denied loopback"},
		{"mapped loopback", Options{}, "[::ffff:127.0.0.1]:443", trusted, "denied loopback"},
		{"embedded loopback", Options{}, "[64:ff9b::7f00:1]:443", trusted, "denied loopback"},
		{"localhost", Options{}, "localhost:443", trusted, "denied loopback"},
		{"below localhost", Options{}, "api.localhost.:443", trusted, "denied loopback"},
		{"unspecified", Options{}, "0.0.0.0:80", trusted, "denied unspecified"},
		{"number", Options{}, "2130706433:443", trusted, "denied special"},
		{"private, no trust", Options{}, "10.0.0.5:443", "", "denied private"},
		{"private, denied", Options{Private: ModeDeny}, "10.0.0.5:443", trusted, "denied private"},
		{"private, trusted", Options{}, "10.0.0.5:443", trusted, "via"},
		{"special", Options{Allow: []string{"198.18.0.0/15"}}, "198.18.0.1:443", trusted, "denied special"},
		{"denied name", Options{Deny: []string{"inner.test"}}, "inner.test:443", trusted, "denied public"},
		{"denied address", Options{Deny: []string{"10.0.0.0/8"}}, "10.0.0.5:443", trusted, "denied private"},
		{"ourselves on the LAN", Options{Private: ModeAllow, Own: own}, "192.168.1.5:7788", trusted, "self"},
		{"ourselves on loopback", Options{Allow: []string{"127.0.0.0/8"}, Own: own}, "localhost:7788", trusted, "self"},
		{"a name that only the proxy can resolve", Options{Private: ModeDeny}, "inner.test:443", "", "via"},

		{"loopback of a service", Options{}, "127.0.0.1:8080", loopback, "→ 127.0.0.1:8080"},
		{"loopback, opened", Options{Allow: []string{"localhost"}}, "localhost:8080", "", "→ 127.0.0.1:8080"},
		{"resolve", Options{Resolve: map[string]string{"inner.test:443": "127.0.0.1:18443"}}, "inner.test:443", "", "→ 127.0.0.1:18443"},
		{"excepted name", Options{Via: &Via{Authority: p.Address, Except: []string{"*.test"}}}, "public.test:443", "", "→ 93.184.216.34:443"},
		{"excepted name that leads inside", Options{Via: &Via{Authority: p.Address, Except: []string{"meta.test"}}}, "meta.test:443", trusted, "denied metadata"},
		{"excepted range", Options{Via: &Via{Authority: p.Address, Except: []string{"10.0.0.0/8"}}}, "10.0.0.5:443", trusted, "→ 10.0.0.5:443"},
		{"excepted range, of a name", Options{Via: &Via{Authority: p.Address, Except: []string{"10.0.0.0/8"}}}, "inner.test:443", "", "via"},
		{"excepted private range", Options{Via: &Via{Authority: p.Address, Except: []string{"10.0.0.0/8"}}}, "10.0.0.5:443", "", "denied private"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.options.Via == nil {
				c.options.Via = &Via{Authority: p.Address}
			}
			g, _, direct := guard(t, c.options)
			g.dialer = &splitter{proxy: p.Address, direct: direct}
			before := len(p.Asked())
			conn, info, err := g.Dial(t.Context(), Request{Authority: c.authority, Trusted: c.as == trusted, Loopback: c.as == loopback})
			got := outcome(conn, info, err)
			if err == nil {
				_ = conn.Close()
			}
			if through := len(p.Asked()) > before; through {
				if info.Address != p.Address || info.Private != (c.authority != "inner.test:443") {
					t.Errorf("info %+v", info)
				}
				got = "via"
			}
			if got != c.want {
				t.Errorf("got %s, want %s (%v)", got, c.want, err)
			}
			if !strings.HasPrefix(got, "→") && len(direct.list()) > 0 {
				t.Errorf("dialled %v directly", direct.list())
			}
		})
	}
}

// splitter reaches the proxy and notes everything else.
type splitter struct {
	proxy  string
	direct *wires
}

func (s *splitter) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if address == s.proxy {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return s.direct.DialContext(ctx, network, address)
}

// Whatever the proxy says to a CONNECT, the error is ours, without the password
// and without the proxy's words.
func TestRefusalsOfTheProxy(t *testing.T) {
	long := "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", 2*maxConnectHead) + "\r\n\r\n"
	p := egresstest.New(t, egresstest.Options{
		User: companyUser, Password: companyPassword,
		Statuses: map[string]int{"forbidden.test:443": 403, "gone.test:443": 503, "choice.test:443": 300, "moved.test:443": 302, "switch.test:443": 101},
		Raw: map[string]string{
			"garbage.test:443": "SSH-2.0-" + egresstest.Basic(companyUser, companyPassword) + "\r\n",
			"field.test:443":   "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "short.test:443": "HTTP/1.1 20 OK\r\n\r\n", "proto.test:443": "HTTP/one 200 OK\r\n\r\n",
			"endless.test:443": strings.Repeat("HTTP/1.1 102 Wait\r\n\r\n", 50), "long.test:443": long,
		},
	})
	silent := egresstest.New(t, egresstest.Options{Mute: true})
	for _, c := range []struct {
		via, password, authority string
		status                   int
		text                     string
	}{
		{p.Address, companyPassword, "forbidden.test:443", 403, "answered CONNECT with 403"},
		{p.Address, companyPassword, "gone.test:443", 503, "503"},
		{p.Address, companyPassword, "choice.test:443", 300, "300"},
		{p.Address, companyPassword, "moved.test:443", 302, "302"},
		{p.Address, companyPassword, "switch.test:443", 101, "101"},
		{p.Address, companyPassword, "nowhere.test:443", 502, "502"},
		{p.Address, companyPassword + " wrong", "forbidden.test:443", 407, "407"},
		{p.Address, companyPassword, "garbage.test:443", 0, "not HTTP"},
		{p.Address, companyPassword, "field.test:443", 0, "not HTTP"},
		{p.Address, companyPassword, "short.test:443", 0, "not HTTP"},
		{p.Address, companyPassword, "proto.test:443", 0, "not HTTP"},
		{p.Address, companyPassword, "endless.test:443", 0, "1xx"},
		{p.Address, companyPassword, "long.test:443", 0, "without an answer"},
		{silent.Address, companyPassword, "api.test:443", 0, "deadline"},
		{"127.0.0.1:1", companyPassword, "api.test:443", 0, "refused"},
		{"no-such-proxy.test:3128", companyPassword, "api.test:443", 0, "resolve no-such-proxy.test"},
	} {
		g, _ := company(t, Options{Timeout: 2 * time.Second, Via: &Via{
			Authority: c.via, Authorization: func() string { return egresstest.Basic(companyUser, c.password) },
		}}, p)
		conn, _, err := g.Dial(t.Context(), Request{Authority: c.authority})
		var failed *ProxyError
		if conn != nil || !errors.As(err, &failed) || failed.Status != c.status || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s via %s: %v", c.authority, c.via, err)
		}
		for _, secret := range []string{companyPassword, "canary", egresstest.Basic(companyUser, c.password)[6:]} {
			if shown := fmt.Sprintf("%v %+v %#v %v %+v %#v", err, err, err, g, g, g); strings.Contains(shown, secret) {
				t.Errorf("%s: the password is shown: %s", c.authority, shown)
			}
		}
	}
}

// A proxy that is kimbap itself would ask itself for ever.
func TestTheProxyIsNotOurself(t *testing.T) {
	p := egresstest.New(t, egresstest.Options{})
	g, _ := company(t, Options{Own: func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort(p.Address)} }}, p)
	if got := outcome(g.Dial(t.Context(), Request{Authority: "api.test:443"})); got != "self" || len(p.Asked()) > 0 {
		t.Errorf("got %s", got)
	}
	g, _, direct := guard(t, Options{
		Via: &Via{Authority: "192.168.1.5:7788"}, Own: func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:7788")} },
		Local: func() ([]netip.Addr, error) { return nil, errors.New("no netlink") },
	})
	if got := outcome(g.Dial(t.Context(), Request{Authority: "api.test:443"})); got != "error" || len(direct.list()) > 0 {
		t.Errorf("not knowing our addresses gives %s, dialled %v", got, direct.list())
	}
}

// An https proxy must prove who it is before it hears the password; TLS to the
// target runs inside.
func TestTLSToTheProxyAndThrough(t *testing.T) {
	proxyCert, proxyRoots := selfSigned(t, "proxy.test")
	upCert, upRoots := selfSigned(t, "api.test")
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{upCert}})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if c, err := ln.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	p := egresstest.New(t, egresstest.Options{
		User: companyUser, Password: companyPassword, Routes: map[string]string{"api.test:443": ln.Addr().String()},
		TLS: &tls.Config{Certificates: []tls.Certificate{proxyCert}},
	})
	_, port, _ := net.SplitHostPort(p.Address)
	dial := func(name string, roots *x509.CertPool) (net.Conn, error) {
		g, n := company(t, Options{Via: &Via{
			Authority: name + ":" + port, TLS: &tls.Config{RootCAs: roots},
			Authorization: func() string { return egresstest.Basic(companyUser, companyPassword) },
		}}, p)
		n.answers[name] = []string{"127.0.0.1"}
		conn, _, err := g.Dial(t.Context(), Request{Authority: "api.test:443"})
		return conn, err
	}
	for name, roots := range map[string]*x509.CertPool{"proxy.test": upRoots, "other.test": proxyRoots} {
		var failed *ProxyError
		if _, err := dial(name, roots); !errors.As(err, &failed) || !failed.TLS {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(p.Asked()); n > 0 {
		t.Errorf("the password went to %d proxies that nobody knows", n)
	}
	conn, err := dial("proxy.test", proxyRoots)
	if err != nil {
		t.Fatal(err)
	}
	inner := tls.Client(conn, &tls.Config{RootCAs: upRoots, ServerName: "api.test"})
	if err := inner.Handshake(); err != nil {
		t.Fatal(err)
	}
	talk(t, inner)
}

// selfSigned makes a certificate for a name and the pool that trusts it.
func selfSigned(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestNewRefusesAProxyThatCannotBe(t *testing.T) {
	for name, via := range map[string]*Via{
		"no address": {}, "no port": {Authority: "proxy.test"}, "a number": {Authority: "127.1:3128"},
		"bad exception": {Authority: "proxy.test:3128", Except: []string{"10.0.0.0/99"}},
	} {
		if g, err := New(Options{Private: ModeAuto, Own: func() []netip.AddrPort { return nil }, Via: via}); err == nil {
			t.Errorf("%s: made %+v", name, g)
		}
	}
}

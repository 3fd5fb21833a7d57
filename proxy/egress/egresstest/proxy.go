// Package egresstest is the proxy of a company, for tests: it speaks CONNECT
// over a real socket, wants a password, says no to some hosts, and tells what it
// was asked. It reaches only the addresses that a test gives it.
//
// It is imported by tests only. Start reading at [New].
package egresstest

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// Options are what a [Proxy] does. The zero Options want no password and reach
// nothing.
type Options struct {
	User, Password string            // demanded when the user is not empty
	Routes         map[string]string // authority → address that it leads to
	Statuses       map[string]int    // authority → status of the refusal
	Raw            map[string]string // authority → all that is answered, byte for byte, before the connection goes on
	Mute           bool              // accept, read, and never answer
	TLS            *tls.Config       // speak TLS to clients; nil: in clear
}

// Asked is one request that came.
type Asked struct {
	Method, Target, Host string
	Header               http.Header
}

// Proxy is a running one.
type Proxy struct {
	Address string // 127.0.0.1:port

	o     Options
	ln    net.Listener
	mu    sync.Mutex
	asked []Asked
	open  []net.Conn
	wait  sync.WaitGroup
}

// New starts a proxy that ends with the test.
func New(t testing.TB, o Options) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.Routes = maps.Clone(o.Routes); o.Routes == nil {
		o.Routes = map[string]string{}
	}
	p := &Proxy{Address: ln.Addr().String(), o: o, ln: ln}
	p.wait.Go(p.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		p.mu.Lock()
		for _, c := range p.open {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wait.Wait()
	})
	return p
}

// Route lets an authority lead to an address from now on.
func (p *Proxy) Route(authority, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.o.Routes[authority] = address
}

// Asked returns what came so far.
func (p *Proxy) Asked() []Asked {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// Targets returns the authorities that were asked for so far.
func (p *Proxy) Targets() []string {
	var out []string
	for _, a := range p.Asked() {
		out = append(out, a.Target)
	}
	return out
}

func (p *Proxy) accept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.hold(c)
		p.wait.Go(func() { p.serve(c) })
	}
}

func (p *Proxy) hold(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, c)
}

func (p *Proxy) serve(c net.Conn) {
	defer c.Close()
	if p.o.TLS != nil {
		c = tls.Server(c, p.o.TLS)
	}
	from := bufio.NewReader(c)
	r, err := http.ReadRequest(from)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, Asked{r.Method, r.RequestURI, r.Host, r.Header})
	p.mu.Unlock()
	shown := r.Header.Get("Proxy-Authorization")
	raw, scripted := p.o.Raw[r.RequestURI]
	switch status, refused := p.o.Statuses[r.RequestURI]; {
	case p.o.Mute:
		_, _ = io.Copy(io.Discard, from)
	case r.Method != http.MethodConnect:
		say(c, http.StatusMethodNotAllowed, "", shown)
	case p.o.User != "" && shown != Basic(p.o.User, p.o.Password):
		say(c, http.StatusProxyAuthRequired, "Proxy-Authenticate: Basic realm=\"company\"\r\n", shown)
	case scripted:
		_, _ = io.WriteString(c, raw)
		_, _ = io.Copy(c, from) // an echo from here on
	case refused:
		say(c, status, "", shown)
	default:
		p.splice(c, from, r.RequestURI, shown)
	}
}

// say refuses, and is careless enough to repeat what it was shown.
func say(c net.Conn, status int, fields, shown string) {
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %d No, %s\r\n%sX-Shown: %s\r\nContent-Length: %d\r\n\r\n%s", status, shown, fields, shown, len(shown), shown)
}

func (p *Proxy) splice(c net.Conn, from io.Reader, authority, shown string) {
	p.mu.Lock()
	address, ok := p.o.Routes[authority]
	p.mu.Unlock()
	if !ok {
		say(c, http.StatusBadGateway, "", shown)
		return
	}
	up, err := net.Dial("tcp", address)
	if err != nil {
		say(c, http.StatusBadGateway, "", shown)
		return
	}
	p.hold(up)
	defer up.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	p.wait.Go(func() { _, _ = io.Copy(up, from); half(up) })
	_, _ = io.Copy(c, up)
	half(c)
}

// half ends one direction.
func half(c net.Conn) {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
}

// Basic is the value of Proxy-Authorization for a user (RFC 7617).
func Basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

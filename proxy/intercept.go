package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/proxy/http1"
)

// recordHandshake is the first byte of a TLS ClientHello (RFC 8446 section 5.1).
const recordHandshake = 0x16

// recordAlert is the first byte of an alert that is not encrypted.
const recordAlert = 0x15

// errNames is a ClientHello for another host than the CONNECT.
var errNames = errors.New("the server name is not the host of the CONNECT")

// newTLS makes the one configuration of the client's side. It is shared by all
// tunnels so that session tickets work from one to the next; the tunnel is
// found through the connection. The hybrid key exchanges are left out: their
// large hello costs more than it gains on a loopback connection.
func (s *Server) newTLS() *tls.Config {
	curves := []tls.CurveID{tls.X25519, tls.CurveP256}
	// With neither certificate nor ticket no handshake comes to its end: crypto/tls says
	// unrecognized_name then (RFC 6066 section 3), and of an error internal_error.
	nameless := &tls.Config{MinVersion: tls.VersionTLS12, CurvePreferences: curves, SessionTicketsDisabled: true}
	return &tls.Config{
		MinVersion:       tls.VersionTLS12,
		NextProtos:       []string{protocolH2, protocolH1},
		CurvePreferences: curves,
		// Asked on every handshake, resumed ones too, which is why the name is
		// checked here and not in GetCertificate.
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			inside, ok := hello.Conn.(*interior)
			if !ok {
				return nil, errNames
			}
			if !sameHost(hello.ServerName, inside.tunnel.authority) {
				inside.name = hello.ServerName
				return nameless, nil
			}
			return nil, nil //nolint:nilnil // crypto/tls: keep the configuration
		},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			inside, ok := hello.Conn.(*interior)
			if !ok {
				return nil, errNames
			}
			leaf, err := s.o.Leaf(inside.tunnel.authority)
			if err != nil {
				return nil, unsigned(inside.tunnel.authority, err)
			}
			inside.shown = true
			return leaf, nil
		},
	}
}

// sameHost reports whether a server name, if one was sent, is that of authority.
func sameHost(name, authority string) bool {
	if name == "" {
		return true
	}
	_, port, err := net.SplitHostPort(authority)
	if err != nil {
		return false
	}
	named, err := classifier.CanonicalAuthority(net.JoinHostPort(name, port), port)
	return err == nil && named == authority
}

// interior is a taken connection inside which a tunnel is opened.
type interior struct {
	*taken
	tunnel *tunnel
	name   string // the server name that was refused; "": none was
	shown  bool   // our certificate, in this handshake: a resumed one shows none
	last   []byte // what the client said last, as far as an alert goes; nil after the handshake

	within atomic.Int64 // what each write has, in ns; 0: there is a deadline, or none

	mu     sync.Mutex     // a reader may have to write too, to renew keys
	held   *[]byte        // records that wait for those behind them; nil: they go at once
	writes http1.Deadline // of the socket, when within is not 0
}

// give gives every write from now on d. A deadline that was set for an answer would
// be over when a client asks for new keys long after it, and a write of TLS that
// fails is the last one. Whoever sets a deadline ends that, also for a write that waits
// already: so does TLS when it is closed.
func (i *interior) give(d time.Duration) { i.within.Store(int64(d)) }

// SetDeadline and SetWriteDeadline implement [net.Conn].
func (i *interior) SetDeadline(t time.Time) error {
	i.give(0)
	return i.taken.SetDeadline(t)
}

func (i *interior) SetWriteDeadline(t time.Time) error {
	i.give(0)
	return i.taken.SetWriteDeadline(t)
}

// send writes to the socket. The caller holds the lock.
func (i *interior) send(p []byte) (int, error) {
	if i.within.Load() == 0 {
		return i.taken.Write(p)
	}
	return insist(p, func() {
		if d := i.within.Load(); d > 0 {
			i.writes.Within(time.Duration(d), i.taken.SetWriteDeadline)
		}
	}, i.taken.Write)
}

// insist writes p, and gives what is left its time again whenever something has moved:
// who reads slowly is not gone, however much we write at once.
func insist(p []byte, arm func(), write func([]byte) (int, error)) (n int, err error) {
	for moved := 1; moved > 0; {
		arm()
		moved, err = write(p[n:])
		if n += moved; !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	return n, err
}

// plainAlert is the length of an alert in clear, in bytes: a header, level and
// description (RFC 8446 sections 5.1 and 6).
const plainAlert = 7

// Read implements [net.Conn].
func (i *interior) Read(p []byte) (int, error) {
	n, err := i.taken.Read(p)
	if i.last != nil {
		i.last = append(i.last, p[max(0, n-plainAlert):n]...)
		i.last = i.last[max(0, len(i.last)-plainAlert):]
	}
	return n, err
}

// Write implements [net.Conn].
func (i *interior) Write(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.held != nil {
		*i.held = append(*i.held, p...)
		return len(p), nil
	}
	return i.send(p)
}

// together sends the records that do writes with one system call. Room is where
// they wait.
func (i *interior) together(room *[]byte, do func() error) (err error) {
	i.mu.Lock()
	*room = (*room)[:0]
	i.held = room
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.held = nil
		if len(*room) > 0 {
			if _, werr := i.send(*room); err == nil {
				err = werr
			}
		}
	}()
	return do()
}

// intercept answers a CONNECT with 200 and gives what is inside to the server.
func (s *Server) intercept(w http.ResponseWriter, r *http.Request, seat *place, t *tunnel) {
	client, err := take(w)
	if err != nil {
		seat.leave()
		return
	}
	client.onClose = seat.leave
	seat.hold(client)
	inside := &interior{taken: client, tunnel: t}
	c, err := s.open(inside)
	if err != nil {
		s.spurned(r, inside, err)
		_ = client.Close()
		return
	}
	_ = client.SetDeadline(time.Time{})
	if c.tunnel.scheme == "https" {
		opened := time.Now()
		c.first = func(err error) {
			if time.Since(opened) < hesitation {
				s.deserted(r, inside, err)
			}
		}
	}
	if streams, ok := s.multiplexed(c); ok {
		s.active.Add(1)
		go func() { defer s.active.Done(); s.serveHTTP2(streams) }()
		return
	}
	if o, ok := w.(*opening); ok {
		o.opened = c
		return
	}
	s.hand(c)
}

// helloSize holds what most clients send at once behind a CONNECT, in bytes: a
// ClientHello with a hybrid key share.
const helloSize = 2 << 10

// open says 200 and finds out what the client speaks: TLS, or cleartext HTTP,
// as some clients do inside CONNECT for http URLs. It has the time of a head,
// and ends with the connection: whoever closes all tunnels ends it too.
func (s *Server) open(inside *interior) (*conn, error) {
	_ = inside.SetDeadline(time.Now().Add(s.o.Limits.HeadTimeout))
	if _, err := io.WriteString(inside, connectionEstablished); err != nil {
		return nil, err
	}
	hello := make([]byte, helloSize)
	n, err := io.ReadAtLeast(inside, hello, 1)
	if err != nil {
		return nil, err
	}
	inside.prefix = append(hello[:n:n], inside.prefix...)
	switch b := hello[0]; {
	case b == recordHandshake:
		client := tls.Server(inside, s.tls)
		inside.last = make([]byte, 0, 2*plainAlert)
		err := client.Handshake()
		if inside.name != "" { // whatever became of it
			err = errNames
		}
		if err != nil {
			return nil, err
		}
		inside.last = nil
		inside.tunnel.scheme = "https"
		return s.inner(client, inside), nil
	case b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z':
		inside.tunnel.scheme = "http"
		return s.inner(inside, inside), nil
	}
	return nil, badHead("neither TLS nor HTTP followed the CONNECT")
}

// inner makes the connection that the server reads the tunnel's requests from.
func (s *Server) inner(c net.Conn, inside *interior) *conn {
	return s.newConn(c, inside.raw, inside.peer, inside.tunnel)
}

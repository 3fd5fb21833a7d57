package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// ServeLed is Serve for connections of programs that know of no proxy, and were
// led here by the network they are in. authority says which host and port a
// connection was meant for; what was meant for none is closed. Each is treated
// as if it had begun with a CONNECT to it.
func (s *Server) ServeLed(ln net.Listener, authority func(c net.Conn) (string, bool)) error {
	return s.serve(&ledListener{ln, authority, false})
}

// Led is ln with the CONNECT before what the clients of its connections say, and
// without the answer to it: so they can be handed on to a proxy that is elsewhere.
// What they say is read once that has said yes; of one that said no it is dropped,
// since it is no request to a proxy.
func Led(ln net.Listener, authority func(c net.Conn) (string, bool)) net.Listener {
	return &ledListener{ln, authority, true}
}

// ledListener puts the CONNECT before what its clients say.
type ledListener struct {
	net.Listener
	authority func(c net.Conn) (string, bool)
	away      bool // the proxy is elsewhere
}

// Accept implements [net.Listener].
func (l *ledListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		to, ok := l.authority(c)
		if !ok {
			_ = c.Close()
			continue
		}
		_, port, _ := net.SplitHostPort(to)
		into := &led{
			Conn: c, plain: port == defaultPorts["http"],
			opening: []byte("CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n\r\n"),
		}
		if l.away {
			into.told = make(chan struct{})
		}
		return into, nil
	}
}

// led is a connection whose client did not say CONNECT and waits for no answer
// to it. A refusal reaches a client that speaks plain HTTP, since that is what
// it asked for in a way; one that speaks TLS gets an alert.
type led struct {
	net.Conn
	plain    bool   // it speaks plain HTTP, to go by the port
	opening  []byte // what is left to read of the CONNECT
	answer   []byte // what there is of the answer to it
	answered bool
	refused  bool // by the alert; what follows it is not for the client

	told   chan struct{} // closed when it was answered, or the connection closed; nil where nothing waits for that
	turned bool          // away; before told is closed
	once   sync.Once
}

// accessDenied is a fatal alert of TLS (RFC 8446, section 6): the client was
// turned away by access control.
var accessDenied = []byte{0x15, 3, 3, 0, 2, 2, 49}

// Read implements [io.Reader].
func (l *led) Read(p []byte) (int, error) {
	if len(l.opening) > 0 {
		n := copy(p, l.opening)
		l.opening = l.opening[n:]
		return n, nil
	}
	if l.told != nil {
		if <-l.told; l.turned { // read all the same: a close over unread bytes takes the answer with it
			_ = l.Conn.SetReadDeadline(time.Now().Add(lingering))
			_, _ = io.Copy(io.Discard, io.LimitReader(l.Conn, 64<<10))
			return 0, io.EOF
		}
	}
	return l.Conn.Read(p)
}

// Write implements [io.Writer].
func (l *led) Write(p []byte) (int, error) {
	if l.refused {
		return len(p), nil
	}
	if l.answered {
		return l.Conn.Write(p)
	}
	if l.answer = append(l.answer, p...); len(l.answer) < len(connectionEstablished) && strings.HasPrefix(connectionEstablished, string(l.answer)) {
		return len(p), nil // there is more to come
	}
	l.answered = true
	rest, opened := bytes.CutPrefix(l.answer, []byte(connectionEstablished))
	if !opened && !l.plain {
		l.refused, rest = true, accessDenied
	}
	if l.answer = nil; len(rest) > 0 {
		if _, err := l.Conn.Write(rest); err != nil {
			return 0, err
		}
	}
	l.tell(!opened)
	return len(p), nil
}

// tell lets what waits for the answer go on.
func (l *led) tell(turned bool) {
	if l.told != nil {
		l.once.Do(func() { l.turned = turned; close(l.told) })
	}
}

// Close implements [net.Conn].
func (l *led) Close() error {
	err := l.Conn.Close()
	l.tell(true)
	return err
}

// CloseWrite ends what the client reads.
func (l *led) CloseWrite() error { return closeWrite(l.Conn) }

// SetLinger implements the like-named method of [net.TCPConn].
func (l *led) SetLinger(sec int) error {
	if tcp, ok := l.Conn.(interface{ SetLinger(sec int) error }); ok {
		return tcp.SetLinger(sec)
	}
	return errors.ErrUnsupported
}

// wasLed reports whether c is such a connection: there is one CONNECT on it, so
// what follows a refusal is no request to a proxy.
func wasLed(c *conn) bool {
	_, is := c.raw.(*led)
	return is
}

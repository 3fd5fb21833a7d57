package proxy

import (
	"bytes"
	"errors"
	"net"
)

// ServeLed is Serve for connections of programs that know of no proxy, and were
// led here by the network they are in. authority says which host and port a
// connection was meant for; what was meant for none is closed. Each is treated
// as if it had begun with a CONNECT to it.
func (s *Server) ServeLed(ln net.Listener, authority func(c net.Conn) (string, bool)) error {
	return s.serve(Led(ln, authority))
}

// Led is ln with the CONNECT before what the clients of its connections say, and
// without the answer to it: so they can be handed on to a proxy that is elsewhere.
func Led(ln net.Listener, authority func(c net.Conn) (string, bool)) net.Listener {
	return &ledListener{ln, authority}
}

// ledListener puts the CONNECT before what its clients say.
type ledListener struct {
	net.Listener
	authority func(c net.Conn) (string, bool)
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
		return &led{
			Conn: c, plain: port == defaultPorts["http"],
			opening: []byte("CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n\r\n"),
		}, nil
	}
}

// led is a connection whose client did not say CONNECT and waits for no answer
// to it. A refusal reaches a client that speaks plain HTTP, since that is what
// it asked for in a way; one that speaks TLS gets an alert.
type led struct {
	net.Conn
	plain    bool   // it speaks plain HTTP, to go by the port
	opening  []byte // what is left to read of the CONNECT
	answered bool
	refused  bool // by the alert; what follows it is not for the client
}

// accessDenied is a fatal alert of TLS (RFC 8446, section 6): the client was
// turned away by access control.
var accessDenied = []byte{0x15, 3, 3, 0, 2, 2, 49}

// Read implements [io.Reader].
func (l *led) Read(p []byte) (int, error) {
	if len(l.opening) == 0 {
		return l.Conn.Read(p)
	}
	n := copy(p, l.opening)
	l.opening = l.opening[n:]
	return n, nil
}

// Write implements [io.Writer].
func (l *led) Write(p []byte) (int, error) {
	if l.refused {
		return len(p), nil
	}
	if l.answered {
		return l.Conn.Write(p)
	}
	l.answered = true
	rest, opened := bytes.CutPrefix(p, []byte(connectionEstablished))
	switch {
	case opened && len(rest) == 0:
		return len(p), nil
	case opened:
		n, err := l.Conn.Write(rest)
		return len(p) - len(rest) + n, err
	case l.plain:
		return l.Conn.Write(p)
	}
	l.refused = true
	if _, err := l.Conn.Write(accessDenied); err != nil {
		return 0, err
	}
	return len(p), nil
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

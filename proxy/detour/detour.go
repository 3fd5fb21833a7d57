// Package detour takes connections of programs that know of no proxy and were led to one by
// the network they are in: it puts before what they say the CONNECT that they did not say,
// and keeps the answer to it from them. So what follows is a tunnel like any other.
//
// It decides nothing, and judges no address: whether a connection may go where it was meant
// to go is for whoever reads the CONNECT.
//
// Start reading at [New] and [Conn].
package detour

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Established is how a proxy says yes to a CONNECT. It has no header fields, least of
// all framing ones (RFC 9110 section 9.3.6).
const Established = "HTTP/1.1 200 Connection established\r\n\r\n"

// New is ln with the CONNECT before what the clients of its connections say, and without
// the answer to it, for a proxy that is here. authority says which host and port a
// connection was meant for; what was meant for none is closed.
func New(ln net.Listener, authority func(c net.Conn) (string, bool)) net.Listener {
	return &listener{ln, authority, false}
}

// Away is New for connections that are handed on to a proxy that is elsewhere.
// What they say is read once that has said yes; of one that said no it is dropped,
// since it is no request to a proxy.
func Away(ln net.Listener, authority func(c net.Conn) (string, bool)) net.Listener {
	return &listener{ln, authority, true}
}

// listener puts the CONNECT before what its clients say.
type listener struct {
	net.Listener
	authority func(c net.Conn) (string, bool)
	away      bool // the proxy is elsewhere
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
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
		into := &Conn{
			Conn: c, plain: port == "80",
			opening: []byte("CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n\r\n"),
		}
		if l.away {
			into.told = make(chan struct{})
		}
		return into, nil
	}
}

// Conn is a connection whose client did not say CONNECT and waits for no answer
// to it. A refusal reaches a client that speaks plain HTTP, since that is what
// it asked for in a way; one that speaks TLS gets an alert.
type Conn struct {
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

// lingering is how long a client that was told no may take to say what is not read.
const lingering = time.Second

// accessDenied is a fatal alert of TLS (RFC 8446, section 6): the client was
// turned away by access control.
var accessDenied = []byte{0x15, 3, 3, 0, 2, 2, 49}

// Read implements [io.Reader].
func (l *Conn) Read(p []byte) (int, error) {
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
func (l *Conn) Write(p []byte) (int, error) {
	if l.refused {
		return len(p), nil
	}
	if l.answered {
		return l.Conn.Write(p)
	}
	if l.answer = append(l.answer, p...); len(l.answer) < len(Established) && strings.HasPrefix(Established, string(l.answer)) {
		return len(p), nil // there is more to come
	}
	l.answered = true
	rest, opened := bytes.CutPrefix(l.answer, []byte(Established))
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
func (l *Conn) tell(turned bool) {
	if l.told != nil {
		l.once.Do(func() { l.turned = turned; close(l.told) })
	}
}

// Close implements [net.Conn].
func (l *Conn) Close() error {
	err := l.Conn.Close()
	l.tell(true)
	return err
}

// CloseWrite ends what the client reads.
func (l *Conn) CloseWrite() error {
	if half, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return l.Conn.Close()
}

// SetLinger implements the like-named method of [net.TCPConn].
func (l *Conn) SetLinger(sec int) error {
	if tcp, ok := l.Conn.(interface{ SetLinger(sec int) error }); ok {
		return tcp.SetLinger(sec)
	}
	return errors.ErrUnsupported
}

//go:build unix

package postgrestest

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// Line is the way to a server over TCP, which can be cut.
type Line struct {
	server *Server
	ln     net.Listener

	mu    sync.Mutex
	state state
	open  map[net.Conn]bool
	turn  *sync.Cond // state has changed
}

type state int

const (
	whole  state = iota
	cut          // new connections are closed at once, as those that were open
	silent       // nothing comes through, in either direction
	deaf         // what the server says next is lost, and the line is cut
)

// Line opens a way to the server, closed with the test.
func (s *Server) Line(t testing.TB) *Line {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Line{server: s, ln: ln, open: map[net.Conn]bool{}}
	l.turn = sync.NewCond(&l.mu)
	var done sync.WaitGroup
	done.Go(func() { l.accept(&done) })
	t.Cleanup(func() {
		_ = ln.Close()
		l.set(cut)
		done.Wait()
	})
	return l
}

// DSN is the address of a database over the line.
func (l *Line) DSN(database string) string {
	return (&url.URL{Scheme: "postgres", User: url.UserPassword(User, Password), Host: l.ln.Addr().String(), Path: "/" + database}).String()
}

// Cut closes all connections, and those that come.
func (l *Line) Cut() { l.set(cut) }

// Silence lets connections come and nothing through.
func (l *Line) Silence() { l.set(silent) }

// LoseReply cuts the line once the server has answered what comes next, and before that
// arrives.
func (l *Line) LoseReply() { l.set(deaf) }

// Mend lets everything through again.
func (l *Line) Mend() { l.set(whole) }

func (l *Line) set(to state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = to
	if to == cut {
		for conn := range l.open {
			_ = conn.Close()
		}
		clear(l.open)
	}
	l.turn.Broadcast()
}

func (l *Line) accept(done *sync.WaitGroup) {
	for {
		conn, err := l.ln.Accept()
		if err != nil {
			return
		}
		if !l.keep(conn) {
			continue
		}
		done.Go(func() { l.carry(conn) })
	}
}

// keep notes a connection, and closes it where the line is cut.
func (l *Line) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == cut {
		_ = conn.Close()
		return false
	}
	l.open[conn] = true
	return true
}

func (l *Line) carry(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	server, err := net.Dial("unix", l.server.socket())
	if err != nil || !l.keep(server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.copy(server, conn, false) })
	l.copy(conn, server, true)
	both.Wait()
}

func (l *Line) copy(to, from net.Conn, replies bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if now := l.wait(); now == deaf && replies && n > 0 {
			l.set(cut)
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait returns when something may go through, and what the state is then.
func (l *Line) wait() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.state == silent {
		l.turn.Wait()
	}
	return l.state
}

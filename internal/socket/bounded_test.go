package socket

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// hands are connections of real sockets that come from where a test says.
type hands struct {
	net.Listener
	from []net.Addr
}

type from struct {
	net.Conn
	at net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.at }

func (h *hands) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	if err != nil || len(h.from) == 0 {
		return conn, err
	}
	at := h.from[0]
	h.from = h.from[1:]
	return from{conn, at}, nil
}

// opened is a bounded listener of so many places, and a clock to advance.
func opened(t *testing.T, most int, sources ...string) (ln net.Listener, dial func() net.Conn, later func(time.Duration)) {
	t.Helper()
	below, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hands{Listener: below}
	for _, s := range sources {
		at, err := net.ResolveTCPAddr("tcp", s)
		if err != nil {
			t.Fatal(err)
		}
		h.from = append(h.from, at)
	}
	var mu sync.Mutex
	now := time.Unix(1e9, 0)
	ln = Bounded(h, Bounds{Most: most, Patience: time.Minute, Clock: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	t.Cleanup(func() { _ = ln.Close() })
	dial = func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", below.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	return ln, dial, func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
}

func accepted(t *testing.T, ln net.Listener) *Conn {
	t.Helper()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*Conn)
}

// ended reports whether the other end has closed.
func ended(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err := c.Read(make([]byte, 1))
	return err == io.EOF
}

// kept is a context of a connection as a server makes it, and the server.
func kept(t *testing.T, c *Conn) (keep func() bool, idle func()) {
	t.Helper()
	one, rest := keeper(t)
	return func() bool { return one(c, c.RemoteAddr().String()) == nil }, func() { rest(c) }
}

// The connection that waits for a request for longest gives way, and does nothing more;
// one whose caller is known does not.
func TestTheLongestSilentGivesWay(t *testing.T) {
	ln, dial, later := opened(t, 3)
	var theirs []net.Conn
	var ours []*Conn
	for range 3 {
		theirs = append(theirs, dial())
		ours = append(ours, accepted(t, ln))
		later(time.Millisecond)
	}
	keep, idle := kept(t, ours[0])
	if !keep() {
		t.Fatal("it has gone already")
	}
	later(settled)
	dial()
	next := accepted(t, ln)
	if !ended(theirs[1]) {
		t.Error("another one gave way")
	}
	if keep, _ := kept(t, ours[1]); keep() {
		t.Error("a connection that gave way goes on")
	}
	for _, c := range []*Conn{ours[2], next} {
		if keep, _ := kept(t, c); !keep() {
			t.Error("one too many gave way")
		}
	}
	idle()
	later(settled)
	dial()
	accepted(t, ln)
	if !ended(theirs[0]) {
		t.Error("what was answered does not give way")
	}
}

// Where nobody gives way the next connection waits for a place.
func TestTheNextOneWaits(t *testing.T) {
	for name, leave := range map[string]func(*Conn){
		"closed": func(c *Conn) { _ = c.Close() }, "taken out": func(c *Conn) { _ = c.Leave() },
		"answered": func(c *Conn) { c.of.changed(func() { c.silent = time.Unix(1, 0) }) },
	} {
		ln, dial, _ := opened(t, 1)
		dial()
		first := accepted(t, ln)
		if keep, _ := kept(t, first); !keep() {
			t.Fatal("it has gone already")
		}
		dial()
		in := make(chan *Conn)
		go func() {
			conn, _ := ln.Accept()
			c, _ := conn.(*Conn)
			in <- c
		}()
		select {
		case <-in:
			t.Errorf("%s: there are two", name)
		case <-time.After(20 * time.Millisecond): // it fails only when there is a second one
		}
		leave(first)
		if c := <-in; c == nil {
			t.Errorf("%s: it was not let in", name)
		} else {
			_ = c.Close()
		}
	}
	ln, dial, _ := opened(t, 1)
	dial()
	accepted(t, ln)
	dial()
	done := make(chan error, 1)
	go func() { _, err := ln.Accept(); done <- err }()
	_ = ln.Close()
	if err := <-done; err == nil {
		t.Error("a closed listener lets in")
	}
}

// A clock that went back keeps nobody out for as long as it leapt.
func TestAClockThatGoesBackKeepsNobodyOut(t *testing.T) {
	ln, dial, later := opened(t, 1)
	theirs := dial()
	accepted(t, ln)
	later(-time.Hour)
	dial()
	conn, err := ln.(*bounded).Listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	next := &Conn{Conn: conn, of: ln.(*bounded)}
	t.Cleanup(func() { _ = next.Close() })
	if in, wait := next.of.admit(next); in || wait > settled {
		t.Errorf("in: %v, else it waits %v", in, wait)
	}
	later(settled)
	if in, wait := next.of.admit(next); !in {
		t.Fatalf("it waits %v more", wait)
	}
	if !ended(theirs) {
		t.Error("nobody gave way")
	}
}

// One source that connects on and on leaves a quarter of the places, and is not waited
// for. On this machine all have one address.
func TestOneSourceLeavesRoom(t *testing.T) {
	crowd := func(form string) (sources []string) {
		for i := range 10 {
			sources = append(sources, fmt.Sprintf(form, i))
		}
		return append(sources, "192.0.2.2:1")
	}
	for form, let := range map[string]int{"192.0.2.1:100%d": 6, "[2001:db8::%d]:1": 6, "[::ffff:192.0.2.1]:100%d": 6, "127.0.0.1:100%d": 8} {
		ln, dial, _ := opened(t, 8, crowd(form)...)
		for range let {
			dial()
			accepted(t, ln)
		}
		if let == 8 {
			continue // the next one waits
		}
		for range 10 - let {
			dial()
		}
		dial()
		if c := accepted(t, ln); c.RemoteAddr().String() != "192.0.2.2:1" {
			t.Errorf("%s: %s was let in", form, c.RemoteAddr())
		}
	}
}

// keeper does for a connection what a server does for its requests.
func keeper(t *testing.T) (keep func(c *Conn, owner string) error, idle func(c *Conn)) {
	t.Helper()
	s := &http.Server{ReadHeaderTimeout: time.Minute}
	Watch(s)
	return func(c *Conn, owner string) error { return Keep(s.ConnContext(t.Context(), c), owner) }, func(c *Conn) { s.ConnState(c, http.StateIdle) }
}

// Who has its share with requests under way keeps no more, on any connection; others do.
func TestOneCallerLeavesRoom(t *testing.T) {
	ln, dial, _ := opened(t, 8)
	keep, idle := keeper(t)
	var ours []*Conn
	for range 8 {
		dial()
		ours = append(ours, accepted(t, ln))
	}
	for _, c := range ours[:6] {
		if err := keep(c, "greedy"); err != nil {
			t.Fatal(err)
		}
	}
	if err := keep(ours[6], "greedy"); !errors.Is(err, errShare) {
		t.Errorf("one more: %v", err)
	}
	if err := keep(ours[7], "other"); err != nil {
		t.Errorf("another: %v", err)
	}
	idle(ours[0])
	if err := keep(ours[6], "greedy"); err != nil {
		t.Errorf("with one answered: %v", err)
	}
}

// By asking on each of its connections again and again a caller has none for ever that is
// over its share: it gives way at once.
func TestAskingOnEachKeepsNoOthersOut(t *testing.T) {
	ln, dial, later := opened(t, 8)
	keep, idle := keeper(t)
	var theirs []net.Conn
	for range 8 {
		theirs = append(theirs, dial())
		c := accepted(t, ln)
		if err := keep(c, "greedy"); err != nil {
			t.Fatal(err)
		}
		later(time.Millisecond)
		idle(c)
	}
	dial()
	in := make(chan *Conn, 1)
	go func() {
		c, _ := ln.Accept()
		in <- c.(*Conn)
	}()
	select {
	case c := <-in:
		_ = c.Close()
	case <-time.After(10 * time.Second):
		t.Fatal("another is kept out")
	}
	if !ended(theirs[0]) {
		t.Error("it was not the longest silent one that gave way")
	}
}

// Who shows no token, or is refused, is as silent as before for all that it asks.
func TestAskingForNothingKeepsNoPlace(t *testing.T) {
	ln, dial, later := opened(t, 2)
	_, idle := keeper(t)
	theirs := dial()
	ours := accepted(t, ln)
	later(time.Millisecond)
	dial()
	accepted(t, ln)
	later(settled)
	idle(ours)
	dial()
	accepted(t, ln)
	if !ended(theirs) {
		t.Error("another one gave way")
	}
}

// An answer that is taken piece by piece, each in time, is still to be taken as a whole: in a
// minute and what its length has at 64 KiB in a second. The next one has its own time.
func TestAnAnswerIsTakenInTime(t *testing.T) {
	const answer = 8 << 20
	for each, want := range map[time.Duration]int{time.Second: answer, 3 * time.Second: 30 * piece} {
		below, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1e9, 0) // of the goroutine that writes
		ln := Bounded(below, Bounds{Most: 1, Patience: time.Minute, Clock: func() time.Time {
			now = now.Add(each) // each piece takes so long
			return now
		}})
		theirs, err := net.Dial("tcp", below.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan error, 1)
		go func() { _, err := io.Copy(io.Discard, theirs); read <- err }()
		conn := accepted(t, ln)
		keep, idle := keeper(t)
		for range 2 {
			if err := keep(conn, "one"); err != nil {
				t.Fatal(err)
			}
			n, err := conn.Write(make([]byte, answer))
			if late := want < answer; late != errors.Is(err, os.ErrDeadlineExceeded) || n < want-piece || n > want+piece {
				t.Errorf("%v a piece: %d of %d bytes were written: %v", each, n, want, err)
			}
			idle(conn)
		}
		_ = conn.Close()
		if err := <-read; err != nil {
			t.Error(err)
		}
		_, _ = theirs.Close(), ln.Close()
	}
}

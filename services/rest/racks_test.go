package rest

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// kept is a wire as it lies in a rack, unused for so long, and its other end.
func kept(t *testing.T, s spot, unused time.Duration) (w *wire, far net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if far, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	w = &wire{conn: near, socket: near, br: bufio.NewReader(near), spot: s}
	if w.raw, err = near.(*net.TCPConn).SyscallConn(); err != nil {
		t.Fatal(err)
	}
	w.idle = time.Now().Add(-unused)
	return w, far
}

// ended reports whether the other end was closed.
func ended(far net.Conn) bool {
	_ = far.SetReadDeadline(time.Now().Add(30 * time.Second))
	_, err := far.Read(make([]byte, 1))
	return err == io.EOF
}

// What nobody has wanted for keptIdle is closed, and a rack that is empty then
// is forgotten; a rack that is not is looked at again.
func TestKeptConnectionsExpire(t *testing.T) {
	r := racks{clock: time.Now}
	defer r.empty()
	s := spot{scheme: "http", origin: origin{authority: "a.test:80"}}
	old, gone := kept(t, s, 0)
	young, _ := kept(t, s, 0)
	r.put(old)
	r.put(young)
	k := r.hold(s)
	old.idle = time.Now().Add(-keptIdle)
	k.mu.Unlock()

	r.tidy(s, k)
	if !ended(gone) {
		t.Error("the old one is still open")
	}
	if n := r.kept.Load(); n != 1 || k.gone || k.sweep == nil {
		t.Errorf("%d kept, forgotten %v, swept again %v", n, k.gone, k.sweep != nil)
	}
	k.mu.Lock()
	young.idle = time.Now().Add(-keptIdle)
	k.mu.Unlock()
	r.tidy(s, k)
	if _, there := r.spots.Load(s); there || !k.gone || k.sweep != nil || r.kept.Load() != 0 {
		t.Errorf("an empty rack stays: %+v", k)
	}
	late, _ := kept(t, s, 0)
	r.put(late) // in a rack of its own, not in the forgotten one
	if r.take(s) != late {
		t.Error("a wire was put where nobody finds it")
	}
}

// One that ended, or spoke, while it was kept is not lent; the last one used is
// lent first; what there is no room for is closed.
func TestOnlyQuietConnectionsAreLent(t *testing.T) {
	r := racks{clock: time.Now, most: 3}
	defer r.empty()
	s := spot{scheme: "http", origin: origin{authority: "a.test:80"}}
	first, _ := kept(t, s, 0)
	spoke, talker := kept(t, s, 0)
	left, leaver := kept(t, s, 0)
	over, surplus := kept(t, s, 0)
	for _, w := range []*wire{first, spoke, left, over} {
		r.put(w)
	}
	if !ended(surplus) {
		t.Error("more are kept than may be")
	}
	_, _ = io.WriteString(talker, "H")
	_ = leaver.Close()
	if r.take(spot{scheme: "https", origin: origin{authority: "a.test:80"}}) != nil || r.take(spot{scheme: "http", origin: origin{trust: trust{trusted: true}, authority: "a.test:80"}}) != nil {
		t.Error("lent to another spot")
	}
	if got := r.take(s); got != first {
		t.Errorf("lent %p, want %p", got, first)
	}
	if r.take(s) != nil || r.kept.Load() != 0 {
		t.Error("one that spoke or ended is still there")
	}
	dirty, _ := kept(t, s, 0)
	near, far := net.Pipe()
	defer func() { _, _ = near.Close(), far.Close() }()
	dirty.br = bufio.NewReader(near)
	go func() { _, _ = io.WriteString(far, "HTTP") }()
	_, _ = dirty.br.Peek(1)
	r.put(dirty)
	if r.take(s) != nil {
		t.Error("one with bytes in its reader was kept")
	}
}

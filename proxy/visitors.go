package proxy

import (
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/proxy/detour"
	"github.com/kimbap-run/kimbap/proxy/gate"
	"github.com/kimbap-run/kimbap/runtime"
)

// visitors are the connections of the listeners that are not tunnels: nobody
// on them need have said who they are. They are counted per visitor, so that one
// user of the machine takes no connection from another.
type visitors struct {
	limits Limits
	gate   *gate.Gate[visitor]

	mu  sync.Mutex
	all map[visitor]map[*conn]struct{}
}

// visitor is for whom a connection counts: a user of the machine, one of those who
// said who they are, or all from one address whom neither the kernel nor they name.
type visitor struct {
	peer  runtime.Peer
	known string     // [Known.Owner]
	from  netip.Addr // the host that it is on; of loopback, which is everybody's, none
}

// hostOf is where an unknown peer comes from. A host of IPv6 may take any address of a /64.
func hostOf(source string) netip.Addr {
	addr, err := netip.ParseAddr(source)
	if addr = addr.Unmap(); err != nil || addr.IsLoopback() {
		return netip.Addr{}
	}
	if addr.Is6() && !addr.IsLinkLocalUnicast() {
		return netip.PrefixFrom(addr, 64).Masked().Addr()
	}
	return addr
}

func newVisitors(l Limits) *visitors {
	all := int64(l.Visitors)
	if all <= 0 {
		all = math.MaxInt64
	}
	most := func(one visitor) int64 {
		if one.peer.Owner {
			return int64(l.Connections)
		}
		return int64(l.Strangers)
	}
	return &visitors{
		limits: l, gate: gate.New(most, all, max(1, l.WaitingVisitors/2), l.WaitingVisitors), all: map[visitor]map[*conn]struct{}{},
	}
}

// add makes a connection that the gate let in one that can be closed for
// another, until it leaves: when it closes or becomes a tunnel.
func (v *visitors) add(c *conn) {
	c.rest()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all[c.visitor] == nil {
		v.all[c.visitor] = map[*conn]struct{}{}
	}
	v.all[c.visitor][c] = struct{}{}
	c.leave = sync.OnceFunc(func() { v.remove(c) })
}

func (v *visitors) remove(c *conn) {
	v.mu.Lock()
	delete(v.all[c.visitor], c)
	if len(v.all[c.visitor]) == 0 {
		delete(v.all, c.visitor)
	}
	v.mu.Unlock()
	v.gate.Leave(c.visitor, 1)
}

// each is every visitor's connection at this moment.
func (v *visitors) each() []*conn {
	v.mu.Lock()
	defer v.mu.Unlock()
	var list []*conn
	for _, conns := range v.all {
		for c := range conns {
			list = append(list, c)
		}
	}
	return list
}

// callers adds one caller of each owner of a request in plain HTTP.
func (v *visitors) callers(to map[string]runtime.Caller) {
	for _, c := range v.each() {
		if owner, caller := c.plainly.whose(); owner != "" {
			to[owner] = caller
		}
	}
}

// closeAll cuts what a drain has left: who reads nothing, not even a goodbye.
func (v *visitors) closeAll() {
	for _, c := range v.each() {
		c.cut()
	}
}

// cut ends the answers in plain HTTP that flow, of the requests that which asks for.
func (v *visitors) cut(which func(owner string, target runtime.Target) bool) {
	for _, c := range v.each() {
		c.plainly.cut(c, which)
	}
}

// closeSilent closes the visitor's connection on which no request has been whole
// for longest, if that is a tenth of the time a head may take: heads that drip
// then keep no others out. Where there is no room for anybody, a stranger's
// goes when the visitor has none.
func (v *visitors) closeSilent(one visitor, why gate.Lack) {
	oldest := system.Moment(time.Now()) - int64(v.limits.HeadTimeout/10)
	var found *conn
	look := func(conns map[*conn]struct{}) {
		for c := range conns {
			if at := c.silent.Load(); at > 0 && at < oldest {
				found, oldest = c, at
			}
		}
	}
	v.mu.Lock()
	look(v.all[one])
	for other, conns := range v.all {
		if found == nil && why == gate.All && !other.peer.Owner {
			look(conns)
		}
	}
	v.mu.Unlock()
	if found != nil && found.silent.CompareAndSwap(oldest, closing) {
		_ = found.Close()
	}
}

// admit makes an accepted connection one of ours. One too many has to wait and
// reaches the server by the other way, the feed; for it, and for one that
// cannot even wait, admit returns nil.
func (s *Server) admit(c net.Conn) (own *conn, full bool) {
	own = s.newConn(c, c, s.o.Peer(c), nil)
	own.visitor.peer = own.peer
	if k, ok := c.(*Known); ok {
		own.known, own.visitor.known = &k.Caller, k.Owner
	} else if !own.peer.Known && !own.peer.Owner {
		own.visitor.from = hostOf(own.source)
	}
	w, why := s.visitors.gate.Join(own.visitor, 1)
	switch {
	case w != nil:
		s.active.Add(1)
		go s.usher(own, w)
		return nil, false
	case why != gate.None:
		_ = c.Close()
		return nil, true
	}
	s.visitors.add(own)
	return own, false
}

// usher waits with a connection for its turn.
func (s *Server) usher(c *conn, w *gate.Waiter[visitor]) {
	defer s.active.Done()
	v := s.visitors
	why := v.gate.Await(s.base, w, v.limits.until(), func(why gate.Lack) { v.closeSilent(c.visitor, why) })
	if why != gate.None {
		turnAway(c)
		return
	}
	v.add(c)
	s.hand(c)
}

// hand gives a connection to the engine that serves it.
func (s *Server) hand(c *conn) {
	if s.o.Engine == EngineRelay {
		go s.serveRelay(c)
	} else if !s.feed.put(c) {
		_ = c.Close()
	}
}

// turnedAway answers a connection that has waited in vain. No request was read.
const turnedAway = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n" +
	"Kimbap-Error: rate_limited: there are as many connections as there may be\r\n\r\n"

// turnAway says so and closes. What the client has sent is read, since a close
// over unread bytes is a reset, and the answer could be lost with it.
func turnAway(c *conn) {
	defer func() { _ = c.Close() }()
	_ = c.Conn.SetDeadline(time.Now().Add(lingering))
	if _, err := io.WriteString(c.Conn, turnedAway); err != nil || closeWrite(c.Conn) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(c.Conn, 64<<10))
}

// unknown reports whether a request was refused because nobody knows its caller.
func unknown(e *runtime.Error) bool {
	return e.Code == runtime.CodeUnauthenticated || e.Code == runtime.CodeRateLimited && e.Stage == runtime.StageIdentify
}

// dismiss ends the connection of a stranger with an answer that says it is not
// known, so that it does not stay to keep others out, and one that was led here
// to where it may not go.
func dismiss(c *conn, h http.Header, e *runtime.Error) {
	if unknown(e) && !c.peer.Owner || c.tunnel == nil && wasLed(c) {
		h.Set("Connection", "close")
	}
}

// wasLed reports whether c was led here by the network: there is one CONNECT on it, so
// what follows a refusal is no request to a proxy.
func wasLed(c *conn) bool {
	_, is := c.raw.(*detour.Conn)
	return is
}

package chaos_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long anything may take before it counts as hanging.
const patience = 60 * time.Second

// exchange is one request and what both ends saw of it.
type exchange struct {
	w *world
	q request
	a answer

	agent     string // as the trail names who asks
	plain     bool   // without TLS on any side
	pipelined bool
	onH2      bool
	headOut   bool // the client wrote the whole head
	wrote     int  // bytes of the body that the client wrote
	allOut    bool // and everything behind it
	left      bool // the client left before its end
	over      bool // the client is done
	severed   bool // the client ended the connection for another reason
	ending    bool // the client may have written the end of the body
	continued bool // 100 came
	interims  []int
	status    int
	header    http.Header
	body      []byte
	trailer   http.Header
	complete  bool
	err       error
	attempts  []*attempt
}

// attempt is one time that the upstream got the request.
type attempt struct {
	n           int
	first       bool // on its connection
	header      http.Header
	method      string
	proto       string
	body        []byte
	trailer     http.Header
	whole       bool // the body came to its end
	bodyOver    bool // or will not
	began       bool // something of an answer was written
	sent        int  // bytes of its body
	done        bool // the whole answer was written
	ended       bool
	broke       bool // the answer was broken off on purpose
	reset       bool // and what was written may not have come
	died        bool // with the connection, for another reason
	unprocessed bool // the upstream said that it did not act on it
}

// world is one kimbap, all that speak to it, and what they saw.
type world struct {
	t    *testing.T
	seed uint64

	mu     sync.Mutex
	cond   sync.Cond
	all    map[string]*exchange
	hung   []string
	guests int // requests of the full house that have arrived
	odd    []string
	conns  uint64 // of HTTP/2 to the upstream

	recorded map[string]bool // ids of requests, by the judge
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, all: map[string]*exchange{}, recorded: map[string]bool{}}
	w.cond.L = &w.mu
	return w
}

// note changes what is known, and wakes who waits for it.
func (w *world) note(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	w.cond.Broadcast()
}

// strange keeps what should not have been seen.
func (w *world) strange(format string, args ...any) {
	w.note(func() { w.odd = append(w.odd, fmt.Sprintf(format, args...)) })
}

// await waits until ok, which is asked under the lock.
func (w *world) await(what string, ok func() bool) {
	w.awaitFor(patience/2, func() { w.hung = append(w.hung, what) }, ok)
}

// awaitFor is await that gives up.
func (w *world) awaitFor(limit time.Duration, givesUp func(), ok func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	late := false
	timer := time.AfterFunc(limit, func() { w.note(func() { late = true }) })
	defer timer.Stop()
	for !ok() {
		if late {
			givesUp()
			return
		}
		w.cond.Wait()
	}
}

// find returns the exchange of a path, nil for one that nobody planned.
func (w *world) find(path string) *exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[path[strings.LastIndexByte(path, '/')+1:]]
}

// last is the attempt under way, nil before the first. One that the upstream did not act on
// may be seen after the one that followed it.
func (x *exchange) last() *attempt {
	if done := x.acted(); len(done) > 0 {
		return done[len(done)-1]
	}
	if len(x.attempts) == 0 {
		return nil
	}
	return x.attempts[len(x.attempts)-1]
}

// acted are the attempts that the upstream acted on, or may have.
func (x *exchange) acted() (out []*attempt) {
	for _, at := range x.attempts {
		if !at.unprocessed {
			out = append(out, at)
		}
	}
	return out
}

// is reports whether an event has come, or cannot come any more.
func (x *exchange) is(e event) bool {
	up := x.last()
	switch e {
	case upHasHead:
		return up != nil || x.over || x.status != 0
	case upHasSome:
		return up != nil && (len(up.body) > 0 || up.bodyOver) || x.over
	case upHasBody:
		return up != nil && up.bodyOver || x.over
	case upHasSent:
		return up != nil && (up.sent >= min(fits, len(x.a.body)) && up.began || up.ended) || x.over || x.err != nil
	case clientHead:
		return x.status != 0 || x.over || x.left
	case clientSome:
		return len(x.body) > 0 || x.over || x.left
	case clientGone:
		return x.over || x.left
	case everybody:
		return x.w.guests >= places || x.over
	case clientDone:
		return x.over || x.left
	case clientWrote:
		return x.wrote >= min(fits, len(x.q.body)) || x.over || x.left
	}
	return true
}

// until waits for an event. Own is an attempt that must still be able to see it, or nil.
func (x *exchange) until(e event, own *attempt) {
	if e == atOnce {
		return
	}
	x.w.await(fmt.Sprintf("%s waits for event %d", x.q.id, e), func() bool {
		return x.is(e) || own != nil && (own.ended || own != x.last())
	})
}

// late waits as long as the client reads nothing. Who does not read cannot know whether there
// is anything to wait for.
func (x *exchange) late() {
	if x.q.reads != atOnce {
		x.w.awaitFor(time.Second, func() {}, func() bool { return x.is(x.q.reads) })
	}
}

// begin notes that the upstream got a head.
func (x *exchange) begin(first bool, method, proto string, header http.Header) *attempt {
	a := &attempt{first: first, method: method, proto: proto, header: header}
	x.w.note(func() {
		if a.n = len(x.attempts); a.n == 0 && x.a.when == everybody {
			x.w.guests++
		}
		x.attempts = append(x.attempts, a)
	})
	return a
}

// fields are those of the answer.
func (x *exchange) fields(a *attempt) [][2]string {
	out := [][2]string{{"X-Answer", x.q.id}, {"X-Attempt", fmt.Sprint(a.n)}}
	if x.a.reflects != "" {
		out = append(out, [2]string{x.a.reflects, a.header.Get("Authorization")})
	}
	if x.a.trailer {
		out = append(out, [2]string{"Trailer", "X-Sum"})
	}
	return out
}

// bodiless reports whether the answer has no body, whatever it says.
func (x *exchange) bodiless() bool {
	return x.q.method == http.MethodHead || x.a.status == 204 || x.a.status == 304
}

// pieces cuts a message at the pauses of its body, and in fragments.
func pieces(g generator, body []byte, cuts int, pauses []pause, send func([]byte) error, wait func(event)) error {
	at := 0
	for at < len(body) || len(pauses) > 0 {
		end := len(body)
		next := -1
		for i, p := range pauses {
			if next < 0 || p.at < pauses[next].at {
				next = i
			}
		}
		if next >= 0 && pauses[next].at <= at {
			wait(pauses[next].until)
			pauses = append(append([]pause(nil), pauses[:next]...), pauses[next+1:]...)
			continue
		}
		if next >= 0 {
			end = min(end, pauses[next].at)
		}
		if cuts > 0 {
			end = min(end, at+1+g.IntN(cuts))
		}
		end = min(end, at+16<<10) // so that it is known how far it got
		if at == end {            // a pause behind the end
			pauses = nil
			continue
		}
		if err := send(body[at:end]); err != nil {
			return err
		}
		at = end
	}
	return nil
}

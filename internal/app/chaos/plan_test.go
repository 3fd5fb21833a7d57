package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// How a message says where its body ends.
type framing int

const (
	noBody framing = iota
	byLength
	byChunks
	byClose // answers only
)

// How one end of a connection leaves it.
type leaving int

const (
	stays     leaving = iota
	closes            // in order: TLS says so
	closesRaw         // the end of TCP, unannounced by TLS
	resets
	halfClose // the client says that it sends no more, and reads on
)

// What somebody waits for before going on.
type event int

const (
	atOnce      event = iota
	upHasHead         // the upstream has the head of the request
	upHasBody         // the upstream has the request whole
	upHasSome         // the upstream has some of the body
	upHasSent         // the upstream has written what fits into buffers
	clientHead        // the client has the head of the answer
	clientSome        // the client has some of the body of the answer
	clientGone        // the client has left
	clientWrote       // the client has written what fits into buffers
	clientDone        // the client has the answer, or the end of it
	everybody         // as many requests are under way as kimbap lets in
)

// fits is what can be written to a connection that nobody reads from.
const fits = 24 << 10

// pause is a wait inside of a body, before its byte at.
type pause struct {
	at    int
	until event
}

// request is what a client is to do.
type request struct {
	id           string
	method, path string
	framing      framing
	body         []byte
	trailer      bool
	expect, wait bool // Expect: 100-continue; and waits for it
	cuts         int  // the longest fragment, 0: whole
	pauses       []pause
	leaves       leaving // before all was sent, or read
	leavesAt     int     // bytes of the message that are sent; -1: all of it
	leavesWhen   event
	reads        event // before it begins to read the answer
	never        bool  // it reads nothing at all
	drip         int   // h2: most that the window is opened by
	forgetsBody  bool  // HTTP/1.1: when told no before it sent the body, it leaves
}

// answer is what the upstream is to do.
type answer struct {
	when     event
	interim  []int
	status   int
	framing  framing
	body     []byte // as it is written
	trailer  bool
	says100  bool
	reads    event // before it reads the body
	cuts     int
	pauses   []pause
	leaves   leaving
	leavesAt int // bytes of the answer that are written; -1: all
	garbage  bool
	silent   bool   // it says nothing until it is left
	reflects string // field that holds the credential
	code     uint32 // h2: of RST_STREAM instead of leaving, when reset is set
	reset    bool   // h2: leaving is a reset of the stream
	goAway   int    // h2: 1: GOAWAY that takes this one along, 2: one that refuses it
}

// blocks are n bytes that say whose they are and where.
func blocks(id string, n int) []byte {
	out := make([]byte, 0, n+64)
	for len(out) < n {
		out = fmt.Appendf(out, "<%s@%d>", id, len(out))
	}
	return out[:n]
}

// generator draws plans; the same seed draws the same.
type generator struct{ *rand.Rand }

func (g generator) chance(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g generator, list ...T) T { return list[g.IntN(len(list))] }

// size is the length of a body: mostly small, at borders of buffers and records, seldom large.
func (g generator) size() int {
	switch g.IntN(10) {
	case 0:
		return 0
	case 1, 2, 3, 4:
		return 1 + g.IntN(600)
	case 5, 6:
		return pick(g, 4096, 8192, 16384, 32768, 65535) + g.IntN(5) - 2
	case 7, 8:
		return g.IntN(40 << 10)
	}
	return g.IntN(600 << 10)
}

// one draws an exchange.
func (g generator) one(id string, first, http2, plain bool) (request, answer) {
	r, a := request{id: id, leavesAt: -1, drip: 1 << 20}, answer{leavesAt: -1, says100: true}
	action := pick(g, "read", "read", "poke", "write", "write", "write")
	switch action {
	case "read":
		r.method = pick(g, "GET", "GET", "HEAD")
	case "poke":
		r.method = "GET"
	case "write":
		r.method = pick(g, "POST", "POST", "PUT")
	}
	r.path = "/" + action + "/" + id
	if action == "write" || g.chance(12) {
		g.bodyOf(&r, http2)
	}
	g.answerTo(&r, &a, plain)
	g.timing(&r, &a)
	g.faults(&r, &a, http2)
	if !first && !http2 {
		r.reads = atOnce // the connection may have ended with the answer before
	}
	return r, a
}

func (g generator) bodyOf(r *request, http2 bool) {
	r.body = blocks("q"+r.id, g.size())
	r.framing = pick(g, byLength, byLength, byChunks)
	if r.framing == byChunks {
		r.trailer = g.chance(3)
	}
	if len(r.body) > 0 && g.chance(4) {
		r.expect = true
		r.wait = g.chance(2)
		r.forgetsBody = !http2 && g.chance(2)
	}
}

func (g generator) answerTo(r *request, a *answer, plain bool) {
	a.status = pick(g, 200, 200, 200, 200, 201, 404, 500, 204, 304, 206)
	a.framing = pick(g, byLength, byLength, byChunks, byChunks, byClose)
	a.body = blocks("a"+r.id, g.size())
	if !plain && g.chance(4) && len(a.body) > 0 {
		for range 1 + g.IntN(3) {
			at := 1 + g.IntN(len(a.body)) // the first byte is none of it, and so is never held back
			if at > 0 && strings.Contains(string(a.body[max(0, at-len(apptest.Key)+1):min(len(a.body), at+len(apptest.Key)-1)]), apptest.Key) {
				continue // one inside of another is none
			}
			a.body = append(a.body[:at:at], append([]byte(apptest.Key), a.body[at:]...)...)
		}
	}
	if a.status == 204 || a.status == 304 {
		a.framing, a.body = noBody, nil
	}
	if a.framing == byChunks {
		a.trailer = g.chance(3)
	}
	for g.chance(5) && len(a.interim) < 3 {
		a.interim = append(a.interim, pick(g, 103, 102))
	}
	if !plain && g.chance(8) {
		a.reflects = pick(g, "X-Reflect", "Location")
	}
	r.cuts, a.cuts = pick(g, 0, 0, 1+g.IntN(40), 1+g.IntN(3000)), pick(g, 0, 0, 1+g.IntN(40), 1+g.IntN(3000))
	if len(r.body) > 8<<10 && r.cuts > 0 {
		r.cuts += 500
	}
	if len(a.body) > 8<<10 && a.cuts > 0 {
		a.cuts += 500
	}
}

// timing draws who waits for whom, such that nobody waits for ever.
func (g generator) timing(r *request, a *answer) {
	early := g.chance(4)
	a.when = upHasBody
	if early {
		a.when = pick(g, upHasHead, upHasSome)
	}
	if len(r.body) > 1 {
		for range g.IntN(3) {
			until := upHasHead
			if early && a.when == upHasHead {
				until = pick(g, upHasHead, clientHead, clientDone)
			}
			if r.expect {
				until = atOnce // the upstream may be without a head until the body is there
			}
			r.pauses = append(r.pauses, pause{1 + g.IntN(len(r.body)-1), until})
		}
		if early && g.chance(3) {
			a.when, a.reads = upHasHead, clientHead // of its answer: the body lies in buffers
		} else if g.chance(6) && !r.expect && len(r.pauses) == 0 {
			a.reads = clientWrote
		}
	}
	if len(a.body) > 1 && r.method != "HEAD" && a.framing != noBody {
		for range g.IntN(3) {
			until := pick(g, atOnce, clientHead)
			a.pauses = append(a.pauses, pause{1 + g.IntN(len(a.body)-1), until}) // a short head may wait for the first byte
		}
		if g.chance(6) && len(a.pauses) == 0 && a.reads == atOnce && !early && !r.wait {
			r.reads = upHasSent
		}
		r.drip = pick(g, 1<<20, 1<<20, 300+g.IntN(5000), 1000+g.IntN(60000))
		if len(a.body) > 20_000 {
			r.drip += 8000 // smaller steps than a frame are a flood
		}
	}
}

// faults draws what goes wrong: mostly nothing.
func (g generator) faults(r *request, a *answer, http2 bool) {
	if g.chance(6) {
		r.leaves = pick(g, closes, closesRaw, resets)
		switch g.IntN(4) {
		case 0:
			r.leavesAt = g.IntN(200 + len(r.body))
		case 1:
			r.leavesWhen = upHasHead
			if r.expect {
				r.leavesWhen = atOnce
			}
			a.silent = g.chance(2)
		case 2:
			r.leavesWhen = clientHead
		case 3:
			r.never, r.leavesWhen = true, upHasSent
			r.expect, r.wait, r.pauses = false, false, nil // of what it would wait for it hears nothing
			if http2 && len(r.body) > 0 {                  // it could not send it to its end, and so not leave
				r.never, r.leavesWhen = false, clientHead
			}
			a.pauses = nil
			r.reads = atOnce
		}
		if a.reads != atOnce || len(r.pauses) > 0 && a.when != upHasBody {
			a.reads, r.pauses = atOnce, nil
		}
		return
	}
	if !http2 && g.chance(25) && !r.expect {
		r.leaves, r.reads = halfClose, atOnce
	}
	if g.chance(4) {
		g.upstreamFails(a)
	} else if g.chance(4) {
		a.leaves = pick(g, closes, closesRaw, resets) // after the answer, kept alive or not
	} else if g.chance(10) {
		a.garbage = true
	}
	if g.chance(12) {
		a.goAway = 1 + g.IntN(2)
	}
}

func (g generator) upstreamFails(a *answer) {
	a.leaves = pick(g, closes, closesRaw, resets)
	a.reset = g.chance(2)
	a.code = pick(g, uint32(1), 2, 7, 7, 8, 0)
	switch g.IntN(4) {
	case 0:
		a.leavesAt = 0
	case 1:
		a.leavesAt = g.IntN(120)
	default:
		a.leavesAt = g.IntN(200 + len(a.body))
	}
}

// masked is a text as a client may see it.
func masked(text []byte) []byte {
	return []byte(strings.ReplaceAll(string(text), apptest.Key, strings.Repeat("*", len(apptest.Key))))
}

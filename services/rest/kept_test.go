package rest_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// scene is one request and what its upstream does.
type scene struct {
	seed   uint64 // of how the bytes are cut
	method string
	up     int  // bytes of the request's body; -1: none
	stream bool // without their number
	status int
	framed string // length, chunks, end
	body   string
	early  int  // 1xx before it
	first  bool // the answer comes before the body was read
	closes bool // and says so
	cut    int  // after that many bytes of the answer; -1: it is whole
	behind string
}

// behinds are what may follow an answer on its connection.
var behinds = []string{"", "", "", "an answer", "half a record", "a farewell", "a ticket", "new keys", "nothing at all"}

// sceneOf draws a scene. The body begins with words of its own.
func sceneOf(t *rapid.T, n int) scene {
	s := scene{
		seed:   rapid.Uint64().Draw(t, "seed"),
		method: rapid.SampledFrom([]string{"GET", "GET", "HEAD", "POST", "PUT"}).Draw(t, "method"),
		up:     -1, cut: -1,
		status: rapid.SampledFrom([]int{200, 200, 200, 204, 304, 404}).Draw(t, "status"),
		framed: rapid.SampledFrom([]string{"length", "length", "chunks", "chunks", "end"}).Draw(t, "framing"),
		early:  rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(t, "1xx"),
		closes: rapid.IntRange(0, 5).Draw(t, "closes") == 0,
	}
	if s.method == "POST" || s.method == "PUT" {
		s.up = rapid.SampledFrom([]int{0, 1, 700, 20_000, 70_000}).Draw(t, "up")
		s.stream, s.first = rapid.Bool().Draw(t, "streamed"), rapid.IntRange(0, 3).Draw(t, "first") == 0
	}
	size := rapid.SampledFrom([]int{0, 0, 9, 3000, 4100, 20_000, 33_000, 200_000}).Draw(t, "size")
	words := fmt.Sprintf("answer %d of %d ", n, s.seed)
	s.body = strings.Repeat(words, size/len(words)+1)[:size]
	if !s.bare() && size == 0 && s.framed == "length" {
		s.body = words
	}
	s.behind = rapid.SampledFrom(behinds).Draw(t, "behind")
	if rapid.IntRange(0, 5).Draw(t, "cut") == 0 {
		s.cut = rapid.IntRange(0, len(s.wire())-1).Draw(t, "after")
	}
	return s
}

// bare reports whether the answer has no body whatever it says.
func (s scene) bare() bool { return s.method == "HEAD" || s.status == 204 || s.status == 304 }

// wire is the answer as it is written.
func (s scene) wire() string {
	var b strings.Builder
	b.WriteString(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n", s.early))
	fmt.Fprintf(&b, "HTTP/1.1 %d Words\r\nX-Of: %d\r\n", s.status, s.seed)
	if s.closes || s.framed == "end" && !s.bare() {
		b.WriteString("Connection: close\r\n")
	}
	switch {
	case s.status == 204, s.framed == "end":
		b.WriteString("\r\n")
	case s.framed == "length":
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", len(s.body))
	default:
		b.WriteString("Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
	}
	switch {
	case s.bare():
	case s.framed != "chunks":
		b.WriteString(s.body)
	default:
		random := rand.New(rand.NewPCG(s.seed, 2))
		for rest := s.body; rest != ""; {
			n := min(len(rest), 1+random.IntN(1<<random.IntN(16)))
			b.WriteString(servicestest.Chunk(rest[:n]))
			rest = rest[n:]
		}
		fmt.Fprintf(&b, "0;x=y\r\nX-Sum: %d\r\n\r\n", s.seed)
	}
	return b.String()
}

// told is what a client was told.
type told struct {
	status        int
	of, body, sum string
	broken        bool
	why           error // not compared
}

func (a told) String() string {
	return fmt.Sprintf("%d of %s, %d bytes %.60q, sum %q, broken: %v (%v)", a.status, a.of, len(a.body), a.body, a.sum, a.broken, errors.Unwrap(a.why))
}

func (a told) same(b told) bool {
	a.why, b.why = nil, nil
	return a == b
}

// truth is what a client must be told.
func (s scene) truth() told {
	if s.cut >= 0 {
		return told{broken: true}
	}
	is := told{status: s.status, of: strconv.FormatUint(s.seed, 10)}
	if !s.bare() {
		is.body = s.body
		if s.framed == "chunks" {
			is.sum = is.of
		}
	}
	return is
}

// stage is an upstream that plays scenes.
type stage struct {
	t    testing.TB
	keys *secrets // nil: records are those of crypto/tls, or there are none

	mu     sync.Mutex
	scenes []scene
	busy   int // scenes that are played now
	quiet  *sync.Cond
	hands  map[*servicestest.Conn]*records
}

// play is its behaviour.
func (g *stage) play(c *servicestest.Conn, q *servicestest.Request) bool {
	g.mu.Lock()
	g.busy++
	defer g.done()
	n, _ := strconv.Atoi(strings.TrimPrefix(q.Target, "/play?"))
	s := g.scenes[n]
	hand := g.hands[c]
	random := rand.New(rand.NewPCG(s.seed, 1))
	if g.keys != nil && hand == nil {
		var err error
		if hand, err = g.keys.take(c, random); err != nil {
			g.t.Error(err)
		}
		g.hands[c] = hand
	}
	g.mu.Unlock()
	if hand != nil {
		hand.random, hand.wanted = random, 0
	}
	if !s.first && !g.asked(c, q, s) {
		return false
	}
	text := s.wire()
	if s.cut >= 0 {
		text = text[:s.cut]
	}
	if hand == nil {
		return g.plainly(c, q, s, text, random)
	}
	hand.data([]byte(text))
	if s.cut >= 0 {
		_ = hand.flush(random.IntN(1 + min(len(hand.out), 30)))
		return c.Reset()
	}
	if s.framed == "end" && !s.bare() {
		hand.farewell()
		return hand.end()
	}
	return g.more(hand, s) && (!s.first || g.asked(c, q, s))
}

func (g *stage) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy--
	g.quiet.Broadcast()
}

// settle waits until what follows an answer has been sent too.
func (g *stage) settle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.busy > 0 {
		g.quiet.Wait()
	}
}

// more sends what is ready, and what follows it.
func (g *stage) more(hand *records, s scene) bool {
	keep := 0
	switch s.behind {
	case "an answer":
		hand.data([]byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"))
	case "half a record":
		hand.seal(recordData, []byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"), 0)
		keep = 1 + hand.random.IntN(60)
	case "a farewell":
		hand.farewell()
	case "a ticket":
		hand.ticket()
	case "new keys":
		hand.renew()
	case "nothing at all":
		hand.seal(recordData, nil, hand.random.IntN(9))
	}
	return hand.flush(keep) == nil
}

// plainly is the same without a hand on the records.
func (g *stage) plainly(c *servicestest.Conn, q *servicestest.Request, s scene, text string, random *rand.Rand) bool {
	if s.behind == "an answer" && s.cut < 0 && (s.framed != "end" || s.bare()) {
		text += "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	}
	for text != "" {
		n := min(len(text), 1+random.IntN(1<<random.IntN(17)))
		if !c.Send(text[:n]) {
			return false
		}
		text = text[n:]
	}
	if s.cut >= 0 {
		return c.Reset()
	}
	return (!s.first || g.asked(c, q, s)) && (s.framed != "end" || s.bare())
}

// asked reads a request to its end and holds it against what was sent.
func (g *stage) asked(c *servicestest.Conn, q *servicestest.Request, s scene) bool {
	if err := c.ReadBody(q); err != nil {
		return false
	}
	if want := strings.Repeat("u", max(0, s.up)); string(q.Body) != want || q.Method != s.method {
		g.t.Errorf("%s with %d bytes came as %s with %d", s.method, len(want), q.Method, len(q.Body))
	}
	return true
}

// ours asks through the engine.
func ours(t testing.TB, r *rig, n int, s scene) told {
	t.Helper()
	call := pass(r.call(s.method, "/play?"+strconv.Itoa(n)))
	if s.up > 0 {
		length := int64(s.up)
		if s.stream {
			length = -1
		}
		body(call, iotest.HalfReader(strings.NewReader(strings.Repeat("u", s.up))), length)
	}
	answer, _, err := r.do(t, call)
	if err != nil {
		return told{broken: true, why: err}
	}
	return told{status: answer.Status, of: answer.Header.Get("X-Of"), body: answer.Body, sum: answer.Trailer.Get("X-Sum")}
}

// theirs asks with net/http itself.
func theirs(t testing.TB, client *http.Transport, url string, s scene) told {
	t.Helper()
	var body io.Reader
	if s.up > 0 {
		body = io.LimitReader(strings.NewReader(strings.Repeat("u", s.up)), int64(s.up)) // of no known length
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, s.method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if s.up > 0 && !s.stream {
		q.ContentLength = int64(s.up)
	}
	resp, err := client.RoundTrip(q)
	if err != nil {
		return told{broken: true}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return told{broken: true}
	}
	return told{status: resp.StatusCode, of: resp.Header.Get("X-Of"), body: string(text), sum: resp.Trailer.Get("X-Sum")}
}

// Whatever an upstream does with records, segments, framing and what follows an
// answer: on connections that are kept, every answer belongs to its request, and
// is whole or cut, as for net/http that asks the same upstream itself.
func TestEveryAnswerBelongsToItsRequest(t *testing.T) {
	for _, kind := range []string{"cleartext", "TLS 1.2", "TLS 1.3 by hand"} {
		t.Run(kind, func(t *testing.T) {
			g := &stage{t: t, hands: map[*servicestest.Conn]*records{}}
			g.quiet = sync.NewCond(&g.mu)
			o := routes("/play", g.play)
			switch kind {
			case "cleartext":
				o.Cleartext = true
			case "TLS 1.2":
				o.TLS = func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }
			default:
				g.keys = &secrets{}
				o.TLS = g.keys.listen
			}
			r := newRig(t, o, func(o *rest.Options) { o.VerifyMutations = false })
			client := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.Roots()}, DisableCompression: true}
			t.Cleanup(client.CloseIdleConnections)
			rapid.Check(t, func(rt *rapid.T) { g.run(t, rt, r, client) })
		})
	}
}

// run plays some scenes one after the other to both clients.
func (g *stage) run(t testing.TB, rt *rapid.T, r *rig, client *http.Transport) {
	var scenes []scene
	for n := range rapid.IntRange(1, 8).Draw(rt, "scenes") {
		scenes = append(scenes, sceneOf(rt, n))
	}
	g.mu.Lock()
	g.scenes = scenes
	g.mu.Unlock()
	r.backend.Close() // nothing of the run before is kept
	behind := ""
	for n, s := range scenes {
		got := ours(t, r, n, s)
		g.settle()
		other := theirs(t, client, r.URL("/play?"+strconv.Itoa(n)), s)
		g.settle()
		stale := s.up >= 0 && behind != "" // and net/http may find that out too late to send it again
		if behind = s.behind; behind != "" {
			client.CloseIdleConnections() // net/http itself may take an answer for the next one
		}
		s.body = ""
		if truth := scenes[n].truth(); !got.same(truth) && !(stale && engine == rest.EngineStd && got.broken) {
			rt.Fatalf("scene %d, %+v:\ngot  %s\nwant %s", n, s, got, truth)
		}
		fooled := s.cut >= 0 && s.framed == "end" // a write may have been told of the reset
		if !got.same(other) && !stale && !fooled {
			rt.Fatalf("scene %d, %+v:\nwe       %s\nnet/http %s", n, s, got, other)
		}
	}
}

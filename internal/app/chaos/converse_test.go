package chaos_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

const service = `name: notes
version: 1.0.0
description: What may be sent again, and what may not
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  read: {description: Read, method: [GET, HEAD], path: "/read/{id}", idempotent: true, risk: {level: low}, args: [{name: id, type: string, required: true}]}
  poke: {description: A read that does something, method: GET, path: "/poke/{id}", risk: {level: medium}, args: [{name: id, type: string, required: true}]}
  write: {description: Write, method: [POST, PUT], path: "/write/{id}", risk: {level: medium}, args: [{name: id, type: string, required: true}]}
`

// plainHost belongs to no service, and is spoken to without TLS.
const plainHost = "plain.test"

// Bounds of one world.
const (
	conversations = 14
	lanes         = 5  // conversations at a time
	places        = 48 // requests that kimbap lets in at a time: more than there are of them
)

// agents are those who ask; the first shows no token.
var agents = []string{"local", "one", "two"}

// talk is one connection of a client.
type talk struct {
	todo   []*exchange
	kind   int // 0: HTTP/1.1 in a tunnel, 1: HTTP/2 in a tunnel, 2: HTTP/1.1 without one
	token  int
	pipes  bool
	atOnce int
	seed   uint64
}

// draw draws all conversations of a world.
func (w *world) draw(g generator) (out []*talk) {
	for i := range conversations {
		c := &talk{kind: pick(g, 0, 0, 1, 1, 2), token: g.IntN(len(agents)), pipes: g.chance(3), atOnce: 1 + g.IntN(6), seed: g.Uint64()}
		for j := range pick(g, 1, 1, 2, 3, 5, 8) {
			id := fmt.Sprintf("s%dc%dr%d", w.seed, i, j)
			x := &exchange{w: w, agent: agents[c.token], plain: c.kind == 2, onH2: c.kind == 1, pipelined: c.pipes && c.kind != 1}
			x.q, x.a = g.one(id, j == 0, c.kind == 1, c.kind == 2)
			w.all[id] = x
			c.todo = append(c.todo, x)
		}
		out = append(out, c)
	}
	return out
}

// converse is one world: what the seed says, from the start of a kimbap to its end.
func converse(t *testing.T, seed uint64) {
	w := newWorld(t, seed)
	g := generator{newSource(seed, 0)}
	engine := []string{"relay", "std"}[seed%2]
	up := servicestest.Options{H1: w.serveH1}
	if kind := seed / 2 % 3; kind > 0 {
		up.H2 = w.serveH2
		if kind == 2 {
			up.TLS = onlyH2
		}
	}
	plain := servicestest.New(t, servicestest.Options{Cleartext: true, H1: w.serveH1})
	k := apptest.New(t, apptest.Options{
		Services: []string{service}, Upstream: up,
		Config: fmt.Sprintf("    %q: %q\nproxy: {engine: %s, limits: {requests: %d}}\n", plainHost+":80", plain.Authority, engine, places),
	})
	tokens := []string{""}
	for _, agent := range agents[1:] {
		token, _, err := k.App.CreateToken(t.Context(), app.TokenGrant{Agent: agent, Scopes: []string{"*"}, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token.Reveal())
	}
	talks := w.draw(g)
	free := make(chan struct{}, lanes)
	var all sync.WaitGroup
	for _, c := range talks {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			w.talk(k, c, tokens[c.token])
		})
	}
	all.Wait()
	w.trail(k)
	w.fullHouse(k)
	w.judge(k)
	k.Verify(t)
}

// fullHouse makes as many requests as are let in at a time, none of which is answered before
// all of them have arrived: a place that something before has not given back is missed.
func (w *world) fullHouse(k *apptest.Kimbap) {
	const streams = 12
	var all sync.WaitGroup
	for i := range places / streams {
		c := &talk{kind: 1, atOnce: streams, seed: w.seed}
		for j := range streams {
			x := &exchange{w: w, agent: agents[0], onH2: true}
			x.q = request{id: fmt.Sprintf("s%dh%dr%d", w.seed, i, j), method: "GET", leavesAt: -1, drip: 1 << 20}
			x.q.path = "/poke/" + x.q.id
			x.a = answer{when: everybody, status: 200, framing: byLength, body: blocks("a"+x.q.id, 100), leavesAt: -1}
			w.note(func() { w.all[x.q.id] = x })
			c.todo = append(c.todo, x)
		}
		all.Go(func() { w.talk(k, c, "") })
	}
	all.Wait()
}

// talk holds one conversation.
func (w *world) talk(k *apptest.Kimbap, c *talk, token string) {
	conn, err := w.connect(k, c, token)
	if err != nil {
		w.strange("connect: %v", err)
		w.note(func() {
			for _, x := range c.todo {
				x.over, x.err = true, err
			}
		})
		return
	}
	wire := &wire{Conn: conn}
	g := generator{newSource(c.seed, 1)}
	if c.kind == 1 {
		h := &h2client{w: w, g: g, c: wire, host: apptest.Host, todo: c.todo, atOnce: c.atOnce}
		if err := h.run(); err != nil {
			w.strange("HTTP/2: %v", err)
		}
	} else {
		h := &h1client{w: w, g: g, c: wire, br: bufio.NewReader(wire), host: apptest.Host, todo: c.todo, pipes: c.pipes}
		if c.kind == 2 {
			h.prefix, h.host, h.fields = "http://"+plainHost, plainHost, authorization(token)
		}
		h.run()
	}
	if bytes.Contains(wire.seen.Bytes(), []byte(apptest.Key)) {
		w.strange("the credential came to the client of %s", c.todo[0].q.id)
	}
}

func authorization(token string) string {
	if token == "" {
		return ""
	}
	return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(token+":")) + "\r\n"
}

// connect opens the way to the proxy, and a tunnel.
func (w *world) connect(k *apptest.Kimbap, c *talk, token string) (net.Conn, error) {
	conn, err := net.Dial("tcp", k.Proxy)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if c.kind == 2 {
		return conn, nil
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", apptest.Authority, apptest.Authority, authorization(token)); err != nil {
		return nil, err
	}
	head := make([]byte, 0, 256)
	for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, one[0]) {
		if _, err := io.ReadFull(conn, one); err != nil {
			return nil, err
		}
	}
	if !strings.HasPrefix(string(head), "HTTP/1.1 200 ") {
		return nil, fmt.Errorf("CONNECT: %s", head)
	}
	protocol := []string{"http/1.1", "h2"}[c.kind]
	inside := tls.Client(conn, &tls.Config{RootCAs: k.Roots(), ServerName: apptest.Host, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS12})
	if err := inside.Handshake(); err != nil {
		return nil, err
	}
	if got := inside.ConnectionState().NegotiatedProtocol; got != protocol {
		return nil, fmt.Errorf("negotiated %q", got)
	}
	return inside, nil
}

// problem reports whether an answer is kimbap's own.
func problem(h http.Header) bool { return h.Get("Content-Type") == "application/problem+json" }

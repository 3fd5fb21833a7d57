package chaos_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// errPlanned ends a connection that the plan says to end.
var errPlanned = errors.New("as planned")

// upstreamH1 serves one connection of HTTP/1.1.
type upstreamH1 struct {
	w     *world
	g     generator
	c     net.Conn
	br    *bufio.Reader
	first bool
}

func (w *world) serveH1(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	u := &upstreamH1{w: w, g: generator{rand.New(rand.NewPCG(w.seed, 7))}, c: c, br: bufio.NewReader(c), first: true}
	for u.next() {
		u.first = false
	}
	_ = c.Close()
}

// next serves one request.
func (u *upstreamH1) next() bool {
	r, err := http.ReadRequest(u.br)
	if err != nil {
		if !closed(err) {
			u.w.strange("the upstream was sent what is no request: %v", err)
		}
		return false
	}
	x := u.w.find(r.URL.Path)
	if x == nil {
		u.w.strange("the upstream was sent a request that nobody made: %s %s", r.Method, r.URL)
		return false
	}
	at := x.begin(u.first, r.Method, r.Proto, r.Header)
	var reading sync.WaitGroup
	reading.Go(func() { u.body(x, at, r) })
	err = u.answer(x, at, r)
	x.w.note(func() { at.ended = true })
	if err != nil {
		_ = below(u.c).Close() // the reader ends too
		reading.Wait()
		return false
	}
	reading.Wait()
	return at.whole && x.a.framing != byClose && !x.a.garbage
}

// closed reports whether a connection just ended.
func closed(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

// body reads what the request brings.
func (u *upstreamH1) body(x *exchange, at *attempt, r *http.Request) {
	x.until(x.a.reads, at)
	if x.a.says100 && r.Header.Get("Expect") != "" {
		u.w.note(func() {
			if !at.began {
				_, _ = io.WriteString(u.c, "HTTP/1.1 100 Continue\r\n\r\n")
			}
		})
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(buf)
		u.w.note(func() { at.body = append(at.body, buf[:n]...) })
		if err == nil {
			continue
		}
		if err != io.EOF && !closed(err) {
			u.w.strange("%s: the body of the request is malformed: %v", x.q.id, err)
		}
		u.w.note(func() { at.whole, at.bodyOver, at.trailer = err == io.EOF, true, r.Trailer })
		return
	}
}

// answer writes the answer, as much of it as is planned.
func (u *upstreamH1) answer(x *exchange, at *attempt, r *http.Request) error {
	p := &x.a
	x.until(p.when, at)
	if p.silent {
		x.until(clientGone, nil)
		u.w.await(x.q.id+" waits for the body", func() bool { return at.bodyOver })
		// Whoever asked has left: so does kimbap, which nobody would tell otherwise.
		_, err := u.br.Peek(1)
		if err == nil {
			u.w.strange("%s: a request behind one that was not answered", x.q.id)
		}
		return errPlanned
	}
	budget := p.leavesAt
	if p.leaves == stays {
		budget = -1
	}
	var held []byte // the last byte so far, where garbage follows: what came by itself would be the next request's
	write := func(part []byte) error {
		if p.garbage && (p.framing != byClose || x.bodiless()) {
			all := slices.Concat(held, part)
			if part, held = all[:len(all)-1], all[len(all)-1:]; len(part) == 0 {
				return nil
			}
		}
		_, err := u.c.Write(part)
		return err
	}
	send := func(part []byte) error {
		if budget >= 0 && len(part) > budget {
			u.w.note(func() { at.broke, at.reset = true, p.leaves == resets; at.began = at.began || budget > 0 })
			_, _ = u.c.Write(slices.Concat(held, part[:budget]))
			leave(u.c, p.leaves)
			return errPlanned
		}
		if budget >= 0 {
			budget -= len(part)
		}
		u.w.note(func() { at.began = true })
		return write(part)
	}
	for _, status := range p.interim {
		if err := send(fmt.Appendf(nil, "HTTP/1.1 %d Wait\r\nX-Answer: %s\r\n\r\n", status, x.q.id)); err != nil {
			return err
		}
	}
	cuts := p.cuts
	if cuts > 0 {
		cuts = max(cuts, 20)
	}
	if err := pieces(u.g, u.head(x, at), cuts, nil, send, nil); err != nil {
		return err
	}
	if err := u.content(x, at, send, func(e event) {
		if len(held) > 0 {
			_, _ = u.c.Write(held)
			held = nil
		}
		x.until(e, at)
	}); err != nil {
		return err
	}
	u.w.note(func() { at.done = true })
	return u.after(x, at, held)
}

// head is the head of the answer.
func (u *upstreamH1) head(x *exchange, at *attempt) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d Chaos\r\n", x.a.status)
	for _, f := range x.fields(at) {
		fmt.Fprintf(&b, "%s: %s\r\n", f[0], f[1])
	}
	switch x.a.framing {
	case byLength:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(x.a.body))
	case byChunks:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	}
	if x.a.framing == byClose && !x.bodiless() || x.a.leaves == closes && u.g.chance(2) {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// content writes the body of the answer and its end.
func (u *upstreamH1) content(x *exchange, at *attempt, send func([]byte) error, until func(event)) error {
	p := &x.a
	if x.bodiless() {
		return nil
	}
	err := pieces(u.g, p.body, p.cuts, p.pauses, func(part []byte) error {
		block := part
		if p.framing == byChunks {
			block = fmt.Appendf(nil, "%x\r\n%s\r\n", len(part), part)
		}
		err := send(block)
		if err == nil {
			u.w.note(func() { at.sent += len(part) })
		}
		return err
	}, until)
	if err == nil && p.framing == byChunks {
		end := "0\r\n\r\n"
		if p.trailer {
			end = "0\r\nX-Sum: " + x.q.id + "\r\n\r\n"
		}
		err = send([]byte(end))
	}
	return err
}

// after is what comes behind the answer, of which held has not left yet.
func (u *upstreamH1) after(x *exchange, at *attempt, held []byte) error {
	p := &x.a
	if p.leaves != stays || p.framing == byClose && !x.bodiless() {
		u.w.note(func() { at.reset = at.reset || !at.whole }) // what is left unread makes a reset of the end
	}
	if p.framing == byClose && !x.bodiless() {
		if p.leaves == resets || p.leaves == closesRaw {
			u.w.note(func() { at.broke, at.reset = true, p.leaves == resets })
			if !x.plain || p.leaves == resets {
				u.w.note(func() { at.done = false }) // nothing but the end could say that it was the end
			}
			leave(u.c, p.leaves)
			return errPlanned
		}
		leave(u.c, closes)
		return errPlanned
	}
	if p.garbage {
		_, _ = io.WriteString(u.c, string(held)+"HTTP/1.1 200 OK\r\nX-Answer: garbage\r\nContent-Length: 7\r\n\r\ngarbage")
		return nil
	}
	if p.leaves != stays {
		u.w.note(func() { at.reset = at.reset || p.leaves == resets })
		leave(u.c, p.leaves)
		return errPlanned
	}
	return nil
}

//lint:file-ignore SA1019 the test speaks HTTP/2 on connections it has accepted itself

package chaos_test

import (
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2/http2test"
)

// newSource is a source of the seed for one use of it.
func newSource(seed, use uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, use)) }

// upstreamH2 serves one connection of HTTP/2.
type upstreamH2 struct {
	w       *world // which guards what is seen
	c       net.Conn
	s       *h2side
	seen    map[uint32]*incoming
	last    uint32
	goneAt  uint32 // streams above it were refused by a GOAWAY; 0: none was sent
	serving sync.WaitGroup
}

// incoming is one stream.
type incoming struct {
	x       *exchange
	at      *attempt
	credit  int // that was not given back yet
	reading bool
}

func (w *world) serveH2(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	f, err := http2test.Silent(c)
	if err == nil {
		time.Sleep(w.greetsAfter()) // requests may come before the settings
		err = f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 20})
	}
	if err != nil {
		_ = c.Close()
		return
	}
	u := &upstreamH2{w: w, c: c, s: newH2side(f), seen: map[uint32]*incoming{}}
	u.read()
	u.s.kill(net.ErrClosed)
	u.w.note(func() {
		for _, in := range u.seen {
			in.at.bodyOver = true
			if !in.at.done {
				in.at.ended, in.at.died = true, true
			}
		}
	})
	u.serving.Wait()
	u.s.over(c)
}

// greetsAfter is how long an upstream is silent on its next connection.
func (w *world) greetsAfter() (d time.Duration) {
	w.note(func() {
		w.conns++
		d = pick(generator{newSource(w.seed, w.conns+300)}, 0, 0, 500*time.Microsecond, time.Millisecond, 3*time.Millisecond, 20*time.Millisecond)
	})
	return d
}

func (u *upstreamH2) read() {
	first := true
	for {
		f, err := u.s.ReadFrame()
		if err != nil {
			var wrong http2.ConnectionError
			if errors.As(err, &wrong) {
				u.w.strange("the upstream was sent wrong frames: %v", err)
			}
			return
		}
		u.s.heed(f)
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			u.head(f, first)
			first = false
		case *http2.DataFrame:
			u.data(f)
		case *http2.RSTStreamFrame:
			if in := u.seen[f.StreamID]; in != nil {
				u.w.note(func() { in.at.bodyOver = true; in.at.ended = true })
			}
		}
	}
}

func (u *upstreamH2) head(f *http2.MetaHeadersFrame, first bool) {
	h := http.Header{}
	for _, field := range f.RegularFields() {
		h.Add(field.Name, field.Value)
	}
	if in := u.seen[f.StreamID]; in != nil {
		u.w.note(func() { in.at.trailer = h; in.at.whole = f.StreamEnded(); in.at.bodyOver = true })
		return
	}
	x := u.w.find(f.PseudoValue("path"))
	if x == nil {
		u.w.strange("the upstream was sent a request that nobody made: %s", f.PseudoValue("path"))
		return
	}
	at := x.begin(first, f.PseudoValue("method"), "HTTP/2", h)
	in := &incoming{x: x, at: at, reading: x.a.reads == atOnce}
	refused := false
	u.w.note(func() {
		u.seen[f.StreamID], u.last = in, f.StreamID
		if refused = u.goneAt > 0 && f.StreamID > u.goneAt; refused {
			at.unprocessed, at.ended = true, true
		}
	})
	if f.StreamEnded() {
		u.w.note(func() { at.whole, at.bodyOver = true, true })
	}
	if refused {
		return
	}
	u.serving.Go(func() {
		err := u.answer(in, f.StreamID)
		u.w.note(func() { at.ended = true })
		if errors.Is(err, errPlanned) {
			u.s.kill(err)
		}
	})
	if !in.reading {
		u.serving.Go(func() {
			x.until(x.a.reads, at)
			u.w.note(func() { in.reading = true })
			u.give(in, f.StreamID)
		})
	}
}

// give opens the window by what was taken.
func (u *upstreamH2) give(in *incoming, id uint32) {
	u.w.mu.Lock()
	n := in.credit
	if !in.reading {
		n = 0
	}
	in.credit -= n
	u.w.mu.Unlock()
	if n > 0 {
		u.s.put(func() error { return u.s.WriteWindowUpdate(id, uint32(n)) })
	}
}

func (u *upstreamH2) data(f *http2.DataFrame) {
	in, n := u.seen[f.StreamID], f.Length
	if n > 0 {
		u.s.put(func() error { return u.s.WriteWindowUpdate(0, n) })
	}
	if in == nil {
		return
	}
	u.w.note(func() {
		in.at.body = append(in.at.body, f.Data()...)
		in.credit += int(n)
		if f.StreamEnded() {
			in.at.whole, in.at.bodyOver = true, true
		}
	})
	if !f.StreamEnded() {
		u.give(in, f.StreamID)
	}
}

// answer sends the answer, as much of it as is planned.
func (u *upstreamH2) answer(in *incoming, id uint32) error {
	x, at, p := in.x, in.at, &in.x.a
	g := generator{newSource(u.w.seed, uint64(id)+500)}
	if p.says100 && at.header.Get("Expect") != "" {
		u.s.open(id, false, [][2]string{{":status", "100"}}, 0)
	}
	if p.goAway == 2 && at.n == 0 && len(p.interim) == 0 { // refuses this one, whatever is under way
		u.w.note(func() { at.unprocessed = true })
		u.s.put(func() error { return u.s.WriteRSTStream(id, http2.ErrCodeRefusedStream) })
		return nil
	}
	x.until(p.when, at)
	if p.silent {
		x.until(clientGone, nil)
		u.w.await(x.q.id+" waits to be left", func() bool { return at.ended })
		return nil
	}
	budget := -1
	if p.leaves != stays {
		budget = p.leavesAt
	}
	if budget == 0 {
		return u.breaks(in, id)
	}
	u.heads(in, id)
	if budget > 0 && (budget < 100 || x.bodiless()) { // the head only, which is not the end
		return u.breaks(in, id)
	}
	if p.goAway == 1 {
		var last uint32
		u.w.note(func() {
			if u.goneAt == 0 {
				u.goneAt = u.last
			}
			last = u.goneAt
		})
		u.s.put(func() error { return u.s.WriteGoAway(last, http2.ErrCodeNo, nil) })
	}
	if !x.bodiless() {
		err := pieces(g, p.body, p.cuts, p.pauses, func(part []byte) error {
			if budget >= 0 && at.sent+len(part) > budget {
				return errPlanned
			}
			err := u.s.send(id, part, false)
			u.w.note(func() { at.sent += len(part) })
			return err
		}, func(e event) { x.until(e, at) })
		switch {
		case errors.Is(err, errPlanned), err == nil && budget >= 0:
			return u.breaks(in, id)
		case err != nil:
			return err
		}
		if p.trailer {
			u.s.open(id, true, [][2]string{{"x-sum", x.q.id}}, 0)
		} else if err := u.s.send(id, nil, true); err != nil {
			return err
		}
	}
	return u.after(in, id)
}

// heads sends interim heads and the head.
func (u *upstreamH2) heads(in *incoming, id uint32) {
	x, at, p := in.x, in.at, &in.x.a
	for _, status := range p.interim {
		u.s.open(id, false, [][2]string{{":status", strconv.Itoa(status)}, {"x-answer", x.q.id}}, 0)
	}
	fields := [][2]string{{":status", strconv.Itoa(p.status)}}
	for _, f := range x.fields(at) {
		fields = append(fields, [2]string{strings.ToLower(f[0]), f[1]})
	}
	if p.framing == byLength {
		fields = append(fields, [2]string{"content-length", strconv.Itoa(len(p.body))})
	}
	u.w.note(func() { at.began = true })
	u.s.open(id, x.bodiless() && (p.leaves == stays || p.leavesAt < 0), fields, p.cuts)
}

// breaks ends the answer before its end.
func (u *upstreamH2) breaks(in *incoming, id uint32) error {
	p := &in.x.a
	u.w.note(func() { in.at.broke = true })
	if p.reset {
		if p.code == uint32(http2.ErrCodeRefusedStream) && !in.at.began {
			u.w.note(func() { in.at.unprocessed = true })
		}
		u.s.put(func() error { return u.s.WriteRSTStream(id, http2.ErrCode(p.code)) })
		return nil
	}
	_ = u.s.flush()
	u.leave(p.leaves)
	return errPlanned
}

// leave ends the connection, with all streams on it: of what was written last all may be
// lost, since what was not read makes a reset of every end.
func (u *upstreamH2) leave(how leaving) {
	u.w.note(func() {
		for _, in := range u.seen {
			in.at.reset = true
		}
	})
	leave(u.c, how)
}

// after is what comes behind the answer.
func (u *upstreamH2) after(in *incoming, id uint32) error {
	x, p := in.x, &in.x.a
	u.s.put(func() error {
		u.w.note(func() { in.at.done = true })
		return nil
	})
	if err := u.s.flush(); err != nil {
		return err
	}
	var whole bool
	u.w.note(func() { whole = in.at.whole })
	if !whole && x.q.framing != noBody && p.reset { // RFC 9113 section 8.1: no more of the body is wanted
		u.s.put(func() error { return u.s.WriteRSTStream(id, http2.ErrCodeNo) })
	}
	if p.leaves == stays {
		return nil
	}
	u.leave(p.leaves)
	return errPlanned
}

// onlyH2 offers nothing but HTTP/2.
func onlyH2(c *tls.Config) { c.NextProtos = []string{"h2"} }

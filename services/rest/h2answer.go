package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// errLargeAnswer is the head of an answer that is longer than we said we would take.
var errLargeAnswer = errors.New("response header list larger than was allowed")

// overTurn is one try over a connection of HTTP/2, as over is on one of HTTP/1.1.
func (x *exchange) overTurn(ctx context.Context, w *wire) (again bool, err error) {
	stop := context.AfterFunc(ctx, w.cut)
	whole := false
	defer func() {
		w.h2.before = nil
		if stop() && whole {
			x.lines.racks.put(w)
		} else {
			w.cut()
		}
	}()
	sent, werr := x.dispatchTurn(w)
	if w.used && errors.As(werr, new(unsent)) {
		return true, werr // what could still be read would answer nothing of ours
	}
	defer x.abandon(w, sent)
	if werr != nil && errors.Is(werr, errLargeHead) {
		return false, werr
	}
	if sent == nil {
		w.readWithin(x.lines.o.HeaderTimeout)
	}
	head, first, err := x.receiveTurn(w)
	sent.came(w)
	if err != nil {
		demanded := x.heed(err, w.spot.origin) && !first
		again = sent == nil && (demanded || unprocessed(err) || errors.Is(err, errUnprocessed) || w.used && !first && !late(err) && x.repeatable())
		if werr != nil {
			err = werr
		}
		return again, x.cause(err)
	}
	resp, err := x.responseTurn(w, head)
	if err != nil {
		return false, err
	}
	switch n := resp.ContentLength; {
	case n > 0 && n < smallSize:
		lent := x.b.head()
		x.room = (*lent)[:smallSize]
		defer x.small(lent, int(n))
	case n > 0 && w.gulp != nil: // a stream of unknown length may be one of events
		if lent := x.b.roomFor(n); lent != nil {
			defer x.large(w, lent)(&whole)
		}
	}
	x.witness.Answered(resp)
	if err := x.answer(ctx, resp, resp.Body); err != nil {
		return false, x.cause(err)
	}
	if x.result.BytesIn+x.result.BytesOut >= bulk {
		w.h2.turns.Store(busyAfter)
	}
	whole = werr == nil && x.settled(sent) && w.h2.ended() && w.h2.flush() == nil
	return false, nil
}

// receiveTurn reads heads up to that of the final answer. First says that something
// of an answer had come when it failed.
func (x *exchange) receiveTurn(w *wire) (head *http2.MetaHeadersFrame, first bool, err error) {
	for {
		head, err := w.h2.advance(true)
		if err == nil && head == nil {
			err = fmt.Errorf("%w: data before a head", errFrames)
		}
		if err != nil {
			return nil, first, err
		}
		first = true
		status, err := statusOf(head)
		if err != nil || status >= 200 {
			return head, first, err
		}
		if head.StreamEnded() || status == http.StatusSwitchingProtocols { // RFC 9113 sections 8.1 and 8.6
			return nil, first, fmt.Errorf("%w: an answer that ends with %d", errFrames, status)
		}
		h, _ := fieldsOf(head)
		_ = x.information(status, textproto.MIMEHeader(h)) // keeps its error in broken
		if x.broken != nil {
			return nil, first, x.broken
		}
	}
}

// statusOf reads the status of a head whose pseudo-fields the framer has checked.
func statusOf(head *http2.MetaHeadersFrame) (int, error) {
	if head.Truncated {
		return 0, errLargeAnswer
	}
	text := head.PseudoValue("status")
	status, err := strconv.Atoi(text)
	if err != nil || len(text) != 3 || status < 100 {
		return 0, fmt.Errorf("%w: no status", errFrames)
	}
	return status, nil
}

// fieldsOf are the fields of a head, and the trailer fields it announces.
func fieldsOf(head *http2.MetaHeadersFrame) (h, trailer http.Header) {
	fields := head.RegularFields()
	h = make(http.Header, len(fields))
	values := make([]string, 0, len(fields)) // one room for the values of all
	for _, f := range fields {
		name := http.CanonicalHeaderKey(f.Name)
		if name == "Trailer" {
			trailer = announce(trailer, f.Value)
			continue
		}
		if have := h[name]; have != nil {
			h[name] = append(have, f.Value)
			continue
		}
		values = append(values, f.Value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return h, trailer
}

// announce adds the names that a Trailer field lists to a header, nil for a new one.
func announce(trailer http.Header, list string) http.Header {
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.Trim(item, " \t"); item == "" {
			continue
		}
		if trailer == nil {
			trailer = http.Header{}
		}
		trailer[http.CanonicalHeaderKey(item)] = nil
	}
	return trailer
}

// responseTurn is the answer in the words that all engines share.
func (x *exchange) responseTurn(w *wire, head *http2.MetaHeadersFrame) (*http.Response, error) {
	status, err := statusOf(head)
	if err != nil {
		return nil, err
	}
	r := &http.Response{StatusCode: status, ProtoMajor: 2, ContentLength: -1, Body: http.NoBody}
	r.Header, r.Trailer = fieldsOf(head)
	lengths := r.Header["Content-Length"]
	for _, text := range lengths {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil || r.ContentLength >= 0 && int64(n) != r.ContentLength {
			return nil, fmt.Errorf("%w: a length that is none", errFrames)
		}
		r.ContentLength = int64(n)
	}
	if len(lengths) > 1 {
		r.Header["Content-Length"] = lengths[:1]
	}
	body := &turnBody{x: x, w: w, resp: r, left: r.ContentLength}
	if http1.Bodiless(x.message.method, status) {
		r.ContentLength, body.left = 0, 0
	}
	x.result.Status = status
	x.form, x.formed = runtime.Form{Reason: http.StatusText(status)}, true
	if head.StreamEnded() {
		if w.h2.ends = true; body.left > 0 {
			return nil, io.ErrUnexpectedEOF
		}
		r.ContentLength = 0
		return r, nil
	}
	x.form.Ready = w.br.Buffered() > frameHead
	r.Body, w.h2.before = body, x.hurry // what came with the head may have been frames of another kind
	return r, nil
}

// ended reports whether the stream was read to its end, and another one may follow.
func (c *h2conn) ended() bool {
	return c.ends && c.left == 0 && c.pad == 0 && !c.gone && c.stream < lastStream
}

// turnBody is the body of an answer on a stream.
type turnBody struct {
	x    *exchange
	w    *wire
	resp *http.Response // gets the trailer fields at the end
	left int64          // that were announced; -1: nobody has said
	err  error
}

// Close implements [io.Closer]. The exchange cuts what was not read to its end.
func (b *turnBody) Close() error { return nil }

// Read implements [io.Reader]. It reads what has come, of many frames, and waits for
// none but the first.
func (b *turnBody) Read(p []byte) (n int, err error) {
	if b.err != nil {
		return 0, b.err
	}
	c := b.w.h2
	b.w.readWithin(b.x.lines.o.IdleTimeout) // also where bytes have come: they may be a part of what is read next
	for n < len(p) && b.err == nil {
		got := 0
		if got, b.err = b.some(p[n:], n == 0); got == 0 && b.err == nil {
			break
		}
		n += got
	}
	if c.taken >= windowStep && b.err == nil {
		if b.err = c.reply(c.credit); c.flush() != nil {
			c.gone = true // what was sent before that can be read all the same
		}
	}
	if late(b.err) {
		b.err = errIdle
	}
	if n > 0 && b.err != io.EOF {
		return n, nil // the error comes next
	}
	return n, b.err
}

// some reads data of one frame, or the end. Without wait it may read nothing.
func (b *turnBody) some(p []byte, wait bool) (n int, err error) {
	c, w := b.w.h2, b.w
	for c.left == 0 {
		if _, err := w.br.Discard(c.pad); err != nil {
			return 0, cutShort(err)
		}
		if c.pad = 0; c.ends {
			return 0, b.end()
		}
		if wait && c.taken >= windowStep { // of padding alone
			if err := c.reply(c.credit); err != nil {
				return 0, err
			}
		}
		head, err := c.advance(wait)
		if err == errNothingYet { //nolint:errorlint // what advance returns itself
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		if head != nil {
			return 0, b.trailers(head)
		}
		if b.left >= 0 && int64(c.left) > b.left {
			return 0, fmt.Errorf("%w: more data than was announced", errFrames)
		}
	}
	if wait && w.br.Buffered() == 0 {
		b.x.hurry()
	}
	if !wait && w.br.Buffered() == 0 && !w.gulp.Ready(w.got) {
		return 0, nil
	}
	w.dry = !wait
	n, err = w.br.Read(p[:min(len(p), c.left)])
	w.dry = false
	c.left -= n
	if b.left >= 0 {
		b.left -= int64(n)
	}
	return n, cutShort(err)
}

// end is the end of a body, which must have come whole.
func (b *turnBody) end() error {
	if b.left > 0 {
		return io.ErrUnexpectedEOF
	}
	return io.EOF
}

// trailers takes the head that ends a stream (RFC 9113 section 8.1).
func (b *turnBody) trailers(head *http2.MetaHeadersFrame) error {
	switch {
	case head.Truncated:
		return errLargeAnswer
	case !head.StreamEnded() || len(head.PseudoFields()) > 0:
		return fmt.Errorf("%w: a head in the middle of an answer", errFrames)
	}
	b.w.h2.ends = true
	got, _ := fieldsOf(head)
	if b.resp.Trailer == nil {
		b.resp.Trailer = http.Header{}
	}
	for name, list := range got {
		b.resp.Trailer[name] = list
	}
	return b.end()
}

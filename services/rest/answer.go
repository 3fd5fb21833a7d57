package rest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// answer gives status, fields, body and trailers to the responder, each byte
// as it comes.
func (x *exchange) answer(ctx context.Context, resp *http.Response, body io.Reader) error {
	x.sent.silent.end()
	header := resp.Header
	x.noteRefusal(resp.StatusCode, header)
	x.cleanAnswer(header, resp.StatusCode)
	if resp.Close { // net/http has taken the field out where it said so, and no other names of it are left
		x.declare(runtime.ChangeHop, "Connection")
	}
	if names := x.announced(resp.Trailer); len(names) > 0 {
		header["Trailer"] = []string{strings.Join(names, ", ")}
		if resp.ProtoMajor == 2 && x.message.mirror && header["Content-Length"] != nil {
			delete(header, "Content-Length") // HTTP/1.1 has trailers only in a chunked body
			x.declare(runtime.ChangeFraming, "Content-Length")
		}
	}
	scan, err := x.scanner(ctx, resp, header)
	if err != nil {
		return err
	}
	x.scrubHead(header)
	if out, ok := x.out.(runtime.Verbatim); ok && x.formed {
		out.Like(x.form)
	}
	if out, ok := x.out.(runtime.Holding); ok && (x.form.Ready || !x.formed) {
		x.held = out
	}
	if err := x.out.Start(resp.StatusCode, header); err != nil {
		return callerGone{err}
	}
	if err := scan(x, body); err != nil {
		return err
	}
	dropped := func(name string) { x.declare(runtime.ChangeTrailer, name) }
	if trailer := cleanTrailer(resp.Trailer, dropped, endsAnswer); len(trailer) > 0 {
		x.scrubHead(trailer)
		x.out.Trailer(trailer)
	}
	return nil
}

// announced returns the trailer names that may be announced, sorted. net/http
// has changed their case, so that a search of the finished field would not find
// the credential in them. Of very many the first are announced: the surface of HTTP/2
// compares each with each.
func (x *exchange) announced(trailer http.Header) []string {
	var names []string
	for name := range trailer {
		switch {
		case x.message.scrub.InName(name):
			x.declare(runtime.ChangeScrubbedName, "")
			x.result.Scrubbed++
		case !endsAnswer(name):
			x.declare(runtime.ChangeTrailer, name)
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names[min(len(names), mostAnnounced):] {
		x.declare(runtime.ChangeTrailer, name)
	}
	return names[:min(len(names), mostAnnounced)]
}

// mostAnnounced is how many trailer fields are announced; others may follow all the same.
const mostAnnounced = 256

// write sends bytes of the body to the caller.
func (x *exchange) write(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	x.held = nil // the head leaves with them
	n, err := x.out.Write(p)
	if err != nil {
		return callerGone{err}
	}
	if n != len(p) {
		return callerGone{io.ErrShortWrite}
	}
	return nil
}

// copyPlain passes the body on unseen.
func (x *exchange) copyPlain(body io.Reader) error {
	return x.withBuffer(func(buf []byte) error {
		for {
			n, err := body.Read(buf)
			x.result.BytesIn += int64(n)
			if werr := x.write(buf[:n]); werr != nil {
				return werr
			}
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
}

// upgrade joins the caller's connection with the upstream's.
func (x *exchange) upgrade(ctx context.Context, resp *http.Response) error {
	upstream, ok := resp.Body.(io.ReadWriteCloser)
	got := strings.Join(values(resp.Header, "upgrade"), ", ")
	if x.message.upgrade == "" || !ok || !slices.Contains(tokens([]string{x.message.upgrade}), fold(got)) {
		return &runtime.Error{
			Code: runtime.CodeUpstream,
			Msg:  hostOf(x.message.authority) + " switched protocols without being asked to, or to another one",
			Hint: "nothing was passed on",
		}
	}
	header := resp.Header
	x.cleanAnswer(header, resp.StatusCode)
	x.declare(runtime.ChangeUpgrade, "Connection")
	x.declare(runtime.ChangeUpgrade, "Upgrade")
	header["Connection"], header["Upgrade"] = []string{"Upgrade"}, []string{got}
	x.scrubHead(header)
	of := framesOf(got, header)
	if x.message.scrub != nil && of == nil {
		if err := x.unsearched(got); err != nil {
			return err
		}
	}
	if err := x.out.Start(resp.StatusCode, header); err != nil {
		return x.failure(ctx, ctx, callerGone{err})
	}
	caller, err := x.out.Upgrade()
	if err != nil {
		return x.failure(ctx, ctx, callerGone{err})
	}
	stop := context.AfterFunc(ctx, func() { _, _ = caller.Close(), upstream.Close() })
	defer stop()
	if hold := x.b.o.Hold; hold != nil {
		t := trustOf(x.call, x.message.authority)
		defer hold(x.message.authority, x.result.Address, t.trusted, t.loopback, func() { x.sever(caller, upstream) })()
	}
	return x.splice(ctx, caller, upstream, of)
}

// sever ends an upgraded connection for whoever waits for nobody: a goodbye in TLS takes
// seconds where the other side reads nothing.
func (x *exchange) sever(caller net.Conn, upstream io.Closer) {
	if conn := x.conn.Load(); conn != nil {
		conn.cut()
	}
	go func() { _, _ = caller.Close(), upstream.Close() }()
}

// splice copies both ways until both have ended. The end of one way is passed
// on, the other goes on as long as something moves in it. A caller that has ended its way
// itself, and is gone before anything more came, broke nothing off: programs say goodbye and end.
// What comes in frames is searched for the credential.
func (x *exchange) splice(ctx context.Context, caller net.Conn, upstream io.ReadWriteCloser, of *frames) error {
	ended := make(chan struct{}, 2)
	var out, in atomic.Int64
	var goodbye atomic.Int64 // what had come when the caller ended its way
	goodbye.Store(-1)
	var refused atomic.Pointer[runtime.Error] // what was not passed on
	pump := func(dst io.Writer, src io.Reader, n *atomic.Int64) {
		defer func() { ended <- struct{}{} }()
		var err error
		if src == io.Reader(upstream) && of != nil && x.message.scrub != nil {
			err = x.passMasked(dst, src, of, n)
		} else {
			err = x.pass(dst, src, n)
		}
		if named := (*runtime.Error)(nil); errors.As(err, &named) {
			refused.Store(named)
		}
		if err == nil && src == io.Reader(caller) {
			goodbye.Store(in.Load())
		}
		if err != nil || halfClose(dst) != nil {
			_, _ = caller.Close(), upstream.Close()
		}
	}
	go pump(upstream, caller, &out)
	go pump(caller, upstream, &in)
	<-ended
	left := x.whileMoving(ended, func() int64 { return out.Load() + in.Load() })
	_, _ = caller.Close(), upstream.Close()
	if left {
		<-ended
	}
	x.sent.mu.Lock()
	x.sent.read += out.Load()
	x.sent.mu.Unlock()
	x.result.BytesIn = in.Load()
	if e := refused.Load(); e != nil {
		return e
	}
	if ctx.Err() != nil && goodbye.Load() != in.Load() {
		return x.failure(ctx, ctx, ctx.Err())
	}
	return nil
}

// whileMoving waits for an end as long as something moves, and reports whether it has not
// come: it may be that nobody is there any more, and the other side does not mind.
func (x *exchange) whileMoving(ended <-chan struct{}, moved func() int64) (left bool) {
	tick := time.NewTicker(x.lines.o.IdleTimeout)
	defer tick.Stop()
	for was := moved(); ; {
		select {
		case <-ended:
			return false
		case <-tick.C:
		}
		now := moved()
		if now == was {
			return true
		}
		was = now
	}
}

// pass copies with a pooled buffer and without looking for shortcuts.
func (x *exchange) pass(dst io.Writer, src io.Reader, n *atomic.Int64) (err error) {
	defer runtime.Contain(&err)
	return x.b.withBuffer(func(buf []byte) error {
		for {
			got, err := src.Read(buf)
			if got > 0 {
				if _, werr := dst.Write(buf[:got]); werr != nil {
					return werr
				}
				n.Add(int64(got))
			}
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
}

// halfClose ends one way of a connection that can, all of one that cannot.
func halfClose(w io.Writer) error {
	if half, ok := w.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

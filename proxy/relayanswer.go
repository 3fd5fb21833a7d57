package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// relayed gives the answer of a backend to a client of the relay engine as it
// came: the upstream's status line and fields, each write at once, an aborted
// answer never with a clean end.
type relayed struct {
	r         *relay
	method    string
	asker     runtime.Asker
	minor     byte     // of the client's version
	close     bool     // the connection ends with this answer
	body      *inbound // of the request, nil for none
	upgrading *place   // of a request that asks for an upgrade

	form      runtime.Form
	like      bool // form is known
	status    int
	switching http.Header // the head of a 101, until Upgrade
	waiting   bool        // the head stands in r.out, for the first bytes of the body
	left      int64       // of a known Content-Length; -1: unknown
	bodiless  bool
	chunked   bool
	trailer   http.Header
	taken     *taken
	aborted   bool
}

var _ runtime.Verbatim = (*relayed)(nil)

func (a *relayed) sent() int { return a.status }

var errTooMuch = errors.New("the answer is longer than its Content-Length")

// proceed says 100 (Continue), unless the answer has begun.
func (a *relayed) proceed() {
	a.r.writing.Lock()
	defer a.r.writing.Unlock()
	if a.status == 0 {
		a.r.armWrite()
		_, _ = a.r.c.Conn.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	}
}

// Informational implements [runtime.Responder]. 100 is said when the body is
// first read; 1.0 clients know no 1xx.
func (a *relayed) Informational(status int, header http.Header) error {
	if status <= http.StatusSwitchingProtocols || status > 199 || a.minor == 0 || a.status != 0 {
		return nil
	}
	h := make(http.Header, len(header))
	copyFields(h, header)
	head := http1.AppendStatus(nil, status, http.StatusText(status))
	return a.r.write(append(http1.AppendFields(head, h, nil), "\r\n"...))
}

// Like implements [runtime.Verbatim].
func (a *relayed) Like(form runtime.Form) { a.form, a.like = form, true }

// Hurry implements [runtime.Holding].
func (a *relayed) Hurry() {
	if a.waiting {
		a.waiting = false
		a.settle(a.r.write(a.r.out))
	}
}

// Start implements [runtime.Responder].
func (a *relayed) Start(status int, header http.Header) error {
	if err := startable(a.status, status); err != nil {
		return err
	}
	a.r.writing.Lock()
	a.status = status
	a.r.writing.Unlock()
	if header == nil {
		header = http.Header{}
	}
	if status == http.StatusSwitchingProtocols {
		a.switching = header
		return nil
	}
	if talksBeside(status) {
		a.body.talk()
	}
	trailer := header["Trailer"]
	keepAnswer(header)
	return a.begin(status, header, trailer)
}

// begin sends the head, or keeps it for the first bytes of the body.
func (a *relayed) begin(status int, header http.Header, trailer []string) error {
	a.frame(status, header, trailer)
	reason := http.StatusText(status)
	if a.like {
		reason = a.form.Reason
	}
	a.r.out = http1.AppendStatus(a.r.out[:0], status, reason)
	a.r.out = append(http1.AppendFields(a.r.out, header, a.form.Order), "\r\n"...)
	if a.waiting = !a.bodiless && a.left != 0 && a.together(); a.waiting {
		return nil
	}
	return a.r.write(a.r.out)
}

// together reports whether the head can wait for the first bytes of the body:
// they have come with it, or belong to a small answer. Two writes cost more than
// a small answer. Streams have no known length and do not wait.
func (a *relayed) together() bool {
	return a.form.Ready || !a.like && a.left > 0 && a.left <= together
}

// frame decides how the body ends and writes the fields that say so.
func (a *relayed) frame(status int, header http.Header, trailer []string) {
	if n, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		a.left = n
	}
	if a.bodiless = http1.Bodiless(a.method, status); status == http.StatusNoContent {
		delete(header, "Content-Length") // RFC 9110 section 8.6
	}
	if a.left < 0 && !a.bodiless {
		if a.chunked = a.minor > 0; a.chunked {
			header["Transfer-Encoding"] = []string{"chunked"}
			if len(trailer) > 0 {
				header["Trailer"] = trailer
			}
		} else {
			a.close = true
		}
	}
	beside := a.chunked && talksBeside(status) // a stream that may answer the body piece by piece
	a.close = a.close || a.minor == 0 || a.r.s.relays.draining.Load() || !beside && a.body.outlasts()
	if a.close {
		header["Connection"] = []string{"close"}
	}
}

// Write implements [io.Writer].
func (a *relayed) Write(p []byte) (int, error) {
	if a.bodiless || len(p) == 0 {
		return len(p), nil
	}
	if a.chunked {
		return a.writeChunk(p)
	}
	if a.left >= 0 {
		if int64(len(p)) > a.left {
			return 0, errTooMuch
		}
		a.left -= int64(len(p))
	}
	if a.waiting {
		a.waiting = false
		return wrote(p, a.r.writeBehind(p))
	}
	return wrote(p, a.r.write(p))
}

// chunkFrame is what a chunk has beside its data, in bytes at most.
const chunkFrame = 16 + 4

func (a *relayed) writeChunk(p []byte) (int, error) {
	if !a.waiting {
		a.r.out = a.r.out[:0]
	}
	a.waiting = false
	a.r.room(len(p) + chunkFrame)
	a.r.out = http1.AppendChunk(a.r.out, p)
	return wrote(p, a.r.write(a.r.out))
}

func wrote(p []byte, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Trailer implements [runtime.Responder].
func (a *relayed) Trailer(header http.Header) { a.trailer = header }

// Upgrade implements [runtime.Responder].
func (a *relayed) Upgrade() (net.Conn, error) {
	if a.switching == nil {
		return nil, fmt.Errorf("no upgrade of an answer with status %d", a.status)
	}
	if a.body != nil && !a.body.ended.Load() {
		return nil, errors.New("no upgrade before the end of the request's body")
	}
	r := a.r
	r.watch.end()
	r.c.guard.release()
	if r.c.leave != nil {
		r.c.leave()
	}
	client := &taken{conn: r.c}
	if rest, _ := r.br.Peek(r.br.Buffered()); len(rest) > 0 {
		client.prefix = append([]byte(nil), rest...)
	}
	a.taken = client
	r.s.relays.leave(r) // a drain does not wait for it
	if a.upgrading != nil {
		if client.tunnel == nil {
			a.upgrading.hold(client)
		}
		a.upgrading.upgrade()
	}
	context.AfterFunc(r.ctx, func() { _ = client.Close() })
	_ = client.SetDeadline(time.Time{})
	if _, err := client.Write([]byte(upgradeHead(a.switching))); err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

// Abort implements [runtime.Responder]. The connection breaks in finish, after
// the pipeline has written the outcome.
func (a *relayed) Abort(error) { a.aborted = a.status != 0 }

// finish ends the answer: with a refusal if none was started, with a broken
// connection if it was aborted or is too short.
func (a *relayed) finish(err error) {
	switch {
	case a.taken != nil:
		if a.aborted {
			a.taken.reset()
		}
	case a.switching != nil && a.aborted:
		a.switching, a.status = nil, 0
		a.refuse(runtime.AsError(err))
	case a.aborted || a.status != 0 && !a.bodiless && a.left > 0:
		a.breakOff()
	case err != nil:
		a.refuse(runtime.AsError(err))
	case a.status == 0 || a.switching != nil:
		a.refuse(&runtime.Error{Code: runtime.CodeInternal, Stage: runtime.StageExecute, Msg: "the backend gave no answer"})
	case a.chunked:
		if !a.waiting {
			a.r.out = a.r.out[:0]
		}
		a.r.out = http1.AppendLastChunk(a.r.out, a.trailer)
		a.settle(a.r.write(a.r.out))
	case a.waiting: // no body came, and its length was not known
		a.settle(a.r.write(a.r.out))
	}
}

// settle ends the connection after a write that failed.
func (a *relayed) settle(err error) {
	if err != nil {
		a.close = true
		_ = a.r.c.Close()
	}
}

// breakOff ends an answer that is not complete such that nobody can take it for
// complete.
func (a *relayed) breakOff() {
	if a.waiting {
		_ = a.r.write(a.r.out)
	}
	toEnd := !a.chunked && !a.bodiless && a.left < 0
	a.close, a.aborted = true, true
	if toEnd {
		a.r.c.reset()
		return
	}
	_ = a.r.c.Close()
}

// refuse answers with a problem document.
func (a *relayed) refuse(e *runtime.Error) {
	p := page{header: http.Header{}}
	runtime.WriteProblem(&p, e, a.asker)
	if unknown(e) && !a.r.c.peer.Owner {
		a.close = true
	}
	p.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	a.r.writing.Lock()
	a.status, a.form, a.like, a.chunked, a.left = p.status, runtime.Form{}, false, false, -1
	a.r.writing.Unlock()
	err := a.begin(p.status, p.header, nil)
	if err == nil {
		_, err = a.Write(p.body.Bytes())
	}
	a.settle(err)
}

// page is a document of our own.
type page struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header, WriteHeader and Write implement [http.ResponseWriter].
func (p *page) Header() http.Header         { return p.header }
func (p *page) WriteHeader(status int)      { p.status = status }
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }

var _ http.ResponseWriter = (*page)(nil)

// keepAnswer drops from an answer what is for one connection only.
func keepAnswer(h http.Header) {
	if named := h["Connection"]; len(named) > 0 {
		for _, name := range http1.List(named) {
			h.Del(name)
		}
	}
	for _, name := range hopFields {
		delete(h, name)
	}
}

// foldList joins lists in lower case, for hasWord.
func foldList(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return strings.ToLower(strings.Join(values, ","))
}

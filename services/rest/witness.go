package rest

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/kimbap-run/kimbap/runtime"
)

// witness sees both sides of one exchange and breaks it when they differ by
// more than was declared (Options.VerifyMutations; mutation.go compares). It
// looks in two places: at the message before a connection is asked for, which
// every engine passes, and at the bytes on the connection, which it reads
// itself. All its methods do nothing on nil. It is safe for concurrent use.
type witness struct {
	call   *runtime.Call
	result *runtime.Result
	secret string
	built  bool // there is no caller's form to compare with

	mu      sync.Mutex
	broken  error
	upgrade bool
	request allowed // as declared when the connection was lent

	came     side  // the request
	sent     queue // its body
	held     []byte
	out      *transcript
	outEnd   side
	in       *transcript // nil: the answer is seen as net/http gives it
	interims []side
	final    side
	got      queue
	inEnd    func() side
	given    side // trailer of the answer
}

// queue holds bytes that came and did not leave yet.
type queue struct {
	bytes  []byte
	masked bool
	skip   bool // what leaves is another body
}

// leave takes bytes that leave, and reports whether they are the ones that came.
func (q *queue) leave(p []byte, answer bool) bool {
	if q.skip {
		return true
	}
	if len(p) > len(q.bytes) {
		return false
	}
	same := bytes.Equal(p, q.bytes[:len(p)])
	if !same && (!answer || !masks(q.bytes[:len(p)], p)) {
		return false
	}
	q.masked = q.masked || !same
	q.bytes = q.bytes[len(p):]
	return true
}

// witness returns the witness of a call, nil when nobody asked for one. It must
// see the call before the message is made.
func (b *Backend) witness(call *runtime.Call, result *runtime.Result) *witness {
	if !b.o.VerifyMutations {
		return nil
	}
	raw := call.Request.Raw
	w := &witness{call: call, result: result, built: raw == nil, outEnd: newSide(), given: newSide(), inEnd: newSide}
	if raw == nil {
		return w
	}
	if w.came = cameOf(call.Request); raw.Body != nil {
		raw.Body = &passing{src: raw.Body, w: w, q: &w.sent}
	}
	return w
}

// cameOf is the request as the surface got it: from the bytes of its head where
// they were kept.
func cameOf(r *runtime.Request) side {
	if r.Raw.Head != nil {
		if s, err := parseSide(r.Raw.Head, false); err == nil {
			return s
		}
	}
	s := newSide()
	s.method, s.target = r.Target.Method, r.Target.Path
	s.add("Host", r.Target.Authority)
	for name, list := range r.Raw.Header {
		if name != "Content-Length" || r.Raw.Body == nil {
			s.add(name, list...)
		}
	}
	if len(r.Raw.Announced) > 0 {
		s.add("Trailer", strings.Join(r.Raw.Announced, ", "))
	}
	if r.Raw.Body != nil {
		s.frame(r.Raw.ContentLength)
	}
	return s
}

// leavingOf is the request as the message says it.
func leavingOf(m *message) side {
	s := newSide()
	s.method, s.target = m.method, m.target
	s.add("Host", bareHost(m.scheme, m.authority))
	for name, list := range m.header {
		s.add(name, list...)
	}
	if len(m.announced) > 0 {
		s.add("Trailer", strings.Join(m.announced, ", "))
	}
	switch {
	case m.body != nil:
		s.frame(m.length)
	case m.empty:
		s.frame(0)
	}
	return s
}

// judge compares what came with the message. It must be called before anything
// leaves.
func (w *witness) judge(m *message) error {
	if w == nil {
		return nil
	}
	if m.scrub != nil {
		w.secret = strings.ToLower(w.call.Credential.Value.Reveal())
	}
	w.upgrade = m.upgrade != ""
	if w.built {
		w.came = leavingOf(m)
		w.came.method = m.method
		w.sent.bytes = m.whole
		return nil
	}
	a := w.allowed(false)
	w.sent.skip = a.has(runtime.ChangeCredentialBody, "")
	if err := a.request(w.came, leavingOf(m), m.authority); err != nil {
		return w.fail(err)
	}
	return nil
}

// allowed are the changes declared up to now.
func (w *witness) allowed(answer bool) allowed {
	return allowed{changes: slices.Clone(w.result.Changed), answer: answer, secret: w.secret}
}

// fail keeps the first difference.
func (w *witness) fail(err error) error {
	if w.broken == nil {
		w.broken = err
	}
	return w.broken
}

// fault is the first difference that was found, nil when there is none.
func (w *witness) fault() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// lend begins to watch a connection, anew for each that the exchange is lent.
func (w *witness) lend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.request, w.held = w.allowed(false), nil
	if raw := w.call.Request.Raw; raw != nil {
		if whole, ok := raw.Buffered(); ok {
			w.sent.bytes = whole
		}
	}
	w.out = &transcript{
		head: func(s side) error { return w.request.request(w.came, s, w.authority()) },
		body: func(p []byte) error {
			if !w.sent.leave(p, false) {
				return undeclared("the body of the request")
			}
			return nil
		},
		end: func(trailer side) error { w.outEnd = trailer; return nil },
	}
	w.in = &transcript{
		answer: true, method: w.came.method,
		head: func(s side) error {
			if s.status/100 == 1 && s.status != http.StatusSwitchingProtocols {
				w.interims = append(w.interims, s)
			} else {
				w.final = s
			}
			return nil
		},
		body: func(p []byte) error { w.got.bytes = append(w.got.bytes, p...); return nil },
		end:  func(trailer side) error { w.inEnd = func() side { return trailer }; return nil },
	}
}

// authority is that of the request, canonical.
func (w *witness) authority() string {
	if w.built {
		return ""
	}
	return w.call.Request.Target.Authority
}

// write takes bytes for the connection and returns those that may go. A head
// goes whole, once it was compared.
func (w *witness) write(p []byte) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return nil, w.broken
	}
	if w.out.state == wireOver && !w.upgrade {
		return nil, w.fail(undeclared("something follows the request"))
	}
	w.held = append(w.held, p...)
	if err := w.out.feed(p); err != nil {
		return nil, w.fail(err)
	}
	if w.out.state == wireHead {
		return nil, nil
	}
	ready := w.held
	w.held = nil
	return ready, nil
}

// read takes bytes of the connection. What is no HTTP shows when the answer is
// compared, if net/http took it for some.
func (w *witness) read(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.in.feed(p)
}

// answered takes the answer of an engine whose connection is not watched.
func (w *witness) answered(resp *http.Response) {
	if w == nil || w.in != nil {
		return
	}
	w.final = newSide()
	w.final.status = resp.StatusCode
	for name, list := range resp.Header {
		w.final.add(name, list...)
	}
	for name := range resp.Trailer {
		w.final.add("Trailer", name)
	}
	w.inEnd = func() side {
		s := newSide()
		for name, list := range resp.Trailer {
			s.add(name, list...)
		}
		return s
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &passing{src: resp.Body, w: w, q: &w.got}
	}
}

// done looks at what can be seen at the end of an exchange that went well.
func (w *witness) done() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return w.broken
	}
	if err := w.requestEnded(); err != nil {
		return w.fail(err)
	}
	if w.final.status == http.StatusSwitchingProtocols {
		return nil
	}
	a := w.allowed(true)
	switch {
	case len(w.got.bytes) > 0:
		return w.fail(undeclared("the end of the answer's body is missing"))
	case w.got.masked && !a.has(runtime.ChangeScrubbedBody, ""):
		return w.fail(undeclared("the body of the answer"))
	}
	if err := a.trailer(w.inEnd(), w.given); err != nil {
		return w.fail(err)
	}
	return nil
}

// requestEnded compares the end of a request that was sent to its end.
func (w *witness) requestEnded() error {
	raw := w.call.Request.Raw
	if w.out == nil || w.out.state != wireOver || raw == nil || raw.Body == nil {
		return nil
	}
	if len(w.sent.bytes) > 0 && !w.sent.skip {
		return undeclared("the end of the request's body is missing")
	}
	if raw.Trailer == nil || w.came.framing() != "chunked" {
		return nil
	}
	came := newSide()
	for name, list := range raw.Trailer() {
		came.add(name, list...)
	}
	return w.allowed(false).trailer(came, w.outEnd)
}

// passing reads a body and keeps in a queue what came.
type passing struct {
	src io.Reader
	w   *witness
	q   *queue
}

// Read implements [io.Reader].
func (p *passing) Read(b []byte) (int, error) {
	n, err := p.src.Read(b)
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.q.bytes = append(p.q.bytes, b[:n]...)
	return n, err
}

// Close implements [io.Closer].
func (p *passing) Close() error {
	if c, ok := p.src.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// watched is a Responder under the eyes of a witness.
type watched struct {
	runtime.Responder
	w *witness
}

// watch returns the responder of an exchange.
func (w *witness) watch(out runtime.Responder) runtime.Responder {
	if w == nil {
		return out
	}
	return &watched{out, w}
}

// Like implements [runtime.Verbatim].
func (o *watched) Like(form runtime.Form) {
	if v, ok := o.Responder.(runtime.Verbatim); ok {
		v.Like(form)
	}
}

// NoBody implements [runtime.Bare].
func (o *watched) NoBody() {
	if b, ok := o.Responder.(runtime.Bare); ok {
		b.NoBody()
	}
}

// Informational implements [runtime.Responder].
func (o *watched) Informational(status int, header http.Header) error {
	if err := o.w.informed(status, header); err != nil {
		return err
	}
	return o.Responder.Informational(status, header)
}

// informed compares a 1xx with the next one of that status that came.
func (w *witness) informed(status int, header http.Header) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.in == nil {
		return nil
	}
	for len(w.interims) > 0 {
		came := w.interims[0]
		if w.interims = w.interims[1:]; came.status == status {
			return w.compare(came, status, header)
		}
	}
	return w.fail(undeclared("an answer %d that nobody gave", status))
}

// compare holds the head of an answer against what is given to the caller.
func (w *witness) compare(came side, status int, header http.Header) error {
	left := newSide()
	for name, list := range header {
		left.add(name, list...)
	}
	if came.status != status {
		return w.fail(undeclared("the status"))
	}
	if err := w.allowed(true).fields(came, left); err != nil {
		return w.fail(err)
	}
	return nil
}

// Start implements [runtime.Responder].
func (o *watched) Start(status int, header http.Header) error {
	o.w.mu.Lock()
	err := o.w.compare(o.w.final, status, header)
	o.w.mu.Unlock()
	if err != nil {
		return err
	}
	return o.Responder.Start(status, header)
}

// Write implements [io.Writer].
func (o *watched) Write(p []byte) (int, error) {
	o.w.mu.Lock()
	same, err := o.w.got.leave(p, true), error(nil)
	if !same {
		err = o.w.fail(undeclared("the body of the answer"))
	}
	o.w.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return o.Responder.Write(p)
}

// Trailer implements [runtime.Responder].
func (o *watched) Trailer(header http.Header) {
	o.w.mu.Lock()
	for name, list := range header {
		o.w.given.add(name, list...)
	}
	o.w.mu.Unlock()
	o.Responder.Trailer(header)
}

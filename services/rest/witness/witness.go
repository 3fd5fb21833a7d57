package witness

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/kimbap-run/kimbap/runtime"
)

// Witness sees both sides of one exchange. Of a nil one, Answered, Watch, Fault and
// Done may be called and find nothing. It is safe for concurrent use.
type Witness struct {
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

// New returns the witness of a call. It must see the call before the request that
// leaves is made: it keeps what is read of the caller's body. Result is where
// changes are declared.
func New(call *runtime.Call, result *runtime.Result) *Witness {
	raw := call.Request.Raw
	w := &Witness{call: call, result: result, built: raw == nil, outEnd: newSide(), given: newSide(), inEnd: newSide}
	if raw == nil {
		return w
	}
	if w.came = cameOf(call.Request); raw.Body != nil {
		passes := &passing{src: raw.Body, w: w, q: &w.sent}
		if src, ok := raw.Body.(halting); ok {
			raw.Body = halted{passes, src}
		} else {
			raw.Body = passes
		}
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

// Leaving is a request as it is about to leave.
type Leaving struct {
	Method, Target string
	Host           string
	Authority      string // canonical, which Host may say otherwise
	Header         http.Header
	Announced      []string // what Trailer will list
	Framed         bool     // its end is told
	Length         int64    // of the body, when it is framed; -1: unknown
	Whole          []byte   // the body of a request that no caller wrote
	Upgrade        bool     // another protocol is asked for
	Credential     bool     // the stored one goes out
}

// side is l as it is compared.
func (l *Leaving) side() side {
	s := newSide()
	s.method, s.target = l.Method, l.Target
	s.add("Host", l.Host)
	for name, list := range l.Header {
		s.add(name, list...)
	}
	if len(l.Announced) > 0 {
		s.add("Trailer", strings.Join(l.Announced, ", "))
	}
	if l.Framed {
		s.frame(l.Length)
	}
	return s
}

// Judge compares what came with what is to leave. It must be called before
// anything does.
func (w *Witness) Judge(l Leaving) error {
	if l.Credential {
		w.secret = strings.ToLower(w.call.Credential.Value.Reveal())
	}
	w.upgrade = l.Upgrade
	if w.built {
		w.came = l.side()
		w.sent.whole(l.Whole)
		return nil
	}
	a := w.allowed(false)
	w.sent.skip = a.has(runtime.ChangeCredentialBody, "") || a.has(runtime.ChangePlaceholder, "")
	if err := a.request(w.came, l.side(), l.Authority); err != nil {
		return w.fail(err)
	}
	return nil
}

// allowed are the changes declared up to now.
func (w *Witness) allowed(answer bool) allowed {
	return allowed{changes: slices.Clone(w.result.Changed), answer: answer, secret: w.secret}
}

// fail keeps the first difference.
func (w *Witness) fail(err error) error {
	if w.broken == nil {
		w.broken = err
	}
	return w.broken
}

// Fault is the first difference that was found, nil when there is none.
func (w *Witness) Fault() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// Lend begins to watch a connection, anew for each that the exchange is lent.
func (w *Witness) Lend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.request, w.held = w.allowed(false), nil
	if raw := w.call.Request.Raw; raw != nil {
		if whole, ok := raw.Buffered(); ok {
			w.sent.whole(whole)
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
		body: func(p []byte) error { w.got.come(p); return nil },
		end:  func(trailer side) error { w.inEnd = func() side { return trailer }; return nil },
	}
}

// authority is that of the request, canonical.
func (w *Witness) authority() string {
	if w.built {
		return ""
	}
	return w.call.Request.Target.Authority
}

// Outgoing takes bytes for the connection and returns those that may go. A head
// goes whole, once it was compared.
func (w *Witness) Outgoing(p []byte) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return nil, w.broken
	}
	if w.out.state == wireOver && !w.upgrade {
		return nil, w.fail(undeclared("something follows the request"))
	}
	if err := w.out.feed(p); err != nil {
		return nil, w.fail(err)
	}
	if w.out.state == wireHead {
		w.held = append(w.held, p...)
		return nil, nil
	}
	if w.held == nil {
		return p, nil
	}
	ready := append(w.held, p...)
	w.held = nil
	return ready, nil
}

// Incoming takes bytes of the connection. What is no HTTP shows when the answer is
// compared, if net/http took it for some.
func (w *Witness) Incoming(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.in.feed(p)
}

// Answered takes the answer of an engine whose connection is not watched.
func (w *Witness) Answered(resp *http.Response) {
	if w == nil || w.in != nil {
		return
	}
	w.final = newSide()
	w.final.status, w.final.old = resp.StatusCode, resp.ProtoMajor != 1
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

// Done looks at what can be seen at the end of an exchange that went well.
func (w *Witness) Done() error {
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
func (w *Witness) requestEnded() error {
	raw := w.call.Request.Raw
	if w.out == nil || w.out.state != wireOver || raw == nil || raw.Body == nil {
		return nil
	}
	if len(w.sent.bytes) > 0 && !w.sent.skip {
		return undeclared("the end of the request's body is missing")
	}
	if raw.Trailer == nil || strings.HasPrefix(raw.Proto, "HTTP/1.") && w.came.framing() != "chunked" {
		return nil
	}
	came := newSide()
	for name, list := range raw.Trailer() {
		came.add(name, list...)
	}
	return w.allowed(false).trailer(came, w.outEnd)
}

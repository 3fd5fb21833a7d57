package proxy

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/proxy/http2"
	"github.com/kimbap-run/kimbap/runtime"
)

// serveStream takes one stream through the pipeline. A panic is kept to it.
func (s *Server) serveStream(st *http2.Stream) {
	s.active.Add(1)
	defer s.active.Done()
	h, c := st.Head, connOf(st.Context())
	a := &streamed{s: s, c: c, st: st, method: h.Method, left: -1}
	defer a.recover()
	if refused := checkStream(h, c.tunnel, s.o.Limits); refused != nil {
		a.letGo()
		a.finish(s.sendRefused(st.Context(), c, refused, a))
		return
	}
	target, host := h.Path, h.Authority
	if h.Method == http.MethodConnect {
		target = h.Authority
	}
	if host == "" { // RFC 9113 section 8.3.1
		host = h.Host[0]
	}
	req := s.newRequest(c.tunnel.caller, runtime.Target{Method: h.Method})
	req.Raw = rawStream(a)
	ctx := st.Context()
	p := passage{s: s, c: c, req: req}
	defer p.leave() // also when enter panics
	p.enter(ctx, asked{method: h.Method, target: target, host: host, scheme: h.Scheme})
	if req.Refusal == nil && h.Length == 0 && !h.Ended {
		req.Refusal = a.endEmpty(req.Raw)
	}
	if asksGRPC(h.Header) && h.Length < 0 { // a subscription may be answered with its first event
		st.Listens()
	}
	a.finish(s.send(ctx, req, a))
}

// checkStream refuses the head of a stream for what [parseHead] refuses in a head of
// HTTP/1.1, and one that names two hosts.
func checkStream(h *http2.Head, t *tunnel, limits Limits) *runtime.Error {
	switch {
	case h.Malformed != "":
		if err := checkLength(h.Header["Content-Length"]); err != nil {
			return err
		}
		return badHead(h.Malformed)
	case h.TooLarge:
		return tooLarge("the request head is over the limit")
	case !http1.IsToken(h.Method):
		return badHead("the method is not a token")
	case h.Method != http.MethodConnect:
		if err := checkTarget(h.Path); err != nil {
			return err
		}
	}
	if err := checkSize(h, limits); err != nil {
		return err
	}
	for _, value := range h.Header["Expect"] {
		if err := refuseExpect(value); err != nil {
			return err
		}
	}
	for _, value := range h.Header["Trailer"] {
		if err := refuseTrailer(value); err != nil {
			return err
		}
	}
	return checkHosts(h, t)
}

// checkLength refuses a Content-Length that two readers could read otherwise.
func checkLength(given []string) *runtime.Error {
	if len(given) > 1 {
		return ambiguous("", "the field content-length is there more than once")
	}
	for _, value := range given {
		if strings.Trim(value, "0123456789") != "" || value == "" {
			return ambiguous("", "Content-Length is not a number")
		}
	}
	return nil
}

// checkSize refuses a head that is over the limits.
func checkSize(h *http2.Head, limits Limits) *runtime.Error {
	fields, bytes := h.Fields, len(h.Method)+len(h.Path)+len(h.Authority)
	for name, values := range h.Header {
		for _, value := range values {
			bytes += len(name) + len(value) + len(": \r\n")
		}
	}
	for _, value := range h.Header["Trailer"] {
		fields += 1 + strings.Count(value, ",")
	}
	if fields > limits.HeaderFields {
		return tooLarge("the request has more than " + strconv.Itoa(limits.HeaderFields) + " header fields")
	}
	if bytes > limits.HeaderBytes {
		return tooLarge("the request head is over the limit")
	}
	return nil
}

// checkHosts refuses a head without a host, with several, or with two that differ: of
// :authority and Host, which clients of HTTP/2 may send beside it, servers take either.
func checkHosts(h *http2.Head, t *tunnel) *runtime.Error {
	switch {
	case len(h.Host) > 1:
		return ambiguous("", "the field host is there more than once")
	case len(h.Host) == 0 && h.Authority == "":
		return badHead("there is neither :authority nor a Host field")
	case len(h.Host) == 0 || h.Authority == "":
		return nil // route looks at the one there is
	}
	one, err := classifier.CanonicalAuthority(h.Authority, runtime.DefaultPort(t.scheme))
	if err != nil {
		return invalidHost(":authority is not a valid host and port", h.Authority, err)
	}
	other, err := classifier.CanonicalAuthority(h.Host[0], runtime.DefaultPort(t.scheme))
	if err != nil {
		return invalidHost("the Host field is not a valid host and port", h.Host[0], err)
	}
	if one != other {
		return misdirected(":authority", one, "the Host field", other)
	}
	return nil
}

// rawStream is the client's request as the backend may send it.
func rawStream(a *streamed) *runtime.Raw {
	h := a.st.Head
	raw := &runtime.Raw{Proto: "HTTP/2.0", Header: maps.Clone(h.Header), ContentLength: h.Length}
	if expect := raw.Header["Expect"]; len(expect) > 0 {
		a.waits.Store(true)
	}
	announced := http1.List(raw.Header["Trailer"])
	raw.Changed = endToEnd(raw.Header)
	if h.Ended || h.Length == 0 {
		raw.ContentLength = 0
		return raw
	}
	raw.Body, raw.Trailer = &streamBody{a: a}, a.st.Trailer
	for _, name := range announced {
		raw.Announced = append(raw.Announced, http.CanonicalHeaderKey(name))
	}
	slices.Sort(raw.Announced)
	return raw
}

// endEmpty waits for the end of a body that is to be empty. Trailer fields may come with it,
// which cannot follow a length, as those of any other body that says its own: they are
// declared.
func (a *streamed) endEmpty(raw *runtime.Raw) *runtime.Error {
	if _, err := (&runtime.Raw{Body: &streamBody{a: a}}).Buffer(0); err != nil {
		e := *runtime.AsError(err)
		e.Stage = runtime.StageSurface
		return &e
	}
	for _, name := range slices.Sorted(maps.Keys(a.st.Trailer())) {
		raw.Changed = append(raw.Changed, runtime.Change{Kind: runtime.ChangeTrailer, Name: name})
	}
	return nil
}

// streamBody is the body of a stream. Reading may be done by a goroutine of the backend.
type streamBody struct {
	a    *streamed
	stop func() bool // of the time that the whole body has; nil: none
}

var _ arriving = (*streamBody)(nil)

// by gives the whole body a time. Nothing reads from it yet.
func (b *streamBody) by(end time.Time) {
	if b.stop != nil {
		b.stop()
		b.stop = nil
	}
	if !end.IsZero() {
		b.stop = b.a.st.ReadUntil(end)
	}
}

// Read implements [io.Reader]. The first read of a body that the client holds back asks
// for it (RFC 9110 section 10.1.1).
func (b *streamBody) Read(p []byte) (int, error) {
	if b.a.waits.Load() && b.a.waits.CompareAndSwap(true, false) {
		_ = b.a.st.Informational(http.StatusContinue, nil) // too late when the answer has begun
	}
	n, err := b.a.st.Read(p)
	if fault := blameStream(err); fault != nil {
		err = fault
	}
	return n, err
}

// Halt implements what a backend asks of a body that it no longer waits for.
func (b *streamBody) Halt() { b.a.st.Halt() }

// blameStream says what the client did that ended its request, nil where it went away. The
// stream was reset, or the whole connection ended: this is for the record.
func blameStream(err error) error {
	var e *runtime.Error
	switch {
	case errors.Is(err, http2.ErrStream):
		e = ambiguous("", "its body is not as long as it says, or its frames are malformed")
	case errors.Is(err, http2.ErrFlood):
		e = &runtime.Error{
			Code: runtime.CodeRateLimited, Reason: runtime.ReasonTooManyRequests, Stage: runtime.StageSurface,
			Msg: "the client sent more frames that say nothing than are taken on a connection", Hint: "send fewer",
		}
	case errors.Is(err, http2.ErrTooLarge): // of another stream
		e = tooLarge("a head that the client sent on the same connection is far over the limit")
	case errors.Is(err, http2.ErrStalled):
		e = tooSlow("a frame of HTTP/2 that the client had begun did not come in time", nil)
	default:
		return nil
	}
	e.Err = err
	return e
}

package rest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest/scrub"
	"github.com/kimbap-run/kimbap/services/rest/witness"
)

// message is a request as it will leave.
type message struct {
	scheme, authority string
	method            string
	target            string // path and query, byte for byte
	header            http.Header
	plain             bool     // all names of header are canonical
	order             []string // the caller's field names as written; nil: not known
	length            int64    // of the body; -1: unknown
	body              io.Reader
	whole             []byte // the body, when it is all in memory
	empty             bool   // the caller said Content-Length: 0
	trailer           func() http.Header
	marked            func(name string, list []string) bool // whether a trailer field holds a placeholder; nil: none does
	announced         []string
	upgrade           string // the protocol asked for, "" for none
	private           []string
	privately         [5]string      // its place
	judged            bool           // an action of a service was, by its method and target
	scrub             *scrub.Matcher // nil: no stored credential goes out
	used              runtime.CredentialUse
	mirror            bool            // the caller speaks HTTP/1.1, or none at all: so does its connection, where one of its own is dialled
	before            int             // requests on the caller's connection, or calls of its script: see exchange.turn
	own               bool            // built here, so that nobody chose how it is sent
	result            *runtime.Result // where changes are declared
}

// declare notes a change of the request.
func (m *message) declare(kind runtime.ChangeKind, name string) {
	m.result.Declare(runtime.Change{Kind: kind, Name: name})
}

// usualChanges is how many changes most requests have beside the caller's hop by hop
// fields: the host, the credential, and what the caller had in its place.
const usualChanges = 3

// forward takes the caller's own request.
func (b *Backend) forward(call *runtime.Call, result *runtime.Result) (*message, error) {
	raw, t := call.Request.Raw, &call.Request.Target
	result.Changed = append(make([]runtime.Change, 0, len(raw.Changed)+usualChanges), raw.Changed...)
	named := tokens(values(raw.Header, "connection"))
	header, plain := cleanRequest(raw.Header, named, call.Action, result)
	m := &message{
		result: result,
		scheme: t.Scheme, authority: t.Authority, method: t.Method, target: t.Path,
		header: header, plain: plain, judged: !call.Action.Ref.Foreign(),
		order:  raw.Order,
		mirror: strings.HasPrefix(raw.Proto, "HTTP/1."), before: raw.Before,
		length: raw.ContentLength, body: raw.Body, trailer: raw.Trailer,
	}
	m.declare(runtime.ChangeHost, "Host")
	if implied(raw.Header) {
		m.declare(runtime.ChangeImplied, "Cache-Control")
	}
	if raw.Body == nil {
		m.length, m.trailer = 0, nil
		m.empty = slices.ContainsFunc(raw.Header["Content-Length"], isZero) // of no twin, which is dropped
	} else if whole, ok := raw.Buffered(); ok {
		m.setBody(whole)
	}
	for _, name := range raw.Announced {
		if trailerAllowed(name, nil) {
			m.announced = append(m.announced, name)
		} else {
			m.declare(runtime.ChangeTrailer, name)
		}
	}
	if m.length >= 0 { // no trailers follow a body that says its length, but over HTTP/2
		for _, name := range m.announced {
			m.declare(runtime.ChangeTrailer, name)
		}
		m.announced = nil
	}
	// An upgrade may be left out of account, and in HTTP/1.0 it must be (RFC 9110 section
	// 7.8); what is a body would be part of both.
	if m.body == nil && raw.Proto != "HTTP/1.0" {
		m.upgrade = upgradeOf(raw.Header, named)
	}
	websocket := strings.EqualFold(m.upgrade, "websocket")
	if call.Action.Ref == runtime.ActionPass && !websocket {
		m.upgrade = "" // any protocol could follow, and that is net.tunnel
	}
	if m.upgrade == "" {
		return m, nil
	}
	if !call.Action.Ref.Foreign() && (!call.Action.WebSocket || !websocket) {
		return nil, noUpgrade(call.Action.Ref, m.method, m.upgrade)
	}
	m.declare(runtime.ChangeUpgrade, "Connection")
	m.declare(runtime.ChangeUpgrade, "Upgrade")
	m.header["Connection"], m.header["Upgrade"] = []string{"Upgrade"}, []string{m.upgrade}
	return m, nil
}

// noUpgrade refuses what would follow unjudged. For an action that can allow it the service
// file is the way; to any other protocol there is none.
func noUpgrade(ref runtime.Ref, method, protocol string) error {
	hint := "ask without Upgrade, or for websocket by GET, as kubectl does from 1.31 on: a service lets no other protocol follow"
	if method == http.MethodGet && strings.EqualFold(protocol, "websocket") {
		hint = "ask without Upgrade, or set websocket: true on the action"
	}
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonUpgradeNotAllowed,
		Msg: fmt.Sprintf("the action %s does not allow an upgrade to %q", ref, runtime.Printable(protocol)), Hint: hint,
	}
}

// isZero reports whether a Content-Length is 0, in any of its spellings.
func isZero(length string) bool { return length != "" && strings.Trim(length, "0") == "" }

// built takes the request that was made of the action and judged. Without one nothing is
// known to have been.
func built(call *runtime.Call, result *runtime.Result) (*message, error) {
	if call.Built == nil {
		return nil, &runtime.Error{Code: runtime.CodeInternal, Msg: "there is no request of the action that was judged", Err: runtime.ErrNotSent}
	}
	m := messageOf(call.Built, result)
	m.mirror, m.own = true, true // HTTP/1.1 costs less, and several calls at a time need not share one connection
	m.before = max(call.Request.Step-1, 0)
	return m, nil
}

// messageOf is a built request as it can be given its credential: it may be sent again, so
// it stays as it is.
func messageOf(r *runtime.Built, result *runtime.Result) *message {
	m := &message{scheme: r.Scheme, authority: r.Authority, method: r.Method, target: r.Target, header: r.Header.Clone(), result: result}
	if r.Body != nil {
		m.setBody(r.Body)
	}
	if len(r.Body) == 0 { // net/http would not say that nothing comes
		m.body = nil
	}
	return m
}

// setBody makes the body one in memory. Its length is what is said of it, unless trailers
// follow it, which stay.
func (m *message) setBody(whole []byte) {
	m.whole, m.body = whole, bytes.NewReader(whole)
	if m.trailer == nil || m.length >= 0 {
		if m.length < 0 {
			m.declare(runtime.ChangeFraming, "Transfer-Encoding")
		}
		m.length = int64(len(whole))
	}
}

// check refuses what could not leave as it was written.
func (m *message) check() error {
	if m.method == "" || m.authority == "" || m.scheme != "https" && m.scheme != "http" {
		return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "the request has no method, host or known scheme"}
	}
	if m.whole != nil && m.length >= 0 && m.length != int64(len(m.whole)) { // what follows would be another request
		return &runtime.Error{Code: runtime.CodeInternal, Msg: "the body of the request is not as long as it says"}
	}
	if strings.HasPrefix(m.target, "//") {
		_, err := m.url()
		return err
	}
	return m.checkTarget()
}

// checkTarget refuses a target that is no path, or would end its line.
func (m *message) checkTarget() error {
	bad := func(c rune) bool { return c <= ' ' || c == 0x7f }
	if m.target != "*" && !strings.HasPrefix(m.target, "/") || strings.ContainsFunc(m.target, bad) {
		return errTarget("it is not a path, or holds a blank or control character")
	}
	return nil
}

// url returns a URL that net/http writes as the target, byte for byte.
func (m *message) url() (*url.URL, error) {
	if err := m.checkTarget(); err != nil {
		return nil, err
	}
	u := &url.URL{Scheme: m.scheme, Host: m.authority, Opaque: m.target}
	if !strings.HasPrefix(m.target, "//") {
		return u, nil
	}
	u.Opaque = "" // net/url would write a scheme before the slashes
	path, query, asked := strings.Cut(m.target, "?")
	plain, err := url.PathUnescape(path)
	u.Path, u.RawPath, u.RawQuery, u.ForceQuery = plain, path, query, asked
	if err != nil || u.RequestURI() != m.target {
		return nil, errTarget("it starts with \"//\" and holds characters that would have to be rewritten")
	}
	return u, nil
}

func errTarget(why string) error {
	return &runtime.Error{
		Code: runtime.CodeAmbiguousTarget, Reason: runtime.ReasonInvalidTarget,
		Msg: "the request target cannot be sent as it was written: " + why, Hint: "percent-encode it",
	}
}

// request makes the net/http form of the message. What is read from the body
// is counted and can be stopped in sent. Of HTTP/2 it is the form for golang.org/x/net.
func (m *message) request(ctx context.Context, sent *upload, h2 bool) (*http.Request, error) {
	u, err := m.url()
	if err != nil {
		return nil, err
	}
	r := (&http.Request{
		Method: m.method, URL: u, Host: bareHost(m.scheme, m.authority), Header: m.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Close: !h2 && m.ownsConnection(),
	}).WithContext(ctx)
	if r.Close {
		m.declare(runtime.ChangeFraming, "Connection")
	}
	if m.upgrade != "" {
		r.Header = http1.SpellWebSocket(m.header)
	}
	if m.body == nil && !m.empty && needsLength(m.method) {
		m.declare(runtime.ChangeFraming, "Content-Length") // net/http says 0 (RFC 9110 section 8.6)
	}
	switch {
	case m.body == nil && m.empty && (m.method == http.MethodGet || m.method == http.MethodHead):
		r.Header = m.header.Clone()
		r.Header["content-length"] = []string{"0"} // net/http drops it here, but for a spelling it does not know
	case m.body == nil && m.empty:
		r.Body, r.TransferEncoding = http.NoBody, []string{"identity"} // net/http then writes the length of 0
	case m.body == nil:
	case m.whole != nil && m.length >= 0:
		r.ContentLength = m.length
		r.GetBody = func() (io.ReadCloser, error) { return sent.again(m.whole), nil }
		r.Body, _ = r.GetBody()
	case m.whole != nil:
		again := sent.again(m.whole)
		r.Body, r.ContentLength, r.TransferEncoding = again, -1, []string{"chunked"}
		again.atEnd = m.trailers(r, sent, h2)
	default:
		r.Body, r.ContentLength = besideOf(sent), m.length
		if m.length < 0 {
			r.TransferEncoding = []string{"chunked"}
		}
		sent.atEnd = m.trailers(r, sent, h2)
	}
	return r, nil
}

// needsLength reports whether net/http says the length of a body that is not there.
func needsLength(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// trailers lets the caller's trailer fields follow the body. net/http writes
// what is in the map when the body has ended, before which the result must be called;
// nil: there are none.
func (m *message) trailers(r *http.Request, sent *upload, h2 bool) (atEnd func()) {
	if m.trailer == nil || m.length >= 0 || h2 && len(m.announced) == 0 {
		return nil
	}
	r.Trailer = http.Header{}
	for _, name := range m.announced {
		if trailerAllowed(name, m.noTrailer()) {
			r.Trailer[http.CanonicalHeaderKey(name)] = nil
		} else {
			m.declare(runtime.ChangeTrailer, name)
		}
	}
	trailer := r.Trailer
	return func() {
		clear(trailer)
		for name, list := range m.tail(sent) {
			trailer[name] = list
		}
	}
}

// tail are the caller's trailer fields that go out, known once the body has ended. A
// placeholder is dropped there: what is before it has left already.
func (m *message) tail(sent *upload) http.Header {
	sent.tail()
	private := m.noTrailer()
	out := cleanTrailer(m.trailer(), sent.drop, func(name string) bool { return trailerAllowed(name, private) })
	for name, list := range out {
		if m.marked != nil && m.marked(name, list) {
			delete(out, name)
			sent.drop(name)
		}
	}
	return out
}

// lost are the trailer fields of a body that was sent without any: one that says its
// length has none in HTTP/1.1, and golang.org/x/net/http2 sends them only if one was announced.
func (m *message) lost(sent *upload) (names []string) {
	if m.trailer == nil || sent.tailed || !sent.ended && m.whole == nil {
		return nil
	}
	for name := range m.trailer() {
		if !slices.Contains(m.result.Changed, runtime.Change{Kind: runtime.ChangeTrailer, Name: name}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// noTrailer are the fields of a head that may not follow the body instead: a server
// that puts trailers to the head would find them there.
func (m *message) noTrailer() []string {
	if !m.judged {
		return m.private
	}
	return append(m.private[:len(m.private):len(m.private)], misleading[:]...)
}

// values returns the values of a field under all its spellings.
func (m *message) values(name string) []string {
	if m.plain {
		return m.header[keyOf(name)]
	}
	return values(m.header, fold(name))
}

// remove deletes a field under all its spellings and returns those that were there.
func (m *message) remove(name string) []string {
	if !m.plain {
		return remove(m.header, name)
	}
	key := keyOf(name)
	if _, there := m.header[key]; !there {
		return nil
	}
	delete(m.header, key)
	return []string{key}
}

// awaits reports whether the caller holds its body back until it hears 100 (Continue).
func (m *message) awaits() bool {
	return slices.Contains(tokens(m.values("Expect")), "100-continue")
}

// ownsConnection reports whether a connection of HTTP/1.1 must not be used again: the
// request authenticates it, or waits for 100 (Continue). On one that is kept net/http
// sends the body also after a refusal, and the caller, who has seen the refusal, never
// would.
func (m *message) ownsConnection() bool { return m.awaits() || m.authenticates() }

// authenticates reports whether the request authenticates its connection (NTLM,
// Negotiate): one of HTTP/2 is not the caller's alone.
func (m *message) authenticates() bool {
	for _, value := range m.values("Authorization") {
		scheme, _, _ := strings.Cut(value, " ")
		if strings.EqualFold(scheme, "NTLM") || strings.EqualFold(scheme, "Negotiate") {
			return true
		}
	}
	return false
}

// leaving is the message as a witness compares it.
func (m *message) leaving() witness.Leaving {
	l := witness.Leaving{
		Method: m.method, Target: m.target, Host: bareHost(m.scheme, m.authority), Authority: m.authority,
		Header: m.header, Announced: m.announced, Framed: m.body != nil || m.empty, Whole: m.whole,
		Upgrade: m.upgrade != "", Credential: m.scrub != nil,
	}
	if m.body != nil {
		l.Length = m.length
	}
	return l
}

// bareHost is the authority without the scheme's own port, as clients write it.
func bareHost(scheme, authority string) string {
	if scheme == "https" {
		return strings.TrimSuffix(authority, ":443")
	}
	return strings.TrimSuffix(authority, ":80")
}

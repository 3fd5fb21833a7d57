package rest_test

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/net/http2/hpack"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

func TestNewRefusesToDialUnguarded(t *testing.T) {
	if _, err := rest.New(rest.Options{}); err == nil {
		t.Error("a backend without a dialer was made")
	}
}

// Every target that is accepted arrives byte for byte; the others are refused.
func TestTargetArrivesAsWritten(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	for _, target := range []string{
		"/", "/a/b", "/a%2Fb", "/a%2fb/%7E~", "/a?", "/a?b=c&b=d&&x", "/a;v=1/b", "/[x]{y}|^`\"<>", "/a?q=%zz[]|",
		"/%e4%b8%ad", "/a//b", "/./x/../y", "/caf\xc3\xa9?\xff", "//host/path?x", "/a:b@c", "/a?u=http://x/y?z", "/%", "/a\\b", "/#frag",
	} {
		c := pass(r.call("GET", target))
		if _, _, err := r.do(t, c); err != nil {
			t.Errorf("%q: %v", target, err)
			continue
		}
		if got := r.Last(t).Line; got != "GET "+target+" HTTP/1.1" {
			t.Errorf("%q arrived as %q", target, got)
		}
	}
	c := pass(r.call("OPTIONS", "*"))
	r.must(t, c)
	equal(t, "OPTIONS", r.Last(t).Line, "OPTIONS * HTTP/1.1")
	for _, target := range []string{"", "x", "/a b", "/a\r\nX: y", "/\x00", "http://other/", "//a<b"} {
		r.refused(t, pass(r.call("GET", target)), runtime.CodeAmbiguousTarget, runtime.ReasonInvalidTarget)
	}
}

func TestNothingIsAdded(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	r.must(t, pass(r.call("GET", "/x", "Accept: a", "X-Multi: 1", "X-Multi: 2", "Cookie: a=b")))
	want := "GET /x HTTP/1.1\r\nHost: " + r.Authority + "\r\nAccept: a\r\nCookie: a=b\r\nX-Multi: 1\r\nX-Multi: 2\r\n\r\n"
	equal(t, "head", string(r.Last(t).Head), want)

	r.must(t, pass(r.call("GET", "/x", "User-Agent: a", "User-Agent: b")))
	agents := append(r.Last(t).Fields("User-Agent"), r.Last(t).Fields("user-agent")...)
	if !slices.Equal(agents, []string{"a", "b"}) {
		t.Errorf("two User-Agent became %q", agents)
	}
	for _, method := range []string{"DELETE", "GET", "HEAD", "POST", "OPTIONS"} {
		for _, length := range []string{"0", "00"} {
			r.must(t, pass(r.call(method, "/x", "Content-Length: "+length)))
			if got := r.Last(t).Header["Content-Length"]; !slices.Equal(got, []string{"0"}) {
				t.Errorf("Content-Length: %s of a %s became %q", length, method, got)
			}
		}
	}
}

func TestHopByHopFieldsStay_PC001(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	r.must(t, r.call("GET", "/p", "Connection: X-Secret, keep-alive", "X-Secret: hop", "Keep-Alive: 5", "Te: trailers, gzip",
		"Proxy-Connection: keep-alive", "Proxy-Authorization: Basic a2V5", "Upgrade: h2c", "X-End: stays"))
	last := r.Last(t)
	for _, name := range []string{"X-Secret", "Keep-Alive", "Connection", "Proxy-Connection", "Proxy-Authorization", "Upgrade"} {
		if last.Fields(name) != nil {
			t.Errorf("%s reached the upstream", name)
		}
	}
	equal(t, "TE", strings.Join(last.Fields("Te"), "|"), "trailers")
	equal(t, "X-End", strings.Join(last.Fields("X-End"), "|"), "stays")
}

func TestOurOwnCredentialNeverLeaves_CL017(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	for _, c := range []*runtime.Call{
		r.call("GET", "/", "Proxy-Authorization: a", "proxy-authorization: b", "PROXY_AUTHORIZATION: c", "X-Kimbap-Token: d", "x-kimbap-token: e"),
		pass(r.call("GET", "/", "Proxy-Authorization: a", "proxy-authorization: b", "PROXY_AUTHORIZATION: c", "X-Kimbap-Token: d", "x-kimbap-token: e")),
	} {
		r.must(t, c)
		head := strings.ToLower(string(r.Last(t).Head))
		if strings.Contains(head, "proxy") || strings.Contains(head, "kimbap") {
			t.Errorf("%s: our own credential left:\n%s", c.Action.Ref, head)
		}
	}
}

func TestMisleadingFieldsAreDropped(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	fields := []string{"X-Original-Url: /admin", "X-Rewrite-Url: /admin", "X-Forwarded-Host: evil", "X-Http-Method-Override: DELETE", "X-Forwarded-For: 1.2.3.4"}
	_, result := r.must(t, r.call("GET", "/", fields...))
	if want := []string{"X-Forwarded-Host", "X-Http-Method-Override", "X-Original-Url", "X-Rewrite-Url"}; !slices.Equal(result.NotableChanges(), want) {
		t.Errorf("changed: %q, want %q", result.NotableChanges(), want)
	}
	if head := string(r.Last(t).Head); strings.Contains(head, "admin") || !strings.Contains(head, "1.2.3.4") {
		t.Errorf("head:\n%s", head)
	}
	r.must(t, pass(r.call("GET", "/", fields...)))
	if r.Last(t).Fields("X-Rewrite-Url") == nil {
		t.Error("a host with no service lost a field")
	}
	for name := range strings.FieldsSeq(`X-Original-Url X-Original-Uri X-Original-Host X-Original-Method X-Original-Path X-Rewrite-Url X-Rewrite-Uri X-Override-Url
		X-Forwarded-Host X-Forwarded-Server X-Forwarded-Uri X-Forwarded-Url X-Forwarded-Path X-Forwarded-Prefix X-Forwarded-Method Forwarded X-Host
		X-Http-Host-Override X-Http-Method-Override X-Http-Method X-Method-Override X-Envoy-Original-Path X-Envoy-Original-Host X-Envoy-Original-Method
		X-Waws-Unencoded-Url X-Http-Destinationurl`) {
		for _, spelling := range []string{name, strings.ReplaceAll(strings.ToLower(name), "-", "_")} {
			if r.must(t, r.call("GET", "/", spelling+": /admin")); strings.Contains(string(r.Last(t).Head), "admin") {
				t.Errorf("%s goes on", spelling)
			}
		}
	}
}

// The first byte is upstream before the last one is there.
func TestBodiesStream(t *testing.T) {
	for name, length := range map[string]int64{"known length": 10, "chunked": -1} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, servicestest.Options{})
			src, feed := io.Pipe()
			go func() {
				_, _ = feed.Write([]byte("first"))
				r.Await(t, func(all []servicestest.Request) bool {
					return len(all) == 1 && string(all[0].Body) == "first"
				})
				_, _ = feed.Write([]byte("-last"))
				_ = feed.Close()
			}()
			_, result := r.must(t, body(r.call("POST", "/up"), src, length))
			last := r.Last(t)
			equal(t, "body", string(last.Body), "first-last")
			equal(t, "bytes out", result.BytesOut, 10)
			if (length < 0) != (last.Fields("Transfer-Encoding") != nil) || (length > 0) != (last.Fields("Content-Length") != nil) {
				t.Errorf("framing:\n%s", last.Head)
			}
		})
	}
}

func TestTrailersOfTheCaller_CL020(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	c := body(r.call("POST", "/up"), strings.NewReader("data"), -1)
	c.Request.Raw.Announced = []string{"Authorization", "X-Sum"}
	c.Request.Raw.Trailer = func() http.Header {
		return http.Header{
			"Authorization": {"x"}, "Cookie": {"x"}, "Content-Length": {"3"}, "Transfer-Encoding": {"x"}, "Proxy-Authorization": {"x"},
			"X-Sum": {"42", "43"}, "X-Late": {"yes"},
		}
	}
	r.must(t, c)
	raw := string(r.Last(t).RawBody)
	equal(t, "raw body", raw, "4\r\ndata\r\n0\r\nX-Late: yes\r\nX-Sum: 42\r\nX-Sum: 43\r\n\r\n")
	equal(t, "Trailer", strings.Join(r.Last(t).Fields("Trailer"), "|"), "X-Sum")
}

// Trailers of HTTP/2 may follow a body that says its length, and need no announcement. Where
// they cannot go out, that is declared.
func TestTrailersThatCannotFollowAreDeclared(t *testing.T) {
	told := make(chan *upload, 1)
	for name, c := range map[string]struct {
		up        servicestest.Options
		length    int64
		announced []string
		goes      bool
	}{
		"HTTP/1.1, of a known length":   {servicestest.Options{}, 4, nil, false},
		"HTTP/1.1, announced":           {servicestest.Options{}, 4, []string{"X-Sum"}, false},
		"HTTP/1.1, of unknown length":   {servicestest.Options{}, -1, nil, true},
		"HTTP/2, not announced":         {recorder{}.serve(told), -1, nil, false},
		"HTTP/2, another was announced": {recorder{}.serve(told), -1, []string{"X-Other"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.up)
			call := body(r.call("POST", "/up"), strings.NewReader("data"), c.length)
			call.Request.Raw.Proto, call.Request.Raw.Announced = "HTTP/2.0", c.announced
			call.Request.Raw.Trailer = func() http.Header { return http.Header{"X-Sum": {"42"}} }
			_, result := r.must(t, call)
			sent := false
			if c.up.H2 != nil {
				got := <-told
				sent = slices.ContainsFunc(got.trailer, func(f hpack.HeaderField) bool { return f.Name == "x-sum" })
			} else {
				sent = strings.Contains(string(r.Last(t).RawBody), "X-Sum: 42")
			}
			n := 0
			for _, change := range result.Changed {
				if change == (runtime.Change{Kind: runtime.ChangeTrailer, Name: "X-Sum"}) {
					n++
				}
			}
			if sent != c.goes || n != map[bool]int{true: 0, false: 1}[sent] {
				t.Errorf("sent %t, declared %d times: %v", sent, n, result.Changed)
			}
		})
	}
}

// What would make a server act on another method or target is no more a trailer than a
// field of the head.
func TestMisleadingFieldsAreNoTrailers(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	send := func(c *runtime.Call) (servicestest.Request, runtime.Result) {
		c = body(c, strings.NewReader("data"), -1)
		c.Request.Raw.Announced = []string{"X-Http-Method-Override", "X-Sum"}
		c.Request.Raw.Trailer = func() http.Header {
			return http.Header{"X-Http-Method-Override": {"DELETE"}, "X_original_url": {"/admin"}, "X-Sum": {"42"}}
		}
		_, result := r.must(t, c)
		return r.Last(t), result
	}
	got, result := send(r.call("POST", "/up"))
	equal(t, "raw body", string(got.RawBody), "4\r\ndata\r\n0\r\nX-Sum: 42\r\n\r\n")
	equal(t, "Trailer", strings.Join(got.Fields("Trailer"), "|"), "X-Sum")
	for _, name := range []string{"X-Http-Method-Override", "X_original_url"} {
		if !slices.ContainsFunc(result.Changed, func(c runtime.Change) bool { return c.Kind == runtime.ChangeTrailer && c.Name == name }) {
			t.Errorf("%s is gone and was not declared: %v", name, result.Changed)
		}
	}
	if got, _ = send(pass(r.call("POST", "/up"))); !strings.Contains(string(got.RawBody), "X-Http-Method-Override: DELETE") {
		t.Errorf("a host with no service lost a trailer: %q", got.RawBody)
	}
}

func TestExpectContinue_PC004(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	answer, _ := r.must(t, body(r.call("POST", "/expect", "Expect: 100-continue"), strings.NewReader("12345"), 5))
	equal(t, "body", answer.Body, "5")

	asked := make(chan struct{}, 1)
	refused := body(r.call("POST", "/refuse-early", "Expect: 100-continue"), readerFunc(func([]byte) (int, error) {
		asked <- struct{}{}
		return 0, io.EOF
	}), 5)
	answer, _ = r.must(t, refused)
	equal(t, "status", answer.Status, 413)
	select {
	case <-asked:
		t.Error("the body was asked for although the upstream had refused")
	default:
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A body that rests for too long did not end: its time was over.
func TestABodyThatRestsTooLong(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	rests := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(os.ErrDeadlineExceeded))
	r.refused(t, body(r.call("POST", "/up"), rests, -1), runtime.CodeTimeout, "")
}

func TestCallerBreaksOffItsBody(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	broken := io.MultiReader(strings.NewReader("half"), readerFunc(func([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }))
	r.refused(t, body(r.call("POST", "/up"), broken, -1), runtime.CodeCanceled, "")
	r.Await(t, func(all []servicestest.Request) bool { return len(all) == 1 })
	if r.Last(t).Whole {
		t.Error("the upstream took half a body for a whole one")
	}
}

func TestUpgrades(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	ws := []string{"Connection: Upgrade", "Upgrade: websocket"}
	c := r.call("GET", "/", ws...)
	c.Action.WebSocket = false
	if e := r.refused(t, c, runtime.CodeForbidden, runtime.ReasonUpgradeNotAllowed); !strings.Contains(e.Hint, "websocket: true") {
		t.Errorf("the hint is %q", e.Hint)
	}
	r.refused(t, r.call("GET", "/", "Connection: Upgrade", "Upgrade: tcp"), runtime.CodeForbidden, runtime.ReasonUpgradeNotAllowed)
	for _, method := range []string{"GET", "POST"} { // kubectl before 1.31 asks with POST
		c := r.call(method, "/", "Connection: Upgrade", "Upgrade: SPDY/3.1", "Content-Length: 0")
		if e := r.refused(t, c, runtime.CodeForbidden, runtime.ReasonUpgradeNotAllowed); strings.Contains(e.Hint, "websocket: true") {
			t.Errorf("%s: no setting lets SPDY pass: %q", method, e.Hint)
		}
	}
	equal(t, "requests", len(r.Requests()), 0)
	r.must(t, pass(r.call("GET", "/", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "Http2-Settings: AAMA")))
	if head := string(r.Last(t).Head); strings.Contains(head, "h2c") || strings.Contains(head, "AAMA") {
		t.Errorf("h2c left:\n%s", head)
	}
	for _, other := range []string{"tcp", "websocket, tcp", "TLS/1.2"} { // net.pass is no tunnel of any protocol
		r.must(t, pass(r.call("GET", "/", "Connection: Upgrade", "Upgrade: "+other)))
		if head := string(r.Last(t).Head); strings.Contains(head, "pgrade") {
			t.Errorf("an upgrade to %s left:\n%s", other, head)
		}
	}
	r.refused(t, r.call("GET", "/101"), runtime.CodeUpstream, "")
	r.must(t, body(r.call("POST", "/items/1", ws...), strings.NewReader("text"), 4))
	if last := r.Last(t); strings.Contains(string(last.Head), "Upgrade") || string(last.Body) != "text" {
		t.Errorf("an upgrade left with a body, in which the other protocol would begin:\n%s%s", last.Head, last.Body)
	}
}

// A GET goes out again on a fresh connection when the kept one has gone; what
// may have had its effect never does.
func TestStaleConnections(t *testing.T) {
	r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{
		"/close": func(c *servicestest.Conn, q *servicestest.Request) bool {
			_ = c.ReadBody(q)
			c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			return false // without Connection: close
		},
		"/hang-up": func(c *servicestest.Conn, q *servicestest.Request) bool { _ = c.ReadBody(q); return false },
	}})
	for range 5 {
		r.must(t, r.call("GET", "/close"))
	}
	before := len(r.Requests())
	r.must(t, r.call("GET", "/keep"))
	r.refused(t, body(r.call("POST", "/hang-up"), strings.NewReader("once"), 4), runtime.CodeUpstream, runtime.ReasonUpstreamUnavailable)
	equal(t, "requests after the hang-up", len(r.Requests())-before, 2)
}

// A field that some servers take for Content-Length says nothing of the body: it is
// dropped, and no length of ours comes in its place unless net/http needs one.
func TestATwinOfTheLengthFramesNothing(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	c := r.call("POST", "/up")
	c.Request.Raw.Header["Content_length"] = []string{"0"}
	r.must(t, c)
	for name := range r.Last(t).Header {
		if strings.EqualFold(name, "Content_Length") {
			t.Error("the upstream saw it")
		}
	}
}

// HTTP/1.0 knows no upgrade (RFC 9110 section 7.8): the request goes on without.
func TestNoUpgradeOfHTTP10(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	c := r.call("GET", "/x")
	c.Request.Raw.Proto = "HTTP/1.0"
	c.Request.Raw.Header["Connection"], c.Request.Raw.Header["Upgrade"] = []string{"Upgrade"}, []string{"tcp"}
	r.must(t, c)
	if h := r.Last(t).Header; h["Upgrade"] != nil {
		t.Errorf("the upstream was asked for %v", h["Upgrade"])
	}
}

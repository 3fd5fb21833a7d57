package rest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

func TestFieldsOfAnAnswer_PC002(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	answer, _ := r.must(t, r.call("GET", "/hop"))
	for _, name := range []string{"Connection", "X-Hop", "Keep-Alive", "Proxy-Authenticate"} {
		if answer.Header[name] != nil {
			t.Errorf("%s reached the caller", name)
		}
	}
	equal(t, "X-End", answer.Header.Get("X-End"), "stays")
	answer, _ = r.must(t, r.call("GET", "/cookies"))
	if got := answer.Header["Set-Cookie"]; !slices.Equal(got, []string{"a=1", "b=2; Path=/", "c=3"}) {
		t.Errorf("cookies: %q", got)
	}
}

// Proxy-Status is for the caller, by whichever proxy on the way it was written (RFC 9209
// section 2), in a trailer too; unless this connection's end says that it is its own.
func TestProxyStatusReachesTheCaller(t *testing.T) {
	say := func(head string) servicestest.Behave {
		return func(c *servicestest.Conn, r *servicestest.Request) bool {
			return c.ReadBody(r) == nil && c.Send("HTTP/1.1 502 Bad Gateway\r\nProxy-Status: edge; error=dns_error\r\nProxy-Status: r2\r\nProxy-Info: x\r\n", head,
				"Transfer-Encoding: chunked\r\n\r\n", servicestest.Chunk("ok"), "0\r\nProxy-Status: edge; error=http_response_incomplete\r\nProxy-Info: x\r\n\r\n")
		}
	}
	r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{
		"/end": say("Trailer: Proxy-Status, Proxy-Info\r\n"), "/named": say("Connection: Proxy-Status\r\n"),
	}})
	answer, _ := r.must(t, r.call("GET", "/end"))
	equal(t, "Proxy-Status", strings.Join(answer.Header["Proxy-Status"], ", "), "edge; error=dns_error, r2")
	equal(t, "announced", answer.Header.Get("Trailer"), "Proxy-Status")
	equal(t, "at the end", answer.Trailer.Get("Proxy-Status"), "edge; error=http_response_incomplete")
	equal(t, "of one hop", len(answer.Header["Proxy-Info"])+len(answer.Trailer["Proxy-Info"]), 0)
	answer, _ = r.must(t, r.call("GET", "/named"))
	equal(t, "named by Connection", len(answer.Header["Proxy-Status"]), 0)
}

// A status that is none reaches nobody, whichever engine reads it, and over HTTP/2 too:
// net/http panics when it is asked to write one.
func TestAStatusThatIsNoneReachesNobody(t *testing.T) {
	for _, status := range []string{"099", "000", "-01", "99", "1000"} {
		r := newRig(t, routes("/status", func(c *servicestest.Conn, q *servicestest.Request) bool {
			return c.ReadBody(q) == nil && c.Send("HTTP/1.1 "+status+" Zap\r\nContent-Length: 2\r\n\r\nok")
		}))
		for _, fields := range [][]string{nil, {"Expect: 100-continue"}} { // the other one is net/http's in both engines
			r.refused(t, r.call("GET", "/status", fields...), runtime.CodeUpstream, "")
		}
		r = newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) { f.head(h.StreamID, true, ":status "+status) }))
		for _, proto := range []string{"HTTP/2.0", "HTTP/1.1"} {
			r.proto = proto
			r.refused(t, r.call("GET", "/status"), runtime.CodeUpstream, "")
		}
	}
}

// A name with a blank behind it is another field to some readers, and to others one
// that says where the answer ends. It reaches nobody, whichever engine reads it.
func TestFieldsWithABlankInTheirNameReachNobody(t *testing.T) {
	for _, line := range []string{"Content-Length : 3", "Transfer-Encoding : chunked", "Connection : X-A", "Set-Cookie\t: a=b", "X y: z"} {
		for _, form := range []string{
			"HTTP/1.1 200 OK\r\n" + line + "\r\nContent-Length: 5\r\n\r\nhello",
			"HTTP/1.1 103 Early\r\n" + line + "\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		} {
			r := newRig(t, routes("/blank", func(c *servicestest.Conn, q *servicestest.Request) bool {
				return c.ReadBody(q) == nil && c.Send(form)
			}))
			for _, fields := range [][]string{nil, {"Expect: 100-continue"}} {
				r.refused(t, r.call("GET", "/blank", fields...), runtime.CodeUpstream, "")
			}
		}
	}
	r := newRig(t, routes("/trailer", func(c *servicestest.Conn, q *servicestest.Request) bool {
		return c.ReadBody(q) == nil && c.Send("HTTP/1.1 200 OK\r\nTrailer: X y, X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 42\r\nContent-Length : 3\r\n\r\n")
	}))
	answer, _, _ := r.do(t, r.call("GET", "/trailer", "Expect: 100-continue"))
	if answer.Trailer["Content-Length "] != nil || strings.Contains(answer.Header.Get("Trailer"), " y") {
		t.Errorf("trailers %q, announced %q", answer.Trailer, answer.Header["Trailer"])
	}
}

// The last answer of a connection is whole, also where every change is looked for.
func TestTheLastAnswerOfAConnection(t *testing.T) {
	last := func(c *servicestest.Conn, r *servicestest.Request) bool {
		return c.ReadBody(r) == nil && !c.Send("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
	}
	r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/last": last}})
	answer, _ := r.must(t, r.call("GET", "/last"))
	equal(t, "answer", fmt.Sprint(answer.Status, answer.Header["Connection"], answer.Body), "413 []big")
}

// net/http reads a Cache-Control out of Pragma. That is declared, since it
// cannot be told from one that was sent. The relay passes on what came.
func TestImpliedCacheControlIsDeclared(t *testing.T) {
	pragma := func(c *servicestest.Conn, r *servicestest.Request) bool {
		return c.ReadBody(r) == nil && c.Send("HTTP/1.1 200 OK\r\nPragma: no-cache\r\nContent-Length: 0\r\n\r\n")
	}
	r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/pragma": pragma}})
	answer, result := r.must(t, r.call("GET", "/pragma"))
	if engine == rest.EngineRelay {
		equal(t, "Cache-Control", answer.Header.Get("Cache-Control"), "")
		return
	}
	if want := (runtime.Change{Kind: runtime.ChangeImplied, Name: "Cache-Control", Answer: true}); !slices.Contains(result.Changed, want) {
		t.Errorf("declared: %+v", result.Changed)
	}
}

// An upstream may name very many fields that are not passed on, in each 1xx answer others.
// Nobody compares them, so none is remembered, nor looked for among those before it.
func TestWhatNobodyComparesIsNotDeclared(t *testing.T) {
	hints := func(c *servicestest.Conn, r *servicestest.Request) bool {
		for n := range 4 {
			var head strings.Builder
			for field := range 1900 {
				fmt.Fprintf(&head, "Proxy-%d-%d: 1\r\n", n, field)
			}
			if !c.Send("HTTP/1.1 103 Early Hints\r\n", head.String(), "\r\n") {
				return false
			}
		}
		return c.ReadBody(r) == nil && c.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
	r := newRig(t, routes("/hints", hints), func(o *rest.Options) { o.VerifyMutations = false })
	if _, result := r.must(t, r.call("GET", "/hints")); len(result.Changed) > 10 {
		t.Errorf("%d changes are remembered", len(result.Changed))
	}
}

// A head has room for tens of thousands of names of trailers, and to announce them to a
// caller of HTTP/2 took seconds.
func TestVeryManyTrailersAreNotAnnounced(t *testing.T) {
	names := make([]string, 20_000)
	for n := range names {
		names[n] = fmt.Sprintf("X-%05d", n)
	}
	many := func(c *servicestest.Conn, r *servicestest.Request) bool {
		return c.ReadBody(r) == nil && c.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: ", strings.Join(names, ","),
			"\r\n\r\n", servicestest.Chunk("ok"), "0\r\nX-00001: a\r\nX-19999: b\r\n\r\n")
	}
	r := newRig(t, routes("/many", many), func(o *rest.Options) { o.VerifyMutations = false })
	answer, _ := r.must(t, r.call("GET", "/many"))
	equal(t, "announced", strings.Count(answer.Header.Get("Trailer"), ",")+1, 256)
	equal(t, "trailers", answer.Trailer.Get("X-00001")+answer.Trailer.Get("X-19999"), "ab")
}

// What is done to every message is in the result, and only what a caller sent
// in vain is in the record.
func TestChangesAreDeclared(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	_, result := r.must(t, r.call("GET", "/hop", "Keep-Alive: 5", "X-Kimbap-Token: t", "Authorization: Bearer mine", "X-Api-Key: k", "Proxy-Authorization: p"))
	var got []string
	for _, c := range result.Changed {
		got = append(got, fmt.Sprintf("%s %s %v", c.Kind, c.Name, c.Answer))
	}
	slices.Sort(got)
	want := []string{
		"caller_credential X-Api-Key false", "connection_named X-Hop true", "credential Authorization false", "hop_by_hop Connection true",
		"hop_by_hop Keep-Alive false", "hop_by_hop Keep-Alive true", "host Host false", "kimbap_field X-Kimbap-Token false",
		"proxy_field Proxy-Authenticate true", "proxy_field Proxy-Authorization false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("declared: %q\nwant      %q", got, want)
	}
	if notable := result.NotableChanges(); !slices.Equal(notable, []string{"X-Api-Key", "X-Kimbap-Token"}) {
		t.Errorf("in the record: %q", notable)
	}
}

func TestInterimAnswers_PC005(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	answer, _ := r.must(t, r.call("GET", "/103"))
	if !slices.Equal(answer.Interim, []int{103}) || answer.Body != "ok" {
		t.Errorf("103: %+v", answer)
	}
	closing := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/": func(c *servicestest.Conn, r *servicestest.Request) bool {
		return c.ReadBody(r) == nil && c.Send("HTTP/1.1 103 Early Hints\r\nConnection: close\r\nLink: </a>\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}}})
	answer, _ = closing.must(t, closing.call("GET", "/")) // net/http takes this Connection out, and a witness misses it
	if !slices.Equal(answer.Interim, []int{103}) || answer.Body != "ok" {
		t.Errorf("103 that says close: %+v", answer)
	}
	answer, _ = r.must(t, r.call("GET", "/100"))
	if len(answer.Interim) != 0 || answer.Body != "ok" {
		t.Errorf("100: %+v", answer)
	}
	answer, _, err := r.do(t, r.call("GET", "/101"))
	if runtime.CodeOf(err) != runtime.CodeUpstream || answer.Status != 0 {
		t.Errorf("101: %v %+v", err, answer)
	}
}

func TestAnswersWithoutBody_PC006_PC007(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	for range 3 {
		answer, _ := r.must(t, r.call("HEAD", "/head"))
		equal(t, "length of HEAD", answer.Header.Get("Content-Length"), "1234")
		equal(t, "body of HEAD", answer.Body, "")
		answer, _ = r.must(t, r.call("GET", "/204-body"))
		equal(t, "204", answer.Status, 204)
		equal(t, "length of 204", answer.Header.Get("Content-Length"), "")
		equal(t, "body of 204", answer.Body, "")
		answer, _ = r.must(t, r.call("GET", "/304-chunked"))
		equal(t, "304", fmt.Sprint(answer.Status, answer.Header.Get("ETag"), answer.Body), `304"v1"`)
		answer, _ = r.must(t, r.call("GET", "/205"))
		equal(t, "205", answer.Status, 205)
		answer, _ = r.must(t, r.call("GET", "/"))
		equal(t, "the next", answer.Body, "ok")
	}
}

func TestTruncatedAnswers_PC021(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	for _, path := range []string{"/cut", "/cut-chunked"} {
		answer, result, err := r.do(t, body(r.call("POST", path), strings.NewReader("x"), 1))
		e := runtime.AsError(err)
		if e == nil || e.Code != runtime.CodeUpstream || e.Reason != runtime.ReasonTruncated || answer.Aborted == nil {
			t.Errorf("%s: %v, aborted %v", path, err, answer.Aborted)
		}
		equal(t, "status", result.Status, 200)
	}
	equal(t, "requests", len(r.Requests()), 2)
}

// Each event is there before the next is sent.
func TestEventsArriveOneByOne_PC022(t *testing.T) {
	for name, coded := range map[string]bool{"plain": false, "gzip": true} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan string)
			r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/live": func(c *servicestest.Conn, q *servicestest.Request) bool {
				return live(c, coded, seen)
			}}})
			out := &notifying{Responder: &runtimetest.Responder{}, wrote: make(chan struct{}, 64)}
			done := make(chan error, 1)
			go func() {
				_, err := r.backend.Execute(context.Background(), r.call("GET", "/live"), out)
				done <- err
			}()
			for i := range 3 {
				seen <- fmt.Sprintf("data: %d\n\n", i)
				deadline := time.After(30 * time.Second)
				for !strings.Contains(out.text(t, coded), fmt.Sprintf("data: %d\n\n", i)) {
					select {
					case <-out.wrote:
					case <-deadline:
						t.Fatalf("event %d was held back: %q", i, out.Answer().Body)
					}
				}
			}
			close(seen)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

func live(c *servicestest.Conn, coded bool, events <-chan string) bool {
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
	if coded {
		head += "Content-Encoding: gzip\r\n"
	}
	c.Send(head + "\r\n")
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	for e := range events {
		if coded {
			_, _ = io.WriteString(w, e)
			_ = w.Flush()
			e = buf.String()
			buf.Reset()
		}
		c.Send(servicestest.Chunk(e))
	}
	if coded {
		_ = w.Close()
		c.Send(servicestest.Chunk(buf.String()))
	}
	return c.Send("0\r\n\r\n")
}

type notifying struct {
	*runtimetest.Responder
	wrote chan struct{}
}

func (n *notifying) Write(p []byte) (int, error) {
	defer func() { n.wrote <- struct{}{} }()
	return n.Responder.Write(p)
}

func (n *notifying) text(t *testing.T, coded bool) string {
	t.Helper()
	got := n.Answer().Body
	if !coded || got == "" {
		return got
	}
	z, err := gzip.NewReader(strings.NewReader(got))
	if err != nil {
		return ""
	}
	plain, _ := io.ReadAll(z) // ends early: the stream is not over
	return string(plain)
}

func TestTrailersOfTheUpstream_PC023(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	answer, _ := r.must(t, r.call("GET", "/trailers"))
	equal(t, "announced", answer.Header.Get("Trailer"), "X-Sum")
	equal(t, "trailers", fmt.Sprint(answer.Trailer["X-Sum"], answer.Trailer["X-Late"], len(answer.Trailer)), "[42] [yes] 2")

	answer, _ = r.must(t, r.call("GET", "/trailers-private"))
	equal(t, "announced without what is private", answer.Header.Get("Trailer"), "X-Sum")
	equal(t, "trailers without what is private", fmt.Sprint(answer.Trailer), "map[X-Sum:[42]]")
}

// The answer smuggled in behind another never reaches anybody.
func TestPoisonedConnections_CL022(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 10 {
				for _, path := range []string{"/poison", "/204-body", "/clean"} {
					if answer, _, err := r.do(t, r.call("GET", path)); err != nil || strings.Contains(answer.Body, "evil") || answer.Body == "hello" {
						t.Errorf("%s: %v %q", path, err, answer.Body)
					}
				}
			}
		})
	}
	wait.Wait()
}

func TestFailures(t *testing.T) {
	short := func(o *rest.Options) { o.HeaderTimeout, o.IdleTimeout = time.Second, time.Second }
	r := newRig(t, servicestest.Options{}, short)
	sent(t, r.refused(t, r.call("GET", "/silent"), runtime.CodeTimeout, ""), true)
	sent(t, r.refused(t, r.call("GET", "/stall"), runtime.CodeTimeout, ""), true)
	patient := newRig(t, servicestest.Options{})
	patient.refused(t, patient.call("GET", "/large-head"), runtime.CodeUpstream, "")
	patient.refused(t, patient.call("GET", "/garbage"), runtime.CodeUpstream, "")
	answer, _ := patient.must(t, patient.call("GET", "/slow"))
	equal(t, "slow", answer.Body, "slowly")

	expired := newRig(t, servicestest.Options{Expired: true})
	e := expired.refused(t, expired.call("GET", "/"), runtime.CodeUpstreamTLS, "")
	sent(t, e, false)
	equal(t, "an expired one is named: "+e.Msg+" | "+e.Hint, strings.Contains(e.Msg, "not one to trust: it is valid from ") && strings.Contains(e.Hint, "clock"), true)
	foreign := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.TLS = nil })
	e = foreign.refused(t, foreign.call("GET", "/"), runtime.CodeUpstreamTLS, "")
	equal(t, "a foreign one is named: "+e.Msg+" | "+e.Hint, strings.Contains(e.Msg, "not one to trust: no authority ") && strings.Contains(e.Hint, "upstream.ca_file"), true)
	equal(t, "requests", len(expired.Requests())+len(foreign.Requests()), 0)

	gone := newRig(t, servicestest.Options{})
	c := gone.call("GET", "/")
	gone.Close()
	sent(t, gone.refused(t, c, runtime.CodeUpstream, runtime.ReasonUpstreamUnavailable), false)

	denied := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.Dialer = denier{} })
	denied.refused(t, denied.call("GET", "/"), runtime.CodeEgressDenied, "")
}

// sent compares what the error says of whether something may have left.
func sent(t testing.TB, err error, want bool) {
	t.Helper()
	equal(t, "may have left", !errors.Is(err, runtime.ErrNotSent), want)
}

type denier struct{}

func (denier) Dial(context.Context, string, bool, bool) (net.Conn, string, bool, error) {
	return nil, "", false, &runtime.Error{Code: runtime.CodeEgressDenied, Msg: "refused", Hint: "open it"}
}

func TestCallerGoesAway(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	out := &runtimetest.Responder{}
	done := make(chan error, 1)
	go func() {
		_, err := r.backend.Execute(ctx, r.call("GET", "/silent"), out)
		done <- err
	}()
	r.Await(t, func(all []servicestest.Request) bool { return len(all) == 1 })
	cancel()
	equal(t, "code", runtime.CodeOf(<-done), runtime.CodeCanceled)
}

func TestConnectionsAreKept(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	for range 20 {
		r.must(t, r.call("GET", "/chunked"))
	}
	equal(t, "connections", r.Connections(), 1)
	c := r.call("GET", "/", "Authorization: NTLM x")
	c.Credential = runtime.Credential{}
	r.must(t, c)
	r.must(t, r.call("GET", "/"))
	equal(t, "connections after one that authenticates itself", r.Connections(), 2)
}

func BenchmarkExecute(b *testing.B) {
	r := newRig(b, servicestest.Options{})
	c := r.call("GET", "/")
	b.ReportAllocs()
	for b.Loop() {
		r.must(b, c)
	}
}

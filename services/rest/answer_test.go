package rest_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

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
			for _, fields := range [][]string{nil, {"Expect: 100-continue"}} { // the other one is net/http's in both engines
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
				deadline := time.After(5 * time.Second)
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

func TestEncodedAnswersPassUntouched_PC024(t *testing.T) {
	text := strings.Repeat("an honest answer, again and again. ", 9000)
	for coding, encoded := range encodings(text) {
		for _, framing := range []string{"length", "chunked"} {
			t.Run(coding+" "+framing, func(t *testing.T) {
				r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded(coding, encoded, framing == "chunked")}})
				answer, result := r.must(t, r.call("GET", "/coded", "Accept-Encoding: "+coding))
				if answer.Body != encoded {
					t.Errorf("%d bytes became %d others", len(encoded), len(answer.Body))
				}
				equal(t, "coding", answer.Header.Get("Content-Encoding"), coding)
				equal(t, "etag", answer.Header.Get("ETag"), `"e"`)
				equal(t, "unscanned", result.Unscanned, false)
				equal(t, "bytes in", result.BytesIn, int64(len(encoded)))
				equal(t, "asked", strings.Join(r.Last(t).Fields("Accept-Encoding"), "|"), coding)
				if framing == "length" {
					equal(t, "length", answer.Header.Get("Content-Length"), strconv.Itoa(len(encoded)))
				}
			})
		}
	}
}

func coded(coding, encoded string, chunks bool) servicestest.Behave {
	return func(c *servicestest.Conn, q *servicestest.Request) bool {
		head := "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Encoding: " + coding + "\r\n"
		if !chunks {
			return c.Send(head, "Content-Length: ", strconv.Itoa(len(encoded)), "\r\n\r\n", encoded)
		}
		c.Send(head, "Transfer-Encoding: chunked\r\n\r\n")
		for len(encoded) > 0 {
			n := min(len(encoded), 37)
			c.Send(servicestest.Chunk(encoded[:n]))
			encoded = encoded[n:]
		}
		return c.Send("0\r\n\r\n")
	}
}

func encodings(text string) map[string]string {
	var br, zs bytes.Buffer
	b := brotli.NewWriter(&br)
	_, _ = io.WriteString(b, text)
	_ = b.Close()
	z, _ := zstd.NewWriter(&zs)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return map[string]string{"gzip": servicestest.Gzip(text), "br": br.String(), "zstd": zs.String()}
}

func TestReflectedBodies_CL007(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	core := base64.RawStdEncoding.EncodeToString([]byte(canary))
	for _, as := range []string{"json", "base64", "hex", "percent", "chunked"} {
		for _, step := range []int{0, 1, 7} {
			answer, result := r.must(t, r.call("GET", fmt.Sprintf("/reflect?as=%s&split=%d", as, step)))
			if result.Scrubbed == 0 || leaks(answer.Body) || strings.Contains(answer.Body, core[4:24]) {
				t.Errorf("%s in steps of %d: %d hits\n%s", as, step, result.Scrubbed, answer.Body)
			}
			if n := answer.Header.Get("Content-Length"); n != "" && n != strconv.Itoa(len(answer.Body)) {
				t.Errorf("%s: the length changed", as)
			}
		}
	}
}

// leaks looks for the canary in the forms a reader could turn back.
func leaks(text string) bool {
	plain, _ := base64.StdEncoding.DecodeString(text)
	for _, form := range []string{canary, "6b6263616e617279", "kbcanary-7f3a9c%2F", "kbcanary"} {
		if strings.Contains(text, form) || strings.Contains(string(plain), form) {
			return true
		}
	}
	return false
}

func TestReflectedInHeads_CL009(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	for _, in := range []string{"header", "location", "cookie", "reason", "trailer", "early"} {
		answer, _ := r.must(t, r.call("GET", "/reflect?in="+in))
		if text := fmt.Sprint(answer); strings.Contains(strings.ToLower(text), "kbcanary") {
			t.Errorf("%s: %s", in, text)
		}
	}
	answer, result := r.must(t, r.call("GET", "/reflect?in=header"))
	equal(t, "echo", answer.Header.Get("X-Echo"), "Bearer "+strings.Repeat("*", len(canary)))
	equal(t, "scrubbed", result.Scrubbed, 1)
	named := r.call("GET", "/reflect?in=name")
	named.Credential.Value = runtime.NewSecret("kbcanary-as-a-name")
	if answer, _ := r.must(t, named); strings.Contains(strings.ToLower(fmt.Sprint(answer)), "kbcanary") {
		t.Errorf("name: %v", answer.Header)
	}
	trailing := r.call("GET", "/reflect?in=trailer-name")
	trailing.Credential.Value = runtime.NewSecret("kbcanary-as-a-name")
	answer, _ = r.must(t, trailing)
	if strings.Contains(strings.ToLower(fmt.Sprint(answer)), "kbcanary") {
		t.Errorf("trailer name: %v %v", answer.Header, answer.Trailer)
	}
	equal(t, "announced", answer.Header.Get("Trailer")+" "+answer.Trailer.Get("X-Sum"), "X-Sum 42")
	_, _, err := r.do(t, r.call("GET", "/reflect?in=malformed"))
	if err == nil || strings.Contains(err.Error(), "kbcanary") {
		t.Errorf("the error quotes the credential: %v", err)
	}
}

func TestReflectedInCompressedBodies_CL010(t *testing.T) {
	text := strings.Repeat("x", 100_000) + ` {"token": "` + canary + `"} ` + strings.Repeat("y", 1000)
	for coding, encoded := range encodings(text) {
		for _, chunks := range []bool{false, true} {
			r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded(coding, encoded, chunks)}})
			answer, result, err := r.do(t, r.call("GET", "/coded"))
			e := runtime.AsError(err)
			if e == nil || e.Reason != runtime.ReasonReflectedSecret || answer.Aborted == nil || result.Scrubbed != 1 {
				t.Errorf("%s: %v, aborted %v", coding, err, answer.Aborted)
			}
			if len(answer.Body) >= len(encoded) {
				t.Errorf("%s: all of it left", coding)
			}
		}
	}
	r := newRig(t, servicestest.Options{})
	for _, as := range []string{"gzip", "deflate"} {
		r.refused(t, r.call("GET", "/reflect?as="+as), runtime.CodeUpstream, runtime.ReasonReflectedSecret)
	}
	_, result := r.must(t, r.call("GET", "/reflect?as=unknown"))
	equal(t, "unscanned", result.Unscanned, true)
	strict := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.ScrubStrict = true })
	strict.refused(t, strict.call("GET", "/reflect?as=unknown"), runtime.CodeUpstream, runtime.ReasonScrubImpossible)
}

func TestDamagedEncodings(t *testing.T) {
	whole := servicestest.Gzip("some text")
	for name, encoded := range map[string]string{"not gzip": "plain text", "cut": whole[:len(whole)-6], "followed": whole + "more", "empty": ""} {
		r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded("gzip", encoded, false)}})
		answer, result := r.must(t, r.call("GET", "/coded"))
		equal(t, name, answer.Body, encoded)
		equal(t, name+" unscanned", result.Unscanned, encoded != "")
	}
}

// The caller's own credential comes back untouched: it is no secret of ours.
func TestNothingStoredNothingScanned(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	c := r.call("GET", "/reflect", "Authorization: Bearer "+canary)
	c.Credential = runtime.Credential{}
	answer, result := r.must(t, c)
	if !strings.Contains(answer.Body, canary) || result.Scrubbed != 0 || result.Used != runtime.CredentialCaller {
		t.Errorf("scrubbed %d, used %q: %s", result.Scrubbed, result.Used, answer.Body)
	}
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
	short := func(o *rest.Options) { o.HeaderTimeout, o.IdleTimeout = 500*time.Millisecond, 500*time.Millisecond }
	r := newRig(t, servicestest.Options{}, short)
	sent(t, r.refused(t, r.call("GET", "/silent"), runtime.CodeTimeout, ""), true)
	sent(t, r.refused(t, r.call("GET", "/stall"), runtime.CodeTimeout, ""), true)
	r.refused(t, r.call("GET", "/large-head"), runtime.CodeUpstream, "")
	r.refused(t, r.call("GET", "/garbage"), runtime.CodeUpstream, "")
	answer, _ := r.must(t, r.call("GET", "/slow"))
	equal(t, "slow", answer.Body, "slowly")

	expired := newRig(t, servicestest.Options{Expired: true})
	sent(t, expired.refused(t, expired.call("GET", "/"), runtime.CodeUpstreamTLS, ""), false)
	foreign := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.TLS = nil })
	foreign.refused(t, foreign.call("GET", "/"), runtime.CodeUpstreamTLS, "")
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

func TestWebSocket(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	near, far := pipe(t)
	out := &runtimetest.Responder{Conn: func() (net.Conn, error) { return far, nil }}
	type end struct {
		result runtime.Result
		err    error
	}
	done := make(chan end, 1)
	go func() {
		result, err := r.backend.Execute(context.Background(), r.call("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-Websocket-Key: a2V5"), out)
		done <- end{result, err}
	}()
	_, _ = io.WriteString(near, "ping")
	echo := make([]byte, 4)
	if _, err := io.ReadFull(near, echo); err != nil || string(echo) != "ping" {
		t.Fatalf("echo %q: %v", echo, err)
	}
	_ = near.CloseWrite() // the other way stays open until the upstream ends it
	rest, err := io.ReadAll(near)
	if err != nil || len(rest) != 0 {
		t.Errorf("after the half close: %q %v", rest, err)
	}
	got := <-done
	if got.err != nil || got.result.Status != 101 || got.result.BytesIn != 4 || got.result.BytesOut != 4 {
		t.Errorf("%+v", got)
	}
	equal(t, "upgrade", out.Answer().Header.Get("Upgrade"), "websocket")
	equal(t, "key, spelled as in RFC 6455", strings.Join(r.Last(t).Fields("Sec-WebSocket-Key"), "|"), "a2V5")
	equal(t, "credential", strings.Join(r.Last(t).Fields("Authorization"), "|"), "Bearer "+canary)
}

// A program that has gone holds no connection because its upstream does not go too. One
// that has ended its half only, and waits, is left as long as something comes.
func TestAnUpgradeThatHasHalfEndedEnds(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	served := make(chan struct{})
	defer func() { close(over); _ = ln.Close(); <-served }()
	go func() {
		defer close(served)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		br := bufio.NewReader(c)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(io.Discard, br)
		for range 6 {
			time.Sleep(100 * time.Millisecond)
			_, _ = io.WriteString(c, "x")
		}
		<-over
	}()
	r := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.IdleTimeout, o.Dialer = 400*time.Millisecond, to{ln.Addr().String()} })
	near, far := pipe(t)
	defer func() { _ = far.Close() }()
	out := &runtimetest.Responder{Conn: func() (net.Conn, error) { return far, nil }}
	call := pass(r.call("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-Websocket-Key: a2V5"))
	call.Action.WebSocket, call.Request.Target.Scheme, call.Credential = true, "http", runtime.Credential{}
	done := make(chan error, 1)
	go func() {
		_, err := r.backend.Execute(context.Background(), call, out)
		done <- err
	}()
	_ = near.CloseWrite()
	_ = near.SetReadDeadline(time.Now().Add(5 * time.Second))
	if got, err := io.ReadAll(near); err != nil || string(got) != "xxxxxx" {
		t.Errorf("%q %v", got, err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it stays")
	}
}

// to dials one address, whatever is asked for.
type to struct{ address string }

func (d to) Dial(ctx context.Context, _ string, _, _ bool) (net.Conn, string, bool, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.address)
	return c, d.address, true, err
}

// pipe is a pair of TCP connections, which can end by halves.
func pipe(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
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

//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has accepted itself

package app_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// pairing is a kimbap between a client and an upstream of one protocol each.
type pairing struct {
	*apptest.Kimbap
	client *http.Client
	proto  string // of the client's side
	gone   chan struct{}
	seen   chan struct{} // the head of a paused answer
	overH2 atomic.Int32  // requests that the upstream got over HTTP/2
}

// newPairing speaks HTTP/2 on the sides that are told so.
func newPairing(t *testing.T, client, upstream bool, config ...string) *pairing {
	p := &pairing{proto: "HTTP/1.1", gone: make(chan struct{}, 1), seen: make(chan struct{})}
	o := apptest.Options{Config: strings.Join(config, "")}
	if upstream {
		o.Upstream.H2 = func(c net.Conn) {
			(&http2.Server{}).ServeConn(c, &http2.ServeConnOpts{Handler: http.HandlerFunc(p.serve)})
		}
	}
	o.Upstream.Routes = map[string]servicestest.Behave{"/hang": func(c *servicestest.Conn, q *servicestest.Request) bool {
		c.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", servicestest.Chunk("begin"))
		_, _ = io.Copy(io.Discard, c)
		p.gone <- struct{}{}
		return false
	}, "/notes": refusesLong, "/paused-2": func(c *servicestest.Conn, _ *servicestest.Request) bool {
		c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
		<-p.seen
		return c.Send("ok")
	}}
	p.Kimbap = apptest.New(t, o)
	transport := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: p.Proxy}),
		TLSClientConfig: &tls.Config{RootCAs: p.Roots()}, DisableCompression: true, ForceAttemptHTTP2: client,
	}
	if client {
		p.proto = "HTTP/2.0"
	}
	t.Cleanup(transport.CloseIdleConnections)
	p.client = &http.Client{Transport: transport}
	return p
}

// serve does in HTTP/2 what the upstream of servicestest does in HTTP/1.1.
func (p *pairing) serve(w http.ResponseWriter, q *http.Request) {
	p.overH2.Add(1)
	switch q.URL.Path {
	case "/103":
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(103)
		w.Header().Del("Link")
		_, _ = io.WriteString(w, "ok")
	case "/trailers":
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", "42")
		w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
	case "/empty":
		w.Header().Set("Content-Length", "0")
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusOK)
		w.Header().Set("X-Sum", "42")
	case "/paused-0", "/paused-2":
		length := strings.TrimPrefix(q.URL.Path, "/paused-")
		w.Header().Set("Content-Length", length)
		_ = http.NewResponseController(w).Flush()
		<-p.seen
		if length != "0" {
			_, _ = io.WriteString(w, "ok")
		}
	case "/cut":
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, strings.Repeat("x", 400))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "/hang":
		_, _ = io.WriteString(w, "begin")
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
		p.gone <- struct{}{}
	default:
		if len(q.Header.Get("X-Size")) > 5 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		if q.Header.Get("Authorization") != "Bearer "+apptest.Key {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.Copy(w, q.Body)
	}
}

func (p *pairing) do(t *testing.T, ctx context.Context, method, path, body string) (*http.Response, error) {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	q, err := http.NewRequestWithContext(ctx, method, "https://"+apptest.Host+path, content)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+apptest.Fake)
	q.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(q)
	if err == nil && resp.Proto != p.proto {
		t.Errorf("%s: answered in %s", path, resp.Proto)
	}
	return resp, err
}

// The requests of an HTTP/1.1 connection go as the upstream chose, until it proves
// to be a busy one.
func TestABusyConnectionIsCarriedAsItsClientSpeaks(t *testing.T) {
	t.Parallel()
	p := newPairing(t, false, true)
	for range 132 {
		resp, err := p.do(t, t.Context(), "GET", "/notes/7", "")
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if n := p.overH2.Load(); n != 128 {
		t.Errorf("%d of 132 requests went over HTTP/2, want the first 128", n)
	}
}

// Whatever the two sides speak, a request is the same request: credential,
// streams, 1xx, trailers, breaks, cancels and records.
func TestProtocolPairings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ client, upstream bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("client h2 %v, upstream h2 %v", c.client, c.upstream), func(t *testing.T) {
			p := newPairing(t, c.client, c.upstream)
			mark := p.Mark(t)
			p.answers(t)
			p.breaks(t)
			want := []string{
				"outcome allow notes.read-as ok -", "outcome allow notes.read-as ok -", "outcome allow notes.create-note ok -",
				"outcome allow notes.read-as error upstream/upstream_truncated", "outcome allow notes.read-as error canceled",
				"refusal - - error unknown_action/unmatched",
			}
			var got []string
			for _, r := range p.Await(t, mark, 11) {
				if r.Kind != "intent" {
					got = append(got, r.Short())
				}
			}
			slices.Sort(got) // who leaves is noticed when it is, and the next request does not wait
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("recorded\n%q, want\n%q", got, want)
			}
			p.Verify(t)
		})
	}
}

// An answer that says it is empty may end with trailers over HTTP/2.
func TestTrailersOfAnEmptyAnswer(t *testing.T) {
	t.Parallel()
	for _, client := range []bool{false, true} {
		p := newPairing(t, client, true)
		resp, err := p.do(t, t.Context(), "GET", "/empty", "")
		if body := whole(t, resp, err); body != "" || resp.Trailer.Get("X-Sum") != "42" {
			t.Errorf("client h2 %v: %q %v", client, body, resp.Trailer)
		}
	}
}

func (p *pairing) answers(t *testing.T) {
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, h))
		return nil
	}})
	resp, err := p.do(t, ctx, "GET", "/103", "")
	if body := whole(t, resp, err); body != "ok" || len(hints) != 1 || !strings.Contains(hints[0], "rel=preload") {
		t.Errorf("103: %q %v", body, hints)
	}
	resp, err = p.do(t, t.Context(), "GET", "/trailers", "")
	if body := whole(t, resp, err); body != "body" || resp.Trailer.Get("X-Sum") != "42" || resp.Trailer.Get("X-Late") != "yes" {
		t.Errorf("trailers: %q %v", body, resp.Trailer)
	}
	resp, err = p.do(t, t.Context(), "POST", "/notes", `{"text": "one"}`)
	if body := whole(t, resp, err); resp.StatusCode != 200 || body != `{"text": "one"}` && body != "ok" {
		t.Errorf("echo: %s %q", resp.Status, body)
	}
	for _, q := range p.Up.Requests() { // of HTTP/1.1; the handler of HTTP/2 checks it itself
		if got := q.Fields("Authorization"); !slices.Equal(got, []string{"Bearer " + apptest.Key}) {
			t.Errorf("the upstream got %q", got)
		}
	}
}

func (p *pairing) breaks(t *testing.T) {
	resp, err := p.do(t, t.Context(), "GET", "/cut", "")
	if err == nil {
		var body []byte
		body, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if len(body) > 400 {
			t.Errorf("%d bytes of 400", len(body))
		}
	}
	if err == nil {
		t.Error("a cut answer ended cleanly")
	}
	ctx, cancel := context.WithCancel(t.Context())
	resp, err = p.do(t, ctx, "GET", "/hang", "")
	if err != nil {
		t.Fatal(err)
	}
	begin := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, begin); err != nil || string(begin) != "begin" {
		t.Errorf("%q %v", begin, err)
	}
	cancel()
	<-p.gone // the upstream has been told
	_ = resp.Body.Close()
	resp, err = p.do(t, t.Context(), "GET", "/notes/1/unknown", "")
	if whole(t, resp, err); resp.StatusCode != 403 {
		t.Errorf("unmatched: %s", resp.Status)
	}
}

func whole(t *testing.T, resp *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("after %q: %v", body, err)
	}
	return string(body)
}

// Thirty-two streams at a time on one connection, each with its own answer and
// its own two records.
func TestManyStreamsThroughOneTunnel(t *testing.T) {
	t.Parallel()
	p := newPairing(t, true, true)
	mark := p.Mark(t)
	var wait sync.WaitGroup
	for i := range 32 {
		wait.Go(func() {
			for j := range 5 {
				text := fmt.Sprintf(`{"text": "%d/%d"}`, i, j)
				resp, err := p.do(t, t.Context(), "POST", "/notes", text)
				if err != nil {
					t.Error(errors.Unwrap(err))
					return
				}
				body, err := io.ReadAll(resp.Body)
				if _ = resp.Body.Close(); err != nil || string(body) != text {
					t.Errorf("%s: %q %v", text, body, err)
				}
			}
		})
	}
	wait.Wait()
	p.Await(t, mark, 2*32*5)
	p.Verify(t)
	if n := p.Up.Connections(); n > 4 {
		t.Errorf("%d connections to the upstream", n)
	}
}

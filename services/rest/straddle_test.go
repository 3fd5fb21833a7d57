package rest_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// flusher is the writer of a coding.
type flusher interface {
	io.WriteCloser
	Flush() error
}

func flusherOf(coding string, w io.Writer) flusher {
	switch coding {
	case "gzip":
		return gzip.NewWriter(w)
	case "deflate":
		return zlib.NewWriter(w)
	case "br":
		return brotli.NewWriter(w)
	}
	z, _ := zstd.NewWriter(w)
	return z
}

// flushed is texts in a coding, with a flush behind each.
func flushed(coding string, texts ...string) string {
	var b bytes.Buffer
	w := flusherOf(coding, &b)
	for _, text := range texts {
		_, _ = io.WriteString(w, text)
		_ = w.Flush()
	}
	_ = w.Close()
	return b.String()
}

// readable is what a client makes of the beginning of an encoded text.
func readable(coding, part string) string {
	var r io.Reader
	var err error
	switch src := strings.NewReader(part); coding {
	case "gzip":
		r, err = gzip.NewReader(src)
	case "deflate":
		r, err = zlib.NewReader(src)
	case "br":
		r = brotli.NewReader(src)
	default:
		r, err = zstd.NewReader(src)
	}
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(r) // it is cut
	return string(text)
}

// honest returns so many bytes of a text in which no credential begins.
func honest(n int) string {
	const text = "an honest answer, again and again. "
	return strings.Repeat(text, n/len(text)+1)[:n]
}

// A client gets nothing of the credential, wherever a window of deflate, a block or a flush
// cuts it: what decoders have used is then not all that they have given.
func TestNothingOfACredentialLeavesInACompressedBody(t *testing.T) {
	routes, codings := map[string]servicestest.Behave{}, map[string]string{}
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		for at := 0; at <= len(canary); at++ {
			for name, texts := range map[string][]string{
				"window": {honest(64<<10-at) + canary + honest(300)},
				"second": {honest(100), honest(32<<10-100-at) + canary, honest(300)},
				"flush":  {honest(900) + canary[:at], canary[at:] + honest(40<<10)},
			} {
				encoded := flushed(coding, texts...)
				for _, chunks := range []bool{false, true} {
					path := fmt.Sprintf("/%s/%s/%d/%v", coding, name, at, chunks)
					routes[path], codings[path] = coded(coding, encoded, chunks), coding
				}
			}
		}
	}
	r := newRig(t, servicestest.Options{Routes: routes})
	for path, coding := range codings {
		answer, result, err := r.do(t, r.call("GET", path))
		if text := readable(coding, answer.Body); err == nil || result.Scrubbed != 1 || strings.Contains(text, canary[:1]) {
			t.Errorf("%s: %v; %d bytes left, which end in %q", path, err, len(text), text[max(0, len(text)-len(canary)):])
		}
	}
}

// What could begin no credential arrives with its flush, also where that ends a window.
func TestAFlushArrives(t *testing.T) {
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		for _, n := range []int{100, 32<<10 - 1, 32 << 10, 32<<10 + 1, 80_000} {
			var b bytes.Buffer
			w := flusherOf(coding, &b)
			_, _ = io.WriteString(w, honest(n-1)+"\n")
			_ = w.Flush()
			first := b.String()
			_ = w.Close()
			arrived := make(chan struct{})
			r := newRig(t, routes("/live", func(c *servicestest.Conn, _ *servicestest.Request) bool {
				c.Send("HTTP/1.1 200 OK\r\nContent-Encoding: " + coding + "\r\nTransfer-Encoding: chunked\r\n\r\n" + servicestest.Chunk(first))
				select {
				case <-arrived:
				case <-time.After(10 * time.Second):
					return false
				}
				return c.Send(servicestest.Chunk(b.String()[len(first):]), "0\r\n\r\n")
			}))
			out := &untilSeen{Responder: &runtimetest.Responder{}, seen: arrived, enough: func(got string) bool { return len(readable(coding, got)) == n }}
			if _, err := r.backend.Execute(t.Context(), r.call("GET", "/live"), out); err != nil {
				t.Errorf("%s, %d bytes: %v", coding, n, err)
			}
		}
	}
}

// untilSeen tells once there is enough of the answer.
type untilSeen struct {
	*runtimetest.Responder
	seen   chan struct{}
	enough func(string) bool
}

func (u *untilSeen) Write(p []byte) (int, error) {
	n, err := u.Responder.Write(p)
	if u.seen != nil && u.enough(u.Answer().Body) {
		close(u.seen)
		u.seen = nil
	}
	return n, err
}

func BenchmarkCompressedAnswers(b *testing.B) {
	for _, coding := range []string{"gzip", "br", "zstd"} {
		var text strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&text, `{"id":%d,"name":"k%x","state":"open"},`, i, i*7919)
		}
		encoded := flushed(coding, text.String())
		r := newRig(b, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded(coding, encoded, false)}}, func(o *rest.Options) { o.VerifyMutations = false })
		b.Run(coding, func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.backend.Execute(b.Context(), r.call("GET", "/coded"), &runtimetest.Responder{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

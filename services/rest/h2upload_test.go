package rest_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// recorder is an upstream that keeps what it is sent, and gives room for it.
type recorder struct {
	first   []http2.Setting
	perData func(f *frames, s uint32, n int)        // after each frame of data; may be nil
	perHead func(f *frames, s uint32)               // may be nil
	atEnd   func(f *frames, s uint32, told *upload) // may be nil: 200
}

// upload is one request as the recorder saw it.
type upload struct {
	fields  []hpack.HeaderField
	trailer []hpack.HeaderField
	data    []byte
	blocks  int    // frames of the head
	block   []byte // they together
}

// serve returns the options of a double that tells of each request.
func (c recorder) serve(told chan *upload) servicestest.Options {
	return servicestest.Options{H2: func(conn net.Conn) {
		f := begin(conn, c.first...)
		f.ReadMetaHeaders = nil // frame by frame
		var now *upload
		var block []byte
		ends := false
		dec := hpack.NewDecoder(4096, nil)
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			s, flags := frame.Header().StreamID, frame.Header().Flags
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
				continue
			case *http2.HeadersFrame:
				if now == nil {
					now = &upload{}
				}
				ends = frame.StreamEnded()
				block = append(block[:0], frame.HeaderBlockFragment()...)
				now.blocks++
			case *http2.ContinuationFrame:
				block = append(block, frame.HeaderBlockFragment()...)
				now.blocks++
			case *http2.DataFrame:
				ends = frame.StreamEnded()
				now.data = append(now.data, frame.Data()...)
				if c.perData != nil {
					c.perData(f, s, len(frame.Data()))
				}
			default:
				continue
			}
			if kind := frame.Header().Type; kind != http2.FrameData {
				if !flags.Has(http2.FlagHeadersEndHeaders) {
					continue
				}
				fields, err := dec.DecodeFull(block)
				if err != nil {
					return
				}
				if now.fields != nil {
					now.trailer = fields
				} else {
					now.fields, now.block = fields, bytes.Clone(block)
					if c.perHead != nil {
						c.perHead(f, s)
					}
				}
			}
			if ends {
				if c.atEnd != nil {
					c.atEnd(f, s, now)
				} else {
					f.head(s, true, ":status 200")
				}
				told <- now
				now = nil
			}
		}
	}}
}

// An upload leaves as the upstream makes room for it, whatever that does to its windows.
func TestUploadsHeedTheWindows(t *testing.T) {
	initial := func(n uint32) http2.Setting { return http2.Setting{ID: http2.SettingInitialWindowSize, Val: n} }
	text := strings.Repeat("0123456789abcdef", 12_000)
	refill := func(f *frames, s uint32, n int) {
		if n > 0 {
			_ = f.WriteWindowUpdate(0, uint32(n))
			_ = f.WriteWindowUpdate(s, uint32(n))
		}
	}
	var lowered sync.Map
	for name, c := range map[string]recorder{
		"as it comes":   {perData: refill},
		"tiny":          {first: []http2.Setting{initial(100)}, perData: func(f *frames, s uint32, n int) { refill(f, s, n); refill(f, s, 3000) }},
		"nothing first": {first: []http2.Setting{initial(0)}, perHead: func(f *frames, s uint32) { _ = f.WriteWindowUpdate(s, 500) }, perData: refill},
		"lowered below nothing": {perHead: func(f *frames, s uint32) { _ = f.WriteWindowUpdate(s, 500) }, perData: func(f *frames, s uint32, n int) {
			if _, done := lowered.LoadOrStore(f, true); !done {
				_ = f.WriteSettings(initial(0))
				_ = f.WriteWindowUpdate(0, 1<<20)
				_ = f.WriteWindowUpdate(s, 1<<20)
			}
			refill(f, s, n)
		}},
		"raised by settings": {first: []http2.Setting{initial(0)}, perData: refill, perHead: func(f *frames, _ uint32) {
			_ = f.WriteSettings(initial(5000))
		}},
	} {
		for _, length := range []int64{-1, int64(len(text))} {
			t.Run(fmt.Sprint(name, ", length ", length), func(t *testing.T) {
				told := make(chan *upload, 3)
				r := turning(t, c.serve(told))
				for range 2 {
					call := body(r.call("POST", "/"), strings.NewReader(text), length)
					call.Request.Raw.Announced = []string{"X-Sum"}
					call.Request.Raw.Trailer = func() http.Header { return http.Header{"X-Sum": {"7"}, "Authorization": {"no"}} }
					r.must(t, call)
					got := <-told
					if string(got.data) != text {
						t.Fatalf("%d bytes of %d", len(got.data), len(text))
					}
					want := "[]"
					if length < 0 {
						want = `[header field "x-sum" = "7"]`
					}
					equal(t, "trailers", fmt.Sprint(got.trailer), want)
				}
				equal(t, "connections", r.Connections(), 1)
			})
		}
	}
}

// A final answer that comes before the end of the request is the answer.
func TestAnEarlyAnswerEndsTheUploadOnATurn(t *testing.T) {
	r := turning(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		if h.PseudoValue("path") != "/" {
			f.head(h.StreamID, false, ":status 413")
			_ = f.WriteData(h.StreamID, true, []byte("too much"))
			_ = f.WriteRSTStream(h.StreamID, http2.ErrCodeNo)
			return
		}
		f.head(h.StreamID, true, ":status 200")
	}))
	for range 2 {
		reader, writer := io.Pipe()
		go func() { _, _ = writer.Write(make([]byte, 1<<20)); _ = writer.Close() }()
		answer, _ := r.must(t, body(r.call("POST", "/early"), reader, -1))
		equal(t, "answer", fmt.Sprint(answer.Status, answer.Body), "413too much")
		_ = reader.Close()
		r.must(t, r.call("GET", "/"))
	}
}

// A head that does not fit in one frame goes on in others, both ways.
func TestLargeHeadsAreContinued(t *testing.T) {
	large := strings.Repeat("!~", 25_000) // nothing makes it shorter
	told := make(chan *upload, 3)
	c := recorder{atEnd: func(f *frames, s uint32, _ *upload) {
		block := f.Block(":status 200", "x-large "+large)
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: block[:1], EndStream: true})
		_ = f.WriteContinuation(s, false, nil)
		_ = f.WriteContinuation(s, false, block[1:10_000])
		_ = f.WriteContinuation(s, true, block[10_000:])
	}}
	r := turning(t, c.serve(told))
	for range 2 {
		answer, _ := r.must(t, r.call("GET", "/", "X-Large: "+large))
		equal(t, "the answer's field", answer.Header.Get("X-Large") == large, true)
		got := <-told
		equal(t, "the request's field", slices.ContainsFunc(got.fields, func(f hpack.HeaderField) bool { return f.Name == "x-large" && f.Value == large }), true)
		if got.blocks < 3 {
			t.Errorf("%d frames of a head", got.blocks)
		}
	}
	equal(t, "connections", r.Connections(), 1)
}

// A head that is larger than the upstream has said it takes does not leave.
func TestTheUpstreamsLimitOfHeadsIsHeeded(t *testing.T) {
	told := make(chan *upload, 10)
	r := turning(t, recorder{first: []http2.Setting{{ID: http2.SettingMaxHeaderListSize, Val: 2000}}}.serve(told))
	r.must(t, r.call("GET", "/")) // the settings have come
	r.refused(t, r.call("GET", "/", "X-Large: "+strings.Repeat("x", 2000)), runtime.CodeInvalidInput, runtime.ReasonHeaderTooLarge)
	r.must(t, r.call("GET", "/", "X-Small: "+strings.Repeat("x", 100)))
	r.must(t, r.call("GET", "/", "X-Small: "+strings.Repeat("x", 100)))
	for range 3 {
		<-told
	}
	equal(t, "requests beside", len(told), 0)
	equal(t, "connections", r.Connections(), 2) // the refused one had changed the table of its connection
}

// An upstream that takes no more streams still answers the one it has.
func TestNoMoreStreams(t *testing.T) {
	told := make(chan *upload, 4)
	r := turning(t, recorder{first: []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 0}}}.serve(told))
	for range 2 {
		r.must(t, r.call("GET", "/"))
	}
	equal(t, "connections", r.Connections(), 2)
}

// What may be a credential is marked so that no table on the way holds it; also one in
// the path or the query.
func TestCredentialsAreNeverIndexed(t *testing.T) {
	told := make(chan *upload, 4)
	r := turning(t, recorder{}.serve(told))
	for _, query := range []bool{false, true, true} {
		call := r.call("GET", "/secret", "Cookie: a=b", "X-Plain: x")
		if query {
			call.Action.Auth.Type, call.Action.Auth.Query = runtime.AuthQuery, "key"
		}
		r.must(t, call)
		seen := ""
		for _, f := range (<-told).fields {
			secret := strings.Contains(f.Value, "kbcanary") || slices.Contains([]string{"authorization", "cookie", ":path"}, f.Name)
			if f.Sensitive != secret {
				t.Errorf("%s: never indexed %v", f.Name, f.Sensitive)
			}
			if strings.Contains(f.Value, "kbcanary") {
				seen += f.Name
			}
		}
		equal(t, "credential in", seen, map[bool]string{false: "authorization", true: ":path"}[query])
	}
}

// Callers of HTTP/2 have golang.org/x/net's connections, which mark nothing: there no field
// enters the table of an upstream, or stays in ours.
func TestNothingIsIndexedForCallersOfHTTP2(t *testing.T) {
	told := make(chan *upload, 4)
	r := newRig(t, recorder{}.serve(told))
	r.proto = "HTTP/2.0" // in every pass
	for range 2 {
		r.must(t, r.call("GET", "/secret", "Cookie: a=b", "X-Plain: x"))
		fields, err := hpack.NewDecoder(4096, nil).DecodeFull((<-told).block) // which knows of no request before
		if err != nil || !slices.ContainsFunc(fields, func(f hpack.HeaderField) bool { return strings.Contains(f.Value, "kbcanary") }) {
			t.Errorf("%v, %v", fields, err)
		}
	}
}

// Where there is nothing but HTTP/2, callers of HTTP/1.1 have a connection each while
// they need it.
func TestSeveralCallersAtAnUpstreamOfHTTP2Alone(t *testing.T) {
	var once sync.Once
	var at atomic.Int64
	full := make(chan struct{})
	const callers = 5
	o := handled(0, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/wait" {
			if at.Add(1) == callers {
				once.Do(func() { close(full) })
			}
			<-full
		}
		_, _ = io.WriteString(w, q.Proto+q.Header.Get("X-Number"))
	})
	o.TLS = func(c *tls.Config) { c.NextProtos = []string{"h2"} }
	r := turning(t, o)
	for _, path := range []string{"/wait", "/again", "/again"} {
		var wait sync.WaitGroup
		for i := range callers {
			wait.Go(func() {
				answer, _, err := r.do(t, r.call("GET", path, fmt.Sprint("X-Number: ", i)))
				if err != nil || answer.Body != fmt.Sprint("HTTP/2.0", i) {
					t.Errorf("%s of %d: %q, %v", path, i, answer.Body, err)
				}
			})
		}
		wait.Wait()
	}
}

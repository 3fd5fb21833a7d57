package rest_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// envelope is a message of gRPC.
func envelope(flag byte, text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(text)))) + text
}

// parts answers with these, each once the one before has arrived.
func parts(kind string, arrived chan string, texts ...string) servicestest.Options {
	return framed(func(f *frames, h *http2.MetaHeadersFrame) {
		f.head(h.StreamID, false, ":status 200", "content-type "+kind)
		for i, text := range texts {
			_ = f.WriteData(h.StreamID, i == len(texts)-1, []byte(text))
			for got := ""; i < len(texts)-1 && got != text; {
				select {
				case more := <-arrived:
					got += more
				case <-time.After(20 * time.Second):
					return
				}
			}
		}
	})
}

// heard tells of each part of an answer.
type heard struct {
	runtimetest.Responder
	parts chan string
}

func (h *heard) Write(p []byte) (int, error) {
	h.parts <- string(p)
	return h.Responder.Write(p)
}

func answerIn(t *testing.T, kind string, texts ...string) (string, error) {
	t.Helper()
	out := &heard{parts: make(chan string, 99)}
	r := newRig(t, parts(kind, out.parts, texts...))
	done := make(chan error, 1)
	go func() { _, err := r.backend.Execute(t.Context(), r.call("POST", "/"), out); done <- err }()
	select {
	case err := <-done:
		return out.Answer().Body, err
	case <-time.After(10 * time.Second):
		return "", errors.New("it waits")
	}
}

// A message arrives whole, also when it ends in what could begin the credential: the one who
// calls may have nothing to say before that, and the server then has not either.
func TestAMessageArrivesWhole(t *testing.T) {
	part := canary[:len(canary)-1]
	for _, kind := range []string{"application/grpc", "application/grpc+proto", "application/connect+json"} {
		for name, texts := range map[string][]string{
			"one byte":    {envelope(0, "x"+canary[:1]), envelope(1, "next")},
			"many bytes":  {envelope(0, part), envelope(0, "next")},
			"two at once": {envelope(0, "first") + envelope(0, part), envelope(2, "next")},
			"none":        {envelope(0, ""), envelope(0, "")},
			"of Connect":  {envelope(0, part), envelope(3, "next")},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				got, err := answerIn(t, kind, texts...)
				if err != nil || got != strings.Join(texts, "") {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
	}
}

// The credential is found all the same: in a message, over two frames, and where what comes is
// no message after all.
func TestACredentialInMessagesIsFound(t *testing.T) {
	masked := strings.Repeat("*", len(canary))
	whole, rest := envelope(0, "a"+canary+"b"), canary[5:]
	got, err := answerIn(t, "application/grpc", whole+envelope(0, canary))
	if want := envelope(0, "a"+masked+"b") + envelope(0, masked); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		f.head(h.StreamID, false, ":status 200", "content-type application/grpc")
		_ = f.WriteData(h.StreamID, false, []byte(whole[:12]))
		time.Sleep(50 * time.Millisecond)
		_ = f.WriteData(h.StreamID, true, []byte(whole[12:]))
	}))
	answer, _ := r.must(t, r.call("POST", "/"))
	equal(t, "over two frames", answer.Body, envelope(0, "a"+masked+"b"))
	got, err = answerIn(t, "application/grpc", envelope(0, canary[:5]), rest)
	if err == nil || strings.Contains(got, rest) || !strings.Contains(got, canary[:5]) {
		t.Errorf("%q, %v", got, err)
	}
}

// What is in a compressed message cannot be searched, and the record says so; under strict
// the answer ends before it.
func TestCompressedMessagesAreNotSearched(t *testing.T) {
	kinds := map[string]string{"application/grpc": "grpc-encoding", "application/connect+json": "connect-content-encoding"}
	plain, sealed := envelope(0, "plain"), envelope(1, servicestest.Gzip(canary))
	for kind, field := range kinds {
		for _, strict := range []bool{false, true} {
			for _, text := range []string{plain + envelope(2, "end"), plain + sealed} {
				r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
					f.head(h.StreamID, false, ":status 200", "content-type "+kind, field+" gzip")
					_ = f.WriteData(h.StreamID, true, []byte(text))
				}), func(o *rest.Options) { o.ScrubStrict = strict })
				answer, result, err := r.do(t, r.call("POST", "/"))
				packed := strings.HasSuffix(text, sealed)
				equal(t, kind+" unscanned", result.Unscanned, packed)
				if packed && strict {
					e := runtime.AsError(err)
					if e == nil || e.Reason != runtime.ReasonScrubImpossible || !strings.Contains(e.Msg+e.Hint, field+" gzip") || strings.Contains(answer.Body, sealed) {
						t.Errorf("%s, strict: %v, %q", kind, err, answer.Body)
					}
				} else if err != nil || answer.Body != text {
					t.Errorf("%s: %v, %q", kind, err, answer.Body)
				}
			}
		}
	}
}

// The flags of gRPC-Web are others, and may be base64: its answers are like any other body.
func TestMessagesOfTheWebAreAnyBody(t *testing.T) {
	for _, kind := range []string{"application/grpc-web", "application/grpc-web+proto", "application/grpc-web-text"} {
		first, last := envelope(0, canary[:5]), envelope(0x80, "grpc-status:0\r\n")
		r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
			f.head(h.StreamID, false, ":status 200", "content-type "+kind)
			_ = f.WriteData(h.StreamID, false, []byte(first))
			time.Sleep(50 * time.Millisecond)
			_ = f.WriteData(h.StreamID, true, []byte(last))
		}))
		answer, _ := r.must(t, r.call("POST", "/"))
		equal(t, kind, answer.Body, first+last)
	}
}

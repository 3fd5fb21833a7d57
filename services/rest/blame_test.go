package rest_test

import (
	"testing"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// What an upstream says of itself, in a field that HTTP does not allow or in the text of
// a GOAWAY, is not taken for a mistake of the request, which may have been acted on.
func TestTheUpstreamsWordsAreNotTheClientsMistake(t *testing.T) {
	for name, say := range map[string]func(f *frames, stream uint32){
		"a field name": func(f *frames, stream uint32) { f.head(stream, true, ":status 200", "X-Upper 1") },
		"a GOAWAY": func(f *frames, stream uint32) {
			_ = f.WriteGoAway(stream, http2.ErrCodeProtocol, []byte("invalid method, invalid header field"))
			_ = f.Conn.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) { say(f, h.StreamID) }))
			for _, proto := range []string{"HTTP/2.0", "HTTP/1.1"} {
				r.proto = proto
				_, _, err := r.do(t, r.call("POST", "/items/1"))
				e := *runtime.AsError(err)
				e.Stage = runtime.StageExecute // which the pipeline says where nobody has
				if e.Code != runtime.CodeUpstream || !runtime.MayHaveHappened(&e) {
					t.Errorf("%s: %v", proto, err)
				}
			}
		})
	}
}

// What could not leave as it is written is refused before anything is dialled, whichever
// engine would write it.
func TestWhatCannotBeWrittenIsNotSent(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	for name, c := range map[string]*runtime.Call{
		"a value":  r.call("GET", "/", "X-A: one\x01two"),
		"a name":   r.call("GET", "/", "X A: one"),
		"a method": r.call("G ET", "/"),
	} {
		t.Run(name, func(t *testing.T) {
			r.refused(t, c, runtime.CodeInvalidInput, "")
			equal(t, "connections", r.Connections(), 0)
		})
	}
}

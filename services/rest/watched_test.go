package rest

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest/witness"
)

// A watched connection lets nothing of a changed head through, and shows the
// answers that come on it.
func TestConnectionsAreWatched(t *testing.T) {
	const came = "GET /p HTTP/1.1\r\nHost: a.test\r\n"
	witnessed := func() *witness.Witness {
		return witness.New(&runtime.Call{Request: &runtime.Request{
			Target: runtime.Target{Scheme: "https", Authority: "a.test:443", Method: "GET", Path: "/p"},
			Raw:    &runtime.Raw{Head: []byte(came + "\r\n"), Header: http.Header{}},
		}}, &runtime.Result{})
	}
	found := func(err error, place string) {
		t.Helper()
		if runtime.CodeOf(err) != runtime.CodeInternal || !strings.Contains(err.Error(), place) {
			t.Errorf("got %v, want a difference at %s", err, place)
		}
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	w := witnessed()
	l := &link{Conn: near, idle: time.Minute}
	l.settled.L = &l.mu
	l.watch(w)
	if n, err := l.Write([]byte(came + "X-Added: 1\r\n\r\n")); n != 0 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	found(w.Fault(), "x-added")
	if !l.untouched() {
		t.Error("a byte of the head has left")
	}
	w = witnessed()
	l.watch(w)
	go func() {
		_, _ = io.ReadFull(far, make([]byte, len(came)+2))
		_, _ = far.Write([]byte("HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n"))
	}()
	if n, err := l.Write([]byte(came + "\r\n")); n != len(came)+2 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	l.begun++
	if _, err := l.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	found(w.Watch(&runtimetest.Responder{}).Start(204, http.Header{}), "x-a")
}

//lint:file-ignore SA1019 the connection is of the pool's transport

package rest

import (
	"net"
	"testing"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2/http2test"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// An answer that was read in one piece with the settings may be told before whoever reads has
// asked for more: the connection is a good one all the same.
func TestAnAnswerInOnePieceWithTheSettings(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		theirs, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = theirs.Close() }()
		f, err := http2test.Server(theirs)
		for err == nil {
			_, err = f.ReadFrame()
		}
	}()
	ours, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cc, err := new(http2.Transport).NewClientConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	runtimetest.Eventually(t, "the settings", func() bool { return cc.State().MaxConcurrentStreams > 0 })
	c := &peer{ClientConn: cc, pool: &pool{}, settings: newAttempt(), pulse: &pulse{}}
	c.reserved()
	c.ask(false)
	c.answered(false)
	if !c.CanTakeNewRequest() || c.waits() {
		t.Error("it takes no other request")
	}
}

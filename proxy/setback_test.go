package proxy

import (
	"net"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// A clock that is set back while a request is inside makes it no younger: its answer ends with
// its token, and a tunnel that rests makes room for others.
func TestAClockThatIsSetBackKeepsNoTunnelOpen(t *testing.T) {
	now := time.Now()
	tunnels := newTunnels(Limits{}.withDefaults())
	tunnels.clock = func() time.Time { return now }
	enter := func() (seat *place, far net.Conn) {
		seat, full := tunnels.enter(t.Context(), runtime.Caller{}, runtime.Principal{ID: "a"}, intercepted)
		if full != nil {
			t.Fatal(full)
		}
		near, far := net.Pipe()
		seat.hold(&conn{Conn: near, raw: near, onClose: seat.leave})
		return seat, far
	}
	busy, _ := enter()
	resting, far := enter()
	if !busy.begin() {
		t.Fatal("the tunnel closes")
	}
	now = runtimetest.Asleep(now.Add(tunnels.limits.RestTime+refusalTime), -time.Hour)
	if !busy.flows() {
		t.Error("what has flowed for long passes for a request that has just begun")
	}
	tunnels.closeResting(resting.owner)
	_ = far.SetReadDeadline(time.Now().Add(patience))
	if _, err := far.Read(make([]byte, 1)); isTimeout(err) {
		t.Error("a tunnel that has rested for long makes no room")
	}
}

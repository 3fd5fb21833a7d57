package rest

import (
	"errors"
	"net/http/httptrace"
	"testing"
	"time"
)

// Who is heeded is offered little at a time, so that what moves slowly is seen to move; and a
// timer that rang for what was taken meanwhile ends nothing.
func TestSlowIsNotDeaf(t *testing.T) {
	var ended error
	x := &exchange{lines: &lines{o: &Options{Times: Times{IdleTimeout: time.Hour}}}, cancel: func(cause error) { ended = cause }}
	var a attention
	room := make([]byte, 512<<10)
	if len(a.piece(room)) != len(room) {
		t.Error("nobody heeds, and not all is offered")
	}
	a.begin(x, &httptrace.ClientTrace{})
	defer a.end()
	if n := len(a.piece(room)); n != 64<<10 || len(a.piece(room[:10])) != 10 {
		t.Errorf("%d bytes are offered at a time", n)
	}
	a.offered()
	a.late() // it rang before, and comes now
	if ended != nil || x.deaf {
		t.Errorf("it was ended for %v", ended)
	}
	a.since = a.since.Add(-time.Hour)
	a.late()
	if !errors.Is(ended, errDeaf) || !x.deaf {
		t.Errorf("it was not: %v", ended)
	}
}

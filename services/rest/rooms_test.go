package rest

import (
	"context"
	"errors"
	"net"
	"testing"
)

// nobody dials nothing.
type nobody struct{}

func (nobody) Dial(context.Context, string, bool, bool) (net.Conn, string, bool, error) {
	return nil, "", false, errors.New("nobody is dialled")
}

// What a body gets depends on its length, and on how many have one: more answers than
// there is memory for do without. What comes back is empty.
func TestRoomsAreLentByLengthAndBounded(t *testing.T) {
	b, err := New(Options{Dialer: nobody{}})
	if err != nil {
		t.Fatal(err)
	}
	if b.roomFor(0) != nil || b.roomFor(bufferSize) != nil {
		t.Error("a short body got a room")
	}
	for _, n := range []int64{-1, bufferSize + 1, bulkyBody - 1} {
		if r := b.roomFor(n); r == nil || len(r.body) != largeSize || len(r.readAhead()) != largeSize {
			t.Errorf("%d bytes got %+v", n, r)
		} else {
			r.back()
		}
	}
	var lent []*room
	for range bulkyLent {
		lent = append(lent, b.roomFor(bulkyBody))
	}
	if last := lent[bulkyLent-1]; last == nil || len(last.body) != bulkySize || len(last.readAhead()) != bulkyAhead {
		t.Errorf("a bulky body got %+v", last)
	}
	if r := b.roomFor(1 << 40); r == nil || len(r.body) != largeSize {
		t.Error("there is no bound, or nothing beyond it")
	} else {
		r.back()
	}
	lent[0].body[0], lent[0].body[bulkySize-1] = 1, 1
	for _, r := range lent {
		r.back()
	}
	again := b.roomFor(bulkyBody)
	if len(again.body) != bulkySize || again.body[0] != 0 || again.body[bulkySize-1] != 0 {
		t.Error("a room came back with what was in it, or none did")
	}
	again.back()
	for range largeLent {
		b.roomFor(largeSize)
	}
	if b.roomFor(largeSize) != nil {
		t.Error("more large rooms are lent than there are")
	}
}

package outlet_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
)

// narrow is a sink that takes few lines at a time, and says why it does not take more.
type narrow struct {
	place
	most int
	says error
}

func (n *narrow) Write(ctx context.Context, slot string, lines [][]byte) error {
	if len(lines) > n.most {
		return n.says
	}
	return n.place.Write(ctx, slot, lines)
}

// soon is a pause that is over.
func soon(time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	c <- time.Time{}
	return c
}

// A best-effort sink that needs its time for each line, or refuses so many at once, gets fewer,
// in order; none is lost.
func TestASinkGetsAsManyLinesAsItTakes(t *testing.T) {
	for what, says := range map[string]error{"slow": context.DeadlineExceeded, "refuses so many": &outlet.Refused{Fewer: true, Err: errFull}} {
		t.Run(what, func(t *testing.T) {
			got := make(chan int, 2000)
			s := &narrow{place: place{writing: got}, most: 100, says: says}
			o := outlet.Open(s, 8192, soon, func() { t.Error("lines were lost") })
			var all [][]byte
			for n := range 600 {
				all = append(all, fmt.Appendf(nil, "%d\n", n))
			}
			if err := o.Give("run", all); err != nil {
				t.Fatal(err)
			}
			for n := 0; n < len(all); {
				n += <-got
			}
			o.Close(time.Hour)
			if want := "run:" + string(bytes.Join(bytes.Fields(bytes.Join(all, nil)), []byte(" run:"))); s.has() != want {
				t.Errorf("it got %.100s", s.has())
			}
		})
	}
	one := &narrow{most: 0, says: &outlet.Refused{Fewer: true, Err: errFull}}
	o := outlet.Open(one, 9, soon, func() {})
	if err := o.Give("run", lines("a b c")); err != nil {
		t.Fatal(err)
	}
	o.Close(time.Hour)
	if lost, _, _ := o.Losses(); lost != 3 {
		t.Errorf("of lines that are too long by themselves %d are lost", lost)
	}
}

// A record of losses that is lost itself is counted, and no other record tells of it.
func TestALostRecordOfLossesIsNotToldOf(t *testing.T) {
	told := make(chan struct{}, 9)
	p := &place{says: make(chan error)}
	o := outlet.Open(p, 9, never, func() { told <- struct{}{} })
	refuse := func(words string) {
		t.Helper()
		if err := o.Give("run", lines(words)); err != nil {
			t.Fatal(err)
		}
		p.says <- &outlet.Refused{Err: errFull}
	}
	refuse("a")
	<-told
	o.Tells([][]byte{[]byte("another-lost"), []byte("one-lost")})
	refuse("[one-lost]")
	o.Told(1)
	o.Close(time.Hour)
	if lost, fresh, _ := o.Losses(); lost != 2 || fresh != 0 || len(told) != 0 {
		t.Errorf("%d lost, %d of them to be told of", lost, fresh)
	}
}

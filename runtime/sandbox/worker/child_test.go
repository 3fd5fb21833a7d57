package worker

import (
	"bytes"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// A script that spins takes no reply, and may have ten thousand timers that ring. Where
// they are not read to the end of the pipe, nobody hears that the host is gone.
func TestTheEndOfTheHostIsHeardBehindAllReplies(t *testing.T) {
	const timers, calls = 10_000, 16
	var in bytes.Buffer
	for seq := range timers + calls {
		if err := frame.Append(&in, &frame.ToWorker{Reply: &frame.Reply{Seq: seq + 1}}); err != nil {
			t.Fatal(err)
		}
	}
	c := &child{
		replies: make(chan frame.Reply, maxReplies), asked: make(chan *frame.ToWorker, 2), ended: make(chan int, 3),
		heap: heap{awake: make(chan struct{}, 1)},
	}
	go c.listen(&in)
	select {
	case exit := <-c.ended:
		if exit != exitOrphaned || len(c.replies) != timers+calls {
			t.Errorf("it ended with %d after %d replies", exit, len(c.replies))
		}
	case <-time.After(time.Minute):
		t.Fatal("the replies are not read")
	}
}

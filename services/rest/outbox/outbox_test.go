package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

// wireDouble is the connection below an outbox. Each write waits for go, which
// says how it ends.
type wireDouble struct {
	net.Conn
	ends chan error

	mu     sync.Mutex
	writes []string
	until  time.Time // the deadline of reads
}

func (w *wireDouble) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.writes = append(w.writes, string(p))
	w.mu.Unlock()
	if err := <-w.ends; err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *wireDouble) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func (w *wireDouble) SetWriteDeadline(time.Time) error { return nil }

func (w *wireDouble) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = t
	return nil
}

func (w *wireDouble) Close() error { return nil }

// wrote returns the writes once there are n.
func (w *wireDouble) wrote(t *testing.T, n int) []string {
	t.Helper()
	var writes []string
	runtimetest.Eventually(t, fmt.Sprintf("%d writes", n), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		writes = slices.Clone(w.writes)
		return len(writes) >= n
	})
	return writes
}

func outboxOver(t *testing.T, crowded bool, ends int) (*Conn, *wireDouble) {
	w := &wireDouble{ends: make(chan error, ends)}
	o := New(w, time.Minute, func() bool { return crowded })
	t.Cleanup(func() { _ = o.Close() })
	return o, w
}

// put writes and does not wait for the connection below.
func put(t *testing.T, o *Conn, text string) {
	t.Helper()
	if n, err := o.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("%q: %d %v", text, n, err)
	}
}

// What is written while a write is under way leaves together, in its order.
func TestRequestsLeaveTogether(t *testing.T) {
	o, w := outboxOver(t, true, 0)
	put(t, o, "a")
	w.wrote(t, 1)
	for _, text := range []string{"b", "c", "d"} {
		put(t, o, text)
	}
	w.ends <- nil
	if got := w.wrote(t, 2); got[1] != "bcd" {
		t.Errorf("the second write is %q", got[1])
	}
	w.ends <- nil
}

// A request that is alone is written when Write returns, by who wrote it.
func TestALoneRequestLeavesAtOnce(t *testing.T) {
	o, w := outboxOver(t, false, 1)
	for _, text := range []string{"a", "b"} {
		w.ends <- nil
		put(t, o, text)
		if len(w.ends) > 0 {
			t.Errorf("%q was not written", text)
		}
	}
}

// A failed write fails what follows, and the reading, which has time for what came
// before.
func TestAFailedWriteEndsTheConnection(t *testing.T) {
	broken := errors.New("broken")
	for _, crowded := range []bool{false, true} {
		o, w := outboxOver(t, crowded, 1)
		w.ends <- broken
		if _, err := o.Write([]byte("a")); !crowded && !errors.Is(err, broken) {
			t.Errorf("the write itself: %v", err)
		}
		runtimetest.Eventually(t, fmt.Sprintf("crowded %v, reading fails", crowded), func() bool {
			_, err := o.Read(nil)
			return errors.Is(err, broken)
		})
		if _, err := o.Write([]byte("b")); !errors.Is(err, broken) {
			t.Errorf("crowded %v, the next write: %v", crowded, err)
		}
		w.mu.Lock()
		if left := time.Until(w.until); left <= 0 || left > lastWords {
			t.Errorf("crowded %v: %v are left for reading", crowded, left)
		}
		w.mu.Unlock()
	}
}

// An upstream that takes nothing does not make the outbox grow, and who waits for
// room is let go when the connection closes.
func TestTheOutboxHasBounds(t *testing.T) {
	o, w := outboxOver(t, true, 0)
	part := bytes.Repeat([]byte("x"), outboxRoom/2)
	var written int
	done := make(chan error)
	go func() {
		for {
			n, err := o.Write(part)
			if written += n; err != nil {
				done <- err
				return
			}
		}
	}()
	w.wrote(t, 1)
	select {
	case err := <-done:
		t.Fatal(err)
	case <-time.After(50 * time.Millisecond):
	}
	_ = o.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if most := 2 * (outboxRoom + len(part)); written > most {
		t.Errorf("%d bytes were taken, more than %d", written, most)
	}
	w.ends <- nil
}

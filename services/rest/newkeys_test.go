package rest_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// counting is a responder that says how much of the body has come.
type counting struct {
	*runtimetest.Responder
	came chan int
}

func (c *counting) Write(p []byte) (int, error) {
	c.came <- len(p)
	return c.Responder.Write(p)
}

// What TLS has to say for itself (new keys, a ticket, nothing at all), in records as
// long as those of data, holds nothing back that came before it, loses nothing, and
// is no part of the answer.
func TestRecordsAboutTLSHoldNothingBack(t *testing.T) {
	keys := &secrets{}
	more := make(chan bool)
	first, rest2 := bytes.Repeat([]byte("first "), 5000), bytes.Repeat([]byte("second "), 30_000)
	for name, say := range map[string]func(*records){
		"new keys, padded": func(r *records) { r.renewPadded(5000) },
		"a long ticket":    func(r *records) { r.ticketOf(6000) },
		"padding alone":    func(r *records) { r.seal(recordData, nil, 8000) },
		"all of them, and half of the next": func(r *records) {
			r.renewPadded(4100)
			r.ticketOf(9000)
			r.seal(recordData, nil, 12_000)
			r.renewPadded(16_000)
		},
	} {
		for _, framed := range []string{"", "Content-Length: " + strconv.Itoa(len(first)+len(rest2)) + "\r\n"} {
			o := routes("/pause", func(c *servicestest.Conn, _ *servicestest.Request) bool {
				hand, err := keys.take(c, rand.New(rand.NewPCG(1, 1)))
				if err != nil {
					t.Error(err)
					return false
				}
				hand.seal(recordData, []byte("HTTP/1.1 200 OK\r\n"+framed+"\r\n"), 0)
				for piece := range slicesOf(first, 10_000) {
					hand.seal(recordData, piece, 0)
				}
				say(hand)
				early := hand.out
				hand.out = nil
				for piece := range slicesOf(rest2, 16_000) {
					hand.seal(recordData, piece, 0)
				}
				if _, err := hand.conn.Write(append(early, hand.out[:2000]...)); err != nil || !<-more {
					return false
				}
				hand.out = hand.out[2000:]
				return hand.end()
			})
			o.TLS = keys.listen
			r := unwatched(t, o)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			out := &counting{&runtimetest.Responder{}, make(chan int, 1000)}
			done := make(chan error, 1)
			go func() { _, err := r.backend.Execute(ctx, pass(r.call("GET", "/pause")), out); done <- err }()
			come := 0
			for come < len(first) && ctx.Err() == nil {
				select {
				case n := <-out.came:
					come += n
				case <-ctx.Done():
				}
			}
			equal(t, name+": bytes before the rest was sent", come, len(first))
			more <- true
			if err := <-done; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			equal(t, name+": the body", out.Answer().Body, string(first)+string(rest2))
			cancel()
		}
	}
}

// slicesOf cuts text into pieces of n bytes at most.
func slicesOf(text []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for ; len(text) > 0 && yield(text[:min(n, len(text))]); text = text[min(n, len(text)):] {
		}
	}
}

// New keys in the middle of an upload, asked for again and again by the upstream,
// lose no byte of it, and the connection is as good as before.
func TestNewKeysDuringAnUpload(t *testing.T) {
	keys := &secrets{}
	const size = 3 << 20
	o := routes("/up", func(c *servicestest.Conn, q *servicestest.Request) bool {
		hand, err := keys.take(c, rand.New(rand.NewPCG(2, 2)))
		if err != nil {
			t.Error(err)
			return false
		}
		got := make([]byte, 0, size)
		for piece := make([]byte, size/6); len(got) < size; {
			if _, err := io.ReadFull(c, piece); err != nil {
				t.Error(err)
				return false
			}
			got = append(got, piece...)
			hand.wanted = 0
			hand.renew()
			hand.renewAsking()
			if err := hand.flush(0); err != nil {
				t.Error(err)
			}
		}
		if !bytes.Equal(got, uploaded(size)) {
			t.Error("the body is another one")
		}
		hand.data([]byte("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok"))
		return hand.end()
	})
	o.TLS = keys.listen
	for _, whole := range []bool{false, true} {
		r := unwatched(t, o, func(o *rest.Options) { o.HeaderTimeout = 10 * time.Second })
		call := body(pass(r.call("POST", "/up")), bytes.NewReader(uploaded(size)), size)
		if whole {
			if _, err := call.Request.Raw.Buffer(size); err != nil {
				t.Fatal(err)
			}
		}
		answer, _ := r.must(t, call)
		equal(t, "answer", answer.Body, "ok")
	}
}

// uploaded is a body in which every place is told from the others.
func uploaded(n int) []byte {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return text
}

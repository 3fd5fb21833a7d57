package stream_test

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime/audit/sink/stream"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

// A pipe whose reader does not read fails the write in time; read again, it goes on.
func TestAReaderThatStopsFailsTheWrite(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s, err := stream.New(stream.Options{Name: "stdout", Writer: w, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), "proxy", [][]byte{[]byte("a\n"), []byte("b\n")}); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 8)
	if n, err := r.Read(text); err != nil || string(text[:n]) != "a\nb\n" {
		t.Errorf("%q, %v", text[:n], err)
	}
	large := make([]byte, 1<<20) // more than a pipe holds
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := s.Write(ctx, "proxy", [][]byte{large}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wrote to a full pipe: %v", err)
		}
		cancel()
	}
	done := make(chan int)
	go func() {
		n := 0
		for {
			got, err := r.Read(large)
			if n += got; err != nil {
				done <- n
				return
			}
		}
	}()
	if err := s.Write(t.Context(), "proxy", [][]byte{[]byte("c\n")}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.Close(), w.Close()); err != nil {
		t.Error(err)
	}
	if n := <-done; n != 1<<20+2 {
		t.Errorf("%d bytes were read", n)
	}
	_ = r.Close()
}

func TestOptions(t *testing.T) {
	for _, o := range []stream.Options{{Name: "stdout"}, {Writer: os.Stderr}} {
		if _, err := stream.New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// What a write that ended late has brought is not written again, in whichever portions it comes.
func TestAWriteThatEndedLateIsNotDoneAgain(t *testing.T) {
	r, w := io.Pipe()
	s, err := stream.New(stream.Options{Name: "stdout", Writer: w})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Write(over, "run", [][]byte{[]byte("a\n"), []byte("b\n")}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() { text, _ := io.ReadAll(r); got <- string(text) }()
	for _, lines := range [][][]byte{{[]byte("a\n")}, {[]byte("b\n"), []byte("c\n")}, {[]byte("a\n")}} {
		if err := s.Write(t.Context(), "run", lines); err != nil {
			t.Error(err)
		}
	}
	_ = w.Close()
	if text := <-got; text != "a\nb\nc\na\n" {
		t.Errorf("the stream has %q", text)
	}
}

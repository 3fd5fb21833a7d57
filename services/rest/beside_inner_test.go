package rest

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// A reader that was given up before it had read anything reads nothing after: net/http closes
// a body beside the goroutine that is about to read it, and would wait for the caller. Another
// reader gets the body whole, and so does this one where net/http takes it to another
// connection.
func TestABodyGivenUpBeforeItWasReadIsNotRead(t *testing.T) {
	for name, src := range map[string]io.Reader{"plain": strings.NewReader("body"), "halting": halts{strings.NewReader("body")}} {
		t.Run(name, func(t *testing.T) {
			u := &upload{src: src}
			first := besideOf(u)
			_ = first.Close()
			if n, err := first.Read(make([]byte, 9)); n != 0 || !errors.Is(err, errStopped) || !u.fresh() {
				t.Fatalf("read %d bytes: %v", n, err)
			}
			u.resume()
			u.giveUp(nil, false)
			if n, err := first.Read(make([]byte, 9)); n != 0 || !errors.Is(err, errStopped) || !u.fresh() {
				t.Fatalf("its connection is gone: read %d bytes: %v", n, err)
			}
			second := besideOf(u)
			_ = first.Close() // has no say any more
			if got, err := io.ReadAll(second); string(got) != "body" || err != nil {
				t.Errorf("another reader: %q %v", got, err)
			}
		})
	}
	u := &upload{src: strings.NewReader("body")}
	b := besideOf(u)
	u.giveUp(nil, false)
	u.resume()
	if got, err := io.ReadAll(b); string(got) != "body" || err != nil {
		t.Errorf("on another connection: %q %v", got, err)
	}
}

// What fails on our side while the caller pauses is told as well: the exchange is over for
// good first, and then net/http closes what it reads.
func TestABodyGivenUpForGoodIsHalted(t *testing.T) {
	halted := make(chan struct{})
	u := &upload{src: waits{halted}}
	b := besideOf(u)
	done := make(chan error, 1)
	u.begin(b)
	go func() { _, err := b.took(b.src.Read(nil)); done <- err }()
	_, _ = u.stop()
	_ = b.Close()
	if err := <-done; !errors.Is(err, errStopped) {
		t.Error(err)
	}
}

// halts is a body that Halt is called on.
type halts struct{ io.Reader }

func (halts) Halt() {}

// waits is one that comes when it is halted.
type waits struct{ halted chan struct{} }

func (w waits) Read([]byte) (int, error) { <-w.halted; return 0, io.ErrClosedPipe }
func (w waits) Halt()                    { close(w.halted) }

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// A long answer is not held a second time to be printed, and comes in one piece, whatever
// another goroutine prints.
func TestALongAnswerIsNotHeldTwice(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcde\n"), 1<<20)
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	n, err := (&output{to: io.Discard, told: make(chan struct{})}).Write(long)
	goruntime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; n != len(long) || err != nil || used > 1<<20 {
		t.Errorf("%d, %v: %d bytes were used for %d", n, err, used, len(long))
	}
	var got bytes.Buffer
	o := &output{to: &got, told: make(chan struct{})}
	var both sync.WaitGroup
	for _, text := range []string{"x", "y"} {
		both.Go(func() { _, _ = io.WriteString(o, strings.Repeat(text, 1<<20)) })
	}
	both.Wait()
	if all := got.String(); len(all) != 2<<20 || strings.Count(all, "xy")+strings.Count(all, "yx") != 1 {
		t.Errorf("%d bytes came, or mixed", len(all))
	}
}

// held is a reader that takes nothing until it is let go.
type held struct {
	goes chan struct{}
	got  chan string
}

func (h held) Write(p []byte) (int, error) {
	<-h.goes
	h.got <- string(p)
	return len(p), nil
}

// Who is told to end goes on where nobody reads, and what was to be written stays as it was.
func TestWhatNobodyReadsStaysAsItWas(t *testing.T) {
	to, told := held{make(chan struct{}), make(chan string, 1)}, make(chan struct{})
	close(told)
	o := &output{to: to, told: told}
	p := []byte("what was said")
	if n, err := o.Write(p); n != 0 || !errors.Is(err, errUnread) {
		t.Errorf("%d, %v", n, err)
	}
	copy(p, "another thing")
	if _, err := o.Write(p); !errors.Is(err, errUnread) || !errors.Is(o.failure(), errUnread) {
		t.Errorf("behind what is not written: %v", err)
	}
	close(to.goes)
	if got := <-to.got; got != "what was said" {
		t.Errorf("written was %q", got)
	}
}

// A file takes what is written without a reader: as it is, at once.
func TestAFileIsWrittenToAtOnce(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if o := newOutput(f, make(chan struct{})); o.told != nil {
		t.Error("it waits for a reader")
	}
}

// A write that nobody takes, and that no signal ends, does not keep the command: a server whose
// client has gone may leave one.
func TestAWriteUnderWayKeepsNoCommand(t *testing.T) {
	to := held{make(chan struct{}), make(chan string, 1)}
	o := &output{to: to, told: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		_, err := io.WriteString(o, "an answer")
		done <- err
	}()
	for o.mu.TryLock() { // until it writes
		o.mu.Unlock()
		goruntime.Gosched()
	}
	if err := o.failure(); !errors.Is(err, errUnread) {
		t.Errorf("%v", err)
	}
	close(to.goes)
	if err := <-done; err != nil || <-to.got != "an answer" {
		t.Error(err)
	}
	o.patience = time.Minute
	if err := o.failure(); err != nil {
		t.Errorf("once it is written: %v", err)
	}
}

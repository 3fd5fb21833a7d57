//go:build unix

package worker

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What is in standing is never collected, as the standard input of a worker is not: two files are
// one descriptor, and only one of them may close it.
var standing []*os.File

// Only what the poller knows can have a deadline.
func TestTheWorkersPipeIsWaitedForByThePoller(t *testing.T) {
	fds := make([]int, 2)
	if err := unix.Pipe(fds); err != nil { // as a worker finds it: waiting
		t.Fatal(err)
	}
	in, out := os.NewFile(uintptr(fds[0]), "in"), os.NewFile(uintptr(fds[1]), "out")
	standing = append(standing, in)
	defer out.Close()
	if err := in.SetReadDeadline(time.Now()); err == nil {
		t.Fatal("the pipe is polled before anything was done: this shows nothing")
	}
	read, ok := polled(in).(*os.File)
	if !ok || read == in {
		t.Fatalf("%T", read)
	}
	defer read.Close()
	if err := read.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Errorf("it is not polled: %v", err)
	}
	go func() { _, _ = out.WriteString("a word") }()
	got := make([]byte, 6)
	if _, err := io.ReadFull(read, got); err != nil || string(got) != "a word" {
		t.Errorf("%q, %v", got, err)
	}
}

// A pipe that the poller has already, it does not take again. It is read all the same, and
// stays open.
func TestAPipeThatThePollerRefusesIsRead(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	standing = append(standing, in)
	defer out.Close()
	read, ok := polled(in).(*os.File)
	if !ok || read == in {
		t.Fatalf("%T", read)
	}
	defer read.Close()
	if read.SetReadDeadline(time.Now().Add(time.Minute)) == nil {
		t.Fatal("the poller has taken it: this shows nothing")
	}
	for range 2 {
		runtime.GC() // closes what nobody has
	}
	go func() { _, _ = out.WriteString("a word") }()
	got := make([]byte, 6)
	if _, err := io.ReadFull(read, got); err != nil || string(got) != "a word" {
		t.Errorf("%q, %v", got, err)
	}
}

// A terminal or a file would stay without waiting for all who share it.
func TestWhatIsNoPipeIsLeftAsItIs(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, in := range []io.Reader{f, strings.NewReader("")} {
		if polled(in) != in {
			t.Errorf("%T was changed", in)
		}
	}
}

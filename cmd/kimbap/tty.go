package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// terminal is the person's own terminal, whatever stdin and stdout are: a
// program that only pipes to kimbap cannot answer there.
type terminal struct {
	in, out *os.File
	line    *bufio.Reader
}

// openTerminal opens it; without one it fails with what to do.
func openTerminal() (*terminal, error) {
	in, out := "/dev/tty", "/dev/tty"
	if goruntime.GOOS == "windows" {
		in, out = "CONIN$", "CONOUT$"
	}
	t := &terminal{}
	var err error
	if t.in, err = os.OpenFile(in, os.O_RDWR, 0); err == nil {
		if t.out, err = os.OpenFile(out, os.O_RDWR, 0); err != nil {
			_ = t.in.Close()
		}
	}
	if err != nil {
		return nil, usage("do it in a terminal", "this is asked at a terminal only, and there is none")
	}
	t.line = bufio.NewReaderSize(t.in, 16)
	return t, nil
}

func (t *terminal) close() {
	_ = t.in.Close()
	_ = t.out.Close()
}

// secret asks for what is not shown while it is typed.
func (t *terminal) secret(ctx context.Context, what string) (runtime.Secret, error) {
	fmt.Fprintf(t.out, "%s: ", what)
	data, err := unseen(ctx, t.in)
	fmt.Fprintln(t.out)
	if err != nil {
		return runtime.Secret{}, err
	}
	return secretFrom(data)
}

// asking is secret for whoever asks several times.
func (t *terminal) asking(ctx context.Context) func(what string) (runtime.Secret, error) {
	return func(what string) (runtime.Secret, error) { return t.secret(ctx, what) }
}

// text asks for what may be seen.
func (t *terminal) text(ctx context.Context, what string) (string, error) {
	fmt.Fprintf(t.out, "%s: ", what)
	answer, err := t.answer(ctx)
	return strings.TrimSpace(answer), err
}

// answer reads a line; the end of the input (Ctrl-D) is an empty one. Where none comes to
// its end, what is said next has a line of its own.
func (t *terminal) answer(ctx context.Context) (string, error) {
	answer, err := awaited(ctx, func() (string, error) { return t.line.ReadString('\n') })
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, io.EOF):
		answer, err = "", nil
	}
	fmt.Fprintln(t.out)
	return answer, err
}

// askedTwice asks for a new secret two times, and is content with none.
func askedTwice(what string, ask func(what string) (runtime.Secret, error)) (runtime.Secret, error) {
	first, err := ask(what)
	if err != nil || first.Empty() {
		return first, err
	}
	again, err := ask("again")
	if err == nil && !again.Equal(first) {
		err = usage("try again", "the two are not the same")
	}
	return first, err
}

// agrees asks a question whose answer is yes only when it says so.
func (t *terminal) agrees(ctx context.Context, question string) (bool, error) {
	fmt.Fprintf(t.out, "%s [y/N] ", printableLines(question))
	answer, err := t.answer(ctx)
	if err != nil {
		return false, err
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// unseen reads a line that the terminal does not show. Ctrl-C leaves the terminal as it was:
// a shell behind it would show nothing that is typed.
func unseen(ctx context.Context, in *os.File) ([]byte, error) {
	data, err := unseenBy(ctx, int(in.Fd()), func() ([]byte, error) { return system.ReadHidden(in) })
	if errors.Is(err, io.EOF) {
		err = errUnanswered
	}
	return data, err
}

// errUnanswered is of whoever ends the input (Ctrl-D) instead of an answer that is not shown:
// what was typed of it may be half of one.
var errUnanswered = usage("type all of it, then Enter", "the input ended before its line did, so nothing was stored or changed")

// unseenBy is unseen with what reads: it stops the showing at a moment of its own, which may
// come after Ctrl-C. So it does not begin behind that, and once it has begun the terminal is
// given back after that moment.
func unseenBy(ctx context.Context, fd int, read func() ([]byte, error)) ([]byte, error) {
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	var turn sync.Mutex
	begun, ended := false, make(chan struct{})
	data, err := awaited(ctx, func() ([]byte, error) {
		turn.Lock()
		begun = ctx.Err() == nil
		begins := begun
		turn.Unlock()
		if !begins {
			return nil, ctx.Err()
		}
		defer close(ended)
		return read()
	})
	if ctx.Err() == nil {
		return data, err
	}
	turn.Lock()
	defer turn.Unlock()
	if begun {
		stopsShowing(fd, before, ended)
		_ = term.Restore(fd, before)
	}
	return data, err
}

// stopsShowing waits until a terminal is another than before, or what makes it so has ended.
func stopsShowing(fd int, before *term.State, ended <-chan struct{}) {
	const most = time.Second // it is a system call away, and may have been so before
	over := time.After(most)
	for {
		if now, err := term.GetState(fd); err != nil || *now != *before {
			return
		}
		select {
		case <-ended:
			return
		case <-over:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// awaited is what read reads, unless ctx ends sooner: nothing else ends the reading of a
// terminal, and whoever presses Ctrl-C at a question means the command. What still reads
// then ends with the process.
func awaited[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	came := make(chan answer, 1)
	go func() {
		value, err := read()
		came <- answer{value, err}
	}()
	select {
	case a := <-came:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

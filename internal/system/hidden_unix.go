//go:build linux || darwin

package system

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// ReadHidden reads a line from a terminal, without its end, and shows nothing of it. It is
// [io.EOF] where the input ends before (Ctrl-D, a terminal that is gone): term.ReadPassword
// takes that for nothing, and reads on for ever.
//
// It reads key by key: of a line that the terminal collects itself Linux drops what is beyond 4,095
// bytes, and a signed token may be longer.
func ReadHidden(in *os.File) ([]byte, error) {
	fd := int(in.Fd())
	before, err := unix.IoctlGetTermios(fd, readTermios)
	if err != nil {
		return nil, err
	}
	hidden := *before
	hidden.Lflag &^= unix.ECHO | unix.ICANON
	hidden.Lflag |= unix.ISIG
	hidden.Iflag |= unix.ICRNL
	hidden.Cc[unix.VMIN], hidden.Cc[unix.VTIME] = 1, 0
	restore := func() { _ = unix.IoctlSetTermios(fd, writeTermios, before) }
	defer beforeQuit(restore)()
	if err := unix.IoctlSetTermios(fd, writeTermios, &hidden); err != nil {
		return nil, err
	}
	defer restore()
	typed := typing{keys: before}
	for one := make([]byte, 1); ; { // what is behind the line is the next reader's
		if _, err := in.Read(one); err != nil {
			return nil, err
		}
		if ended, err := typed.press(one[0]); ended || err != nil {
			return typed.line, err
		}
	}
}

// beforeQuit calls restore when SIGQUIT comes (Ctrl-\), which ends the process only then: a shell
// behind it would show nothing that is typed. The result ends that.
func beforeQuit(restore func()) (stop func()) {
	quit, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(quit, unix.SIGQUIT)
	go func() {
		defer signal.Stop(quit)
		select {
		case <-quit:
			restore()
			signal.Reset(unix.SIGQUIT)
			_ = unix.Kill(unix.Getpid(), unix.SIGQUIT)
		case <-over:
		}
	}()
	return func() { close(over) }
}

// typing is a line as far as it is typed, edited by the keys of its terminal.
type typing struct {
	keys *unix.Termios
	line []byte
	ends bool // the key before was Ctrl-D
}

// press takes a key, and reports whether it ended the line. The second Ctrl-D with nothing between,
// or one at the beginning, is the end of the input, as where the terminal collects the line.
func (t *typing) press(key byte) (ended bool, err error) {
	again := t.ends
	t.ends = false
	switch {
	case key == '\n':
		return true, nil
	case key == '\r': // of a terminal that was told to keep it
	case key == 0 || t.is(unix.VEOF, key): // a Ctrl-D that came before ReadHidden is a 0 here
		if again || len(t.line) == 0 {
			return true, io.EOF
		}
		t.ends = true
	case key == '\b', t.is(unix.VERASE, key): // there are terminals that erase by another key
		_, size := utf8.DecodeLastRune(t.line)
		t.line = t.line[:len(t.line)-size]
	case t.is(unix.VWERASE, key):
		word := bytes.TrimRightFunc(t.line, unicode.IsSpace)
		t.line = t.line[:1+bytes.LastIndexFunc(word, unicode.IsSpace)]
	case t.is(unix.VKILL, key):
		t.line = nil
	default:
		t.line = append(t.line, key)
	}
	return false, nil
}

// is reports whether a key has that function. One that nothing has is 0, or 255 on macOS.
func (t *typing) is(function int, key byte) bool {
	return key != 0 && key != 0xff && t.keys.Cc[function] == key
}

package system_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kimbap-run/kimbap/internal/system"
)

// terminal is one by both its sides: ours, and that of a program.
func terminal(t *testing.T) (side, program *os.File) {
	t.Helper()
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = side.Close() })
	if err := unix.IoctlSetPointerInt(int(side.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(side.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return side, program
}

// flags are those of a terminal that say what it does with keys.
func flags(t *testing.T, of *os.File) uint32 {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(of.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag
}

// A line that is not shown comes whole, however long it is, and is edited by the keys of the
// terminal; the end of the input is none. Afterwards the terminal is as before.
func TestAHiddenLineIsWhatWasTyped(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 4<<10)
	for keys, want := range map[string]string{
		"key\n": "key", "key\r": "key", "\n": "", long[:4095] + "\n": long[:4095], long[:4096] + "\n": long[:4096], long + "\n": long,
		"kez\x7fy\n": "key", "kez\by\n": "key", "\x7fkey\n": "key", "caf\u00e9\x7fe\n": "cafe", "wrong\x15key\n": "key",
		"one two\x17three\n": "one three", "one two  \x17\n": "one ", "one\x17key\n": "key", "ke\x04y\n": "key",
	} {
		side, program := terminal(t)
		before := flags(t, side)
		got, err := typed(t, side, program, keys)
		if err != nil || string(got) != want {
			t.Errorf("%.40q: %d bytes %.40q, %v; want %d bytes", keys, len(got), got, err, len(want))
		}
		if flags(t, side) != before {
			t.Errorf("%.40q: the terminal is left otherwise than it was", keys)
		}
	}
	for _, keys := range []string{"\x04", "half\x04\x04", "k\x7f\x04"} {
		side, program := terminal(t)
		if got, err := typed(t, side, program, keys); !errors.Is(err, io.EOF) {
			t.Errorf("%q: %q, %v", keys, got, err)
		}
	}
}

// typed is what is read of keys that come once the terminal does not show them.
func typed(t *testing.T, side, program *os.File, keys string) ([]byte, error) {
	t.Helper()
	go func() {
		for end := time.Now().Add(10 * time.Second); flags(t, side)&unix.ECHO != 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		_, _ = side.WriteString(keys)
	}()
	return system.ReadHidden(program)
}

//go:build linux || darwin

package system

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"
)

// ReadHidden reads a line from a terminal, without its end, and shows nothing of it. It is
// [io.EOF] where the input ends before (Ctrl-D, a terminal that is gone): term.ReadPassword
// takes that for nothing, and reads on for ever.
func ReadHidden(in *os.File) ([]byte, error) {
	fd := int(in.Fd())
	before, err := unix.IoctlGetTermios(fd, readTermios)
	if err != nil {
		return nil, err
	}
	hidden := *before
	hidden.Lflag &^= unix.ECHO
	hidden.Lflag |= unix.ICANON | unix.ISIG
	hidden.Iflag |= unix.ICRNL
	if err := unix.IoctlSetTermios(fd, writeTermios, &hidden); err != nil {
		return nil, err
	}
	defer func() { _ = unix.IoctlSetTermios(fd, writeTermios, before) }()
	var line []byte
	for one := make([]byte, 1); ; { // what is behind the line is the next reader's
		if _, err := in.Read(one); err != nil {
			return nil, err
		}
		switch one[0] {
		case '\n':
			return bytes.ReplaceAll(line, []byte{'\r'}, nil), nil
		case '\b': // of a terminal that erases by another key
			line = line[:max(len(line)-1, 0)]
		default:
			line = append(line, one[0])
		}
	}
}

package system

import (
	"fmt"
	"io"
	"os"
)

// Unfit is why a path that somebody names is not read: what is there might never end.
type Unfit string

// Error implements error.
func (e Unfit) Error() string { return string(e) }

// OpenRegular opens a regular file to be read, or the null device, which people name for
// none. Anything else is [Unfit]: a pipe is not waited for, a device has no end.
func OpenRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if null, err := os.Stat(os.DevNull); !info.Mode().IsRegular() && (err != nil || !os.SameFile(info, null)) {
		return nil, Unfit("it is not a file")
	}
	return os.Open(path)
}

// ReadRegular reads a whole regular file. One of more bytes than most, which are whole
// MiB, is [Unfit].
func ReadRegular(path string, most int64) ([]byte, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, Unfit(fmt.Sprintf("it is larger than %d MiB", most>>20))
	}
	return text, err
}

// ReadUpTo reads no more than so many bytes of what a path leads to, for a caller that takes
// fewer and says so. Somebody may name a pipe, /dev/stdin or <(…) of a shell; a link of a
// cloned repository may lead to a device that never ends.
func ReadUpTo(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, most))
}

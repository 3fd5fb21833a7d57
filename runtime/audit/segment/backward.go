package segment

import (
	"bytes"
	"errors"
	"io"
)

// backwardRead is how much of a file is read at a time, in bytes.
const backwardRead = 256 << 10

// Backward reads one segment line by line from its end, in bounded memory.
type Backward struct {
	Start int64 // where the line last returned begins in the file

	f     io.ReaderAt
	space []byte // what was read is at its end
	have  []byte // of that, what is not returned yet: to the end of a line
	long  bool   // have is the end of a line over maxLine
	torn  bool   // have is what stands behind the last end of a line
}

// NewBackward reads what f has before an offset. A last line without its end is passed over.
func NewBackward(f io.ReaderAt, end int64) *Backward {
	return &Backward{f: f, Start: end + 1, space: make([]byte, backwardRead), have: []byte{'\n'}, torn: true}
}

// Next returns the line before, without its newline, valid until the next call. Its errors
// are io.EOF at the beginning of the file, [ErrLong], and those of the file.
func (b *Backward) Next() ([]byte, error) {
	for {
		if n := len(b.have); n > 0 {
			if first := bytes.LastIndexByte(b.have[:n-1], '\n') + 1; first > 0 || b.Start == int64(n) {
				line := b.have[first : n-1]
				b.Start, b.have = b.Start-int64(n-first), b.have[:first]
				torn, long := b.torn, b.long || n-first > maxLine
				b.torn, b.long = false, false
				switch {
				case torn:
					continue
				case long:
					return nil, ErrLong
				}
				return line, nil
			}
			if n > maxLine {
				b.long = true
				b.Start, b.have = b.Start-int64(n-1), append(b.have[:0], '\n') // its beginning alone is looked for
			}
		}
		unread := b.Start - int64(len(b.have))
		if unread <= 0 {
			return nil, io.EOF
		}
		if err := b.more(int(min(unread, backwardRead)), unread); err != nil {
			return nil, err
		}
	}
}

// more puts n bytes that stand before end in front of what is there.
func (b *Backward) more(n int, end int64) error {
	if n+len(b.have) > len(b.space) {
		space := make([]byte, 2*(n+len(b.have)))
		b.have, b.space = space[len(space)-copy(space[len(space)-len(b.have):], b.have):], space
	}
	at := len(b.space) - len(b.have)
	copy(b.space[at:], b.have)
	if _, err := b.f.ReadAt(b.space[at-n:at], end-int64(n)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	b.have = b.space[at-n:]
	return nil
}

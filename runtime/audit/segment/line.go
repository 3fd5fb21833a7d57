package segment

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// maxLine is the longest line a reader takes, in bytes. The encoder stays far
// below it.
const maxLine = 1 << 20

// ErrTorn is a last line without its newline: a write that was cut short.
var ErrTorn = errors.New("the last line has no end")

// ErrLong is a line over maxLine; it was skipped.
var ErrLong = fmt.Errorf("a line over %d bytes", maxLine)

// Room stands behind the records of a segment that is being written, to its end: a
// writer puts it there ahead of its records. No record begins with it.
const Room = ' '

// Lines reads one segment line by line in bounded memory.
type Lines struct {
	Number int   // of the line last returned, from 1
	Start  int64 // where it begins in the file
	End    int64 // where the next one begins

	r    *bufio.Reader
	long []byte
}

// NewLines reads what r has, which begins at an offset of the file. That is the
// beginning of a line, or the first that Next returns is the end of one.
func NewLines(r io.Reader, offset int64) *Lines {
	return &Lines{r: bufio.NewReaderSize(r, 64<<10), Start: offset, End: offset}
}

// Resume goes on at End, where r stands again: there is more than there was.
func (s *Lines) Resume(r io.Reader) { s.r.Reset(r) }

// Next returns the next line without its newline, valid until the next call.
// The room behind the records is the end of the file. Its errors are io.EOF, [ErrTorn]
// (Start says where the torn line begins), [ErrLong], and those of the file.
func (s *Lines) Next() ([]byte, error) {
	s.Start, s.long = s.End, s.long[:0]
	if first, err := s.r.Peek(1); err == nil && first[0] == Room {
		return nil, io.EOF
	}
	for {
		part, err := s.r.ReadSlice('\n')
		s.End += int64(len(part))
		switch {
		case err == nil:
			s.Number++
			if len(s.long) == 0 {
				return part[:len(part)-1], nil
			}
			if s.long = append(s.long, part...); len(s.long) > maxLine {
				return nil, ErrLong
			}
			return s.long[:len(s.long)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(s.long) <= maxLine {
				s.long = append(s.long, part...)
			}
		case errors.Is(err, io.EOF):
			if s.End == s.Start {
				return nil, io.EOF
			}
			return nil, ErrTorn
		default:
			return nil, err
		}
	}
}

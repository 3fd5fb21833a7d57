package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// maxLine is the longest line a reader takes, in bytes. The encoder stays far
// below it.
const maxLine = 1 << 20

type digest = [sha256.Size]byte

// genesis is what the first record of a slot names as its predecessor. It holds
// the slot's name, so that one chain cannot be passed off as another's.
func genesis(slot string) digest { return sha256.Sum256([]byte("kimbap audit slot " + slot)) }

// head is the fixed beginning of every line.
type head struct {
	seq    uint64
	prev   digest
	kind   record.Kind
	intent uint64 // the record an outcome belongs to
}

// errForm is a line that does not begin as every record does.
var errForm = errors.New("not a record of this ledger")

// parseHead reads the beginning of a line, in the exact form that ledger.chain
// and the encoder give it. It allocates nothing for the known kinds.
func parseHead(line []byte) (head, error) {
	var h head
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	if !ok {
		return h, errForm
	}
	if h.seq, rest, ok = cutNumber(rest); !ok {
		return h, errForm
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"prev":"`)); !ok || len(rest) < 2*sha256.Size {
		return h, errForm
	}
	if _, err := hex.Decode(h.prev[:], rest[:2*sha256.Size]); err != nil {
		return h, errForm
	}
	if rest, ok = bytes.CutPrefix(rest[2*sha256.Size:], []byte(`","kind":"`)); !ok {
		return h, errForm
	}
	for _, kind := range []record.Kind{record.KindIntent, record.KindOutcome, record.KindRefusal, record.KindEvent} {
		if after, found := bytes.CutPrefix(rest, []byte(kind+`",`)); found {
			h.kind, rest = kind, after
			break
		}
	}
	if h.kind == "" {
		return h, errForm
	}
	if h.kind == record.KindOutcome {
		if rest, ok = bytes.CutPrefix(rest, []byte(`"intent":`)); !ok {
			return h, errForm
		}
		if h.intent, _, ok = cutNumber(rest); !ok {
			return h, errForm
		}
	}
	return h, nil
}

// cutNumber takes a decimal number without leading zeros off the front.
func cutNumber(b []byte) (uint64, []byte, bool) {
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	if n == 0 || n > 1 && b[0] == '0' {
		return 0, b, false
	}
	value, err := strconv.ParseUint(string(b[:n]), 10, 64)
	return value, b[n:], err == nil
}

// errTorn is a last line without its newline: a write that was cut short.
var errTorn = errors.New("the last line has no end")

// errLong is a line over maxLine; it was skipped.
var errLong = fmt.Errorf("a line over %d bytes", maxLine)

// lineReader reads one segment line by line in bounded memory.
type lineReader struct {
	r     *bufio.Reader
	long  []byte
	line  int   // number of the line last returned, from 1
	start int64 // where it begins in the file
	end   int64 // where the next one begins
}

func newLineReader(r io.Reader, offset int64) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), start: offset, end: offset}
}

// next returns the next line without its newline, valid until the next call.
// The room behind the records is the end of the file. Its errors are io.EOF, errTorn (start says where the torn line begins),
// errLong, and those of the file.
func (s *lineReader) next() ([]byte, error) {
	s.start, s.long = s.end, s.long[:0]
	if first, err := s.r.Peek(1); err == nil && first[0] == roomByte {
		return nil, io.EOF
	}
	for {
		part, err := s.r.ReadSlice('\n')
		s.end += int64(len(part))
		switch {
		case err == nil:
			s.line++
			if len(s.long) == 0 {
				return part[:len(part)-1], nil
			}
			if s.long = append(s.long, part...); len(s.long) > maxLine {
				return nil, errLong
			}
			return s.long[:len(s.long)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(s.long) <= maxLine {
				s.long = append(s.long, part...)
			}
		case errors.Is(err, io.EOF):
			if s.end == s.start {
				return nil, io.EOF
			}
			return nil, errTorn
		default:
			return nil, err
		}
	}
}

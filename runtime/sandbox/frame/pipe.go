package frame

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// header is the length of a frame's length, in bytes.
const header = 4

// firstRead is how much is made room for before any of a frame has come, in bytes.
const firstRead = 64 << 10

// Errors of a conversation. After any of them nothing more can be said on the
// pipe: where the next frame begins is not known.
var (
	ErrTooLong   = errors.New("frame too long")
	ErrMalformed = errors.New("malformed frame")
)

// Message is what a frame can hold.
type Message interface{ ToWorker | ToHost }

// Write sends one message as one frame, in one call of w, so that frames of
// several goroutines that share a lock do not mix. A message that is longer than
// [Max] is [ErrTooLong] and nothing of it is sent.
func Write[M Message](w io.Writer, m *M) error {
	var b bytes.Buffer
	if err := Append(&b, m); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Append puts one message as one frame behind what b has; after an error b is as it was.
func Append[M Message](b *bytes.Buffer, m *M) error {
	if n := messages(m); n != 1 {
		return fmt.Errorf("%w: %d fields are set", ErrMalformed, n)
	}
	start := b.Len()
	b.Write(make([]byte, header))
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		b.Truncate(start)
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	b.Truncate(b.Len() - 1) // the line feed
	text := b.Len() - start - header
	if text > Max {
		b.Truncate(start)
		return fmt.Errorf("%w: %d bytes", ErrTooLong, text)
	}
	binary.BigEndian.PutUint32(b.Bytes()[start:], uint32(text))
	return nil
}

// Read takes one message from r, which is best buffered. io.EOF is an end between
// two frames; an end within one is io.ErrUnexpectedEOF. Memory is taken as bytes
// come: a length alone, which costs its sender nothing, takes none.
func Read[M Message](r io.Reader) (*M, error) {
	var length [header]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > Max {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLong, n)
	}
	text, err := take(r, int(n))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return decode[M](bytes.NewReader(text))
}

// take reads so many bytes.
func take(r io.Reader, n int) ([]byte, error) {
	if n <= firstRead {
		text := make([]byte, n)
		_, err := io.ReadFull(r, text)
		return text, err
	}
	var text bytes.Buffer
	text.Grow(firstRead)
	_, err := io.CopyN(&text, r, int64(n))
	return text.Bytes(), err
}

// decode parses the text of one frame.
func decode[M Message](text io.Reader) (*M, error) {
	d := json.NewDecoder(text)
	d.DisallowUnknownFields()
	m := new(M)
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one value", ErrMalformed)
	}
	if n := messages(m); n != 1 {
		return nil, fmt.Errorf("%w: %d fields are set", ErrMalformed, n)
	}
	return m, nil
}

// messages counts the fields that are set, those that go together as one.
func messages(m any) int {
	if host, ok := m.(*ToHost); ok && host.Call != nil && host.Idle != nil {
		return fields(m) - 1
	}
	return fields(m)
}

// fields counts the fields of a message that are set.
func fields(m any) int {
	v, n := reflect.ValueOf(m).Elem(), 0
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			n++
		}
	}
	return n
}

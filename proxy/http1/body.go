package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strings"
)

// ErrChunks is a chunked body that two readers could end at different bytes.
var ErrChunks = errors.New("malformed chunked body")

// MaxTrailers is the most that the trailers of a body are, in bytes of their lines without
// the ends of those.
const MaxTrailers = 16 << 10

// maxSizeLine is the most that stands before a chunk, in bytes.
const maxSizeLine = 1 << 10

// Body reads one message body from a connection's reader and stops at its end.
// A Read returns what is there and never waits to fill its buffer; the last
// bytes of a body of known length come with io.EOF. An end of the connection
// before the end of the body is io.ErrUnexpectedEOF. It is for one goroutine.
type Body struct {
	br      *bufio.Reader
	chunked bool
	padded  bool
	toEnd   bool  // only the connection's end ends it
	left    int64 // of the body, or of the chunk
	inChunk bool  // past the first size line
	err     error // what every further Read returns
	trailer http.Header
}

// NewBody makes the body that the framing says: chunked, or of a length, or,
// with a length of -1, up to the end of the connection.
func NewBody(br *bufio.Reader, f Framing) *Body {
	b := &Body{br: br, chunked: f.Chunked, padded: f.Padded, left: f.Length}
	if f.Chunked {
		b.left = 0
	} else if f.Length < 0 {
		b.toEnd = true
	} else if f.Length == 0 {
		b.err = io.EOF
	}
	return b
}

// Read implements [io.Reader].
func (b *Body) Read(p []byte) (n int, err error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	switch {
	case b.toEnd:
		n, b.err = b.br.Read(p)
		return n, b.err
	case !b.chunked:
		n, b.err = b.br.Read(p[:min(int64(len(p)), b.left)])
		if b.left -= int64(n); b.left == 0 && (b.err == nil || b.err == io.EOF) {
			b.err = io.EOF
			return n, io.EOF
		}
		b.err = early(b.err)
		return n, b.err
	}
	return b.readChunked(p)
}

// readChunked returns the data of one chunk, and of those behind it that have
// come already.
func (b *Body) readChunked(p []byte) (n int, err error) {
	for n < len(p) {
		if b.left == 0 {
			if n > 0 && !b.dataBuffered() {
				return n, nil
			}
			if b.err = b.nextChunk(); b.err != nil {
				return n, b.err
			}
		}
		if n > 0 && b.br.Buffered() == 0 {
			return n, nil
		}
		var got int
		got, err = b.br.Read(p[n:min(int64(len(p)), int64(n)+b.left)])
		n += got
		b.left -= int64(got)
		if err != nil {
			b.err = early(err)
			return n, b.err
		}
	}
	return n, nil
}

// dataBuffered reports whether the next chunk's size line has come whole, and
// data behind it. The last chunk has none: what follows it may take its time.
func (b *Body) dataBuffered() bool {
	peeked, _ := b.br.Peek(b.br.Buffered())
	if b.inChunk {
		peeked = peeked[min(2, len(peeked)):] // CR LF of the data before
	}
	end := bytes.IndexByte(peeked, '\n')
	if end < 1 || end+1 == len(peeked) {
		return false
	}
	size, err := b.chunkSize(peeked[:end-1])
	return err == nil && size > 0
}

// nextChunk reads the end of one chunk and the size line of the next; io.EOF
// when that was the last, after its trailer fields.
func (b *Body) nextChunk() error {
	if b.inChunk {
		var end [2]byte
		if _, err := io.ReadFull(b.br, end[:]); err != nil {
			return early(err)
		}
		if end != [2]byte{'\r', '\n'} {
			return ErrChunks
		}
	}
	b.inChunk = true
	line, err := b.line(maxSizeLine)
	if err != nil {
		return err
	}
	size, err := b.chunkSize(line)
	if err != nil {
		return err
	}
	if b.left = size; size > 0 {
		return nil
	}
	if err := b.readTrailer(); err != nil {
		return err
	}
	return io.EOF
}

// line reads up to CR LF, at most so many bytes with it. The line is valid until the next read.
func (b *Body) line(limit int) ([]byte, error) {
	line, err := b.br.ReadSlice('\n')
	var long []byte // what is more than the reader holds at a time
	for errors.Is(err, bufio.ErrBufferFull) && len(long)+len(line) <= limit {
		long = append(long, line...)
		line, err = b.br.ReadSlice('\n')
	}
	if len(long) > 0 {
		line = append(long, line...)
	}
	if len(line) > limit || errors.Is(err, bufio.ErrBufferFull) {
		return nil, ErrChunks
	}
	if err != nil {
		return nil, early(err)
	}
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return nil, ErrChunks
	}
	return line[:len(line)-2], nil
}

// chunkSize reads the hexadecimal size at the front of a size line; extensions
// behind it mean nothing to us (RFC 9112 section 7.1.1).
func (b *Body) chunkSize(line []byte) (size int64, err error) {
	digits := 0
	for ; digits < len(line); digits++ {
		v := hexValue(line[digits])
		if v < 0 {
			break
		}
		size = size<<4 | int64(v)
	}
	rest := line[digits:]
	if b.padded {
		rest = bytes.TrimLeft(rest, " \t")
	}
	if digits == 0 || digits > 15 || len(rest) > 0 && rest[0] != ';' || !IsValue(string(rest)) {
		return 0, ErrChunks
	}
	return size, nil
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// readTrailer reads the fields after the last chunk and the empty line.
func (b *Body) readTrailer() error {
	for total := 0; ; {
		line, err := b.line(MaxTrailers + len("\r\n"))
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		if total += len(line); total > MaxTrailers {
			return ErrChunks
		}
		name, value, ok := strings.Cut(string(line), ":")
		if value = strings.Trim(value, " \t"); !ok || !IsToken(name) || !IsValue(value) {
			return ErrChunks
		}
		if b.trailer == nil {
			b.trailer = http.Header{}
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		b.trailer[key] = append(b.trailer[key], value)
	}
}

// Trailer returns the trailer fields, nil before the end of the body and when
// there were none.
func (b *Body) Trailer() http.Header { return b.trailer }

// Ready reports whether a Read would return bytes of the body at once.
func (b *Body) Ready() bool {
	switch {
	case b.err != nil || b.br.Buffered() == 0:
		return false
	case b.chunked && b.left == 0:
		return b.dataBuffered()
	}
	return true
}

// Waits reports whether a Read may wait for the connection, be it in the middle
// of a line between two chunks.
func (b *Body) Waits() bool {
	return b.err == nil && (b.br.Buffered() == 0 || b.chunked && b.left == 0)
}

// Within reports whether at most n bytes of the body are to come: by its length, or,
// of a chunked one, whose length nobody knows, as it has come to its end already.
func (b *Body) Within(n int64) bool {
	switch {
	case b.err != nil:
		return b.err == io.EOF
	case !b.chunked:
		return !b.toEnd && b.left <= n
	}
	come, _ := b.br.Peek(b.br.Buffered())
	trial := *b
	trial.br = bufio.NewReader(bytes.NewReader(come))
	_, err := io.Copy(io.Discard, &trial)
	return err == nil
}

// Ended reports whether the body was read to its end.
func (b *Body) Ended() bool { return b.err == io.EOF }

// early is what the end of a connection means in the middle of a body.
func early(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

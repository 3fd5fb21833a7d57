package http1

import (
	"bufio"
	"errors"
	"io"
)

// Errors of heads.
var (
	ErrTooLarge  = errors.New("the head is over the limit")
	ErrBareLF    = errors.New("a line of the head does not end with CR LF")
	ErrMalformed = errors.New("malformed HTTP/1.1 head")
)

// ReadHead appends one head, up to and with its empty line, to dst and returns
// it. With strict every line must end with CR LF; otherwise LF alone will do, as
// RFC 9112 section 2.2 allows. A head of more than limit bytes is ErrTooLarge;
// an end before the first byte is io.EOF, later io.ErrUnexpectedEOF.
func ReadHead(br *bufio.Reader, dst []byte, limit int, strict bool) ([]byte, error) {
	first, start := len(dst), len(dst)
	for {
		part, err := br.ReadSlice('\n')
		dst = append(dst, part...)
		switch {
		case len(dst)-first > limit:
			return dst, ErrTooLarge
		case err == nil: // as for nearly every line
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(dst) > first:
			return dst, io.ErrUnexpectedEOF
		default:
			return dst, err
		}
		line := dst[start:]
		whole := len(line) > 1 && line[len(line)-2] == '\r'
		if strict && !whole {
			return dst, ErrBareLF
		}
		if len(line) == 1 || len(line) == 2 && whole {
			if start == first {
				return dst, ErrMalformed // no start line
			}
			return dst, nil
		}
		start = len(dst)
	}
}

// IsToken reports whether s is a token (RFC 9110 section 5.6.2).
func IsToken(s string) bool {
	for i := 0; i < len(s); i++ {
		if !IsTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

// IsTokenByte reports whether a token may have the byte.
func IsTokenByte(c byte) bool {
	return c < 128 && tokenBytes[c/64]>>(c%64)&1 == 1
}

// tokenBytes has a bit for every byte of a token: letters, digits and
// "!#$%&'*+-.^_`|~".
var tokenBytes = [2]uint64{0x03ff6cfa00000000, 0x57ffffffc7fffffe}

// IsValue reports whether s can stand as a field value: no control character but
// the tab (RFC 9110 section 5.5).
func IsValue(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

package proxy

import (
	"errors"

	"github.com/kimbap-run/kimbap/proxy/http1"
)

// errChunks is a chunked body that two parsers could end at different bytes.
var errChunks = errors.New("bad chunked body")

// The parts of a chunked body (RFC 9112 section 7.1).
const (
	chunkSize      = iota // hex digits
	chunkExtension        // from ";" to the line's end
	chunkSizeLF           // after the CR of a size line
	chunkData             // as many bytes as the size said
	chunkDataCR           // after the data
	chunkDataLF           // after its CR
	chunkLine             // at the start of a trailer line
	chunkTrailer          // in a trailer line
	chunkTrailerLF        // after its CR
	chunkLastLF           // after the CR of the empty line
)

// Bounds of what a chunked body carries beside its data, in bytes.
const (
	maxExtension = 1 << 10
	maxTrailers  = 16 << 10
)

// chunks follows a chunked body as its bytes pass and finds its end. The zero
// value stands before the first chunk.
type chunks struct {
	part   int
	left   int64 // of the size being read, or of the data
	digits int
	extra  int // bytes of extensions of this chunk, or of all trailers
	named  bool
}

// scan looks at p and returns how many of its bytes belong to the body, and
// whether the body ended there. An error is for good.
func (c *chunks) scan(p []byte) (n int, done bool, err error) {
	for n < len(p) {
		if c.part == chunkData {
			take := min(c.left, int64(len(p)-n))
			n += int(take)
			if c.left -= take; c.left == 0 {
				c.part = chunkDataCR
			}
			continue
		}
		done, err = c.step(p[n])
		n++
		if done || err != nil {
			return n, done, err
		}
	}
	return n, false, nil
}

// step takes one byte outside the data.
func (c *chunks) step(b byte) (done bool, err error) {
	switch c.part {
	case chunkSize:
		return false, c.size(b)
	case chunkExtension:
		c.extra++
		if b == '\r' {
			c.part = chunkSizeLF
			return false, nil
		}
		return false, unless(c.extra <= maxExtension && (b >= ' ' || b == '\t') && b != 0x7f)
	case chunkSizeLF:
		last := c.left == 0
		c.digits, c.extra = 0, 0
		if c.part = chunkData; last {
			c.part = chunkLine
		}
		return false, unless(b == '\n')
	case chunkDataCR:
		c.part = chunkDataLF
		return false, unless(b == '\r')
	case chunkDataLF:
		c.part = chunkSize
		return false, unless(b == '\n')
	case chunkLine, chunkTrailer, chunkTrailerLF:
		return false, c.trailer(b)
	default: // chunkLastLF
		return b == '\n', unless(b == '\n')
	}
}

// size takes one byte of a size line before any extension.
func (c *chunks) size(b byte) error {
	switch {
	case isHex(b):
		c.digits++
		c.left = c.left<<4 | int64(hexValue(b))
		return unless(c.digits <= 15)
	case c.digits > 0 && b == ';':
		c.part = chunkExtension
		return nil
	case c.digits > 0 && b == '\r':
		c.part = chunkSizeLF
		return nil
	}
	return errChunks
}

// trailer takes one byte after the last chunk.
func (c *chunks) trailer(b byte) error {
	c.extra++
	switch {
	case c.extra > maxTrailers:
		return errChunks
	case c.part == chunkTrailerLF:
		c.part = chunkLine
		return unless(b == '\n')
	case c.part == chunkLine && b == '\r':
		c.part = chunkLastLF
		return nil
	case c.part == chunkLine:
		c.part, c.named = chunkTrailer, false
		return unless(http1.IsTokenByte(b)) // a folded line, or no name
	case b == '\r':
		c.part = chunkTrailerLF
		return unless(c.named)
	case !c.named:
		c.named = b == ':'
		return unless(c.named || http1.IsTokenByte(b))
	}
	return unless((b >= ' ' || b == '\t') && b != 0x7f)
}

func unless(ok bool) error {
	if ok {
		return nil
	}
	return errChunks
}

func hexValue(b byte) byte {
	switch {
	case b <= '9':
		return b - '0'
	case b <= 'F':
		return b - 'A' + 10
	}
	return b - 'a' + 10
}

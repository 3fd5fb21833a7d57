package scrub

import (
	"encoding/binary"
	"io"

	"github.com/andybalholm/brotli"
)

// What a decoder of brotli keeps beside its window, in bytes: it makes the tables of 3 × 256
// prefix codes as soon as a block says that it has so many (RFC 7932 section 9.2), each with
// 630, 1,080 and 920 entries of four bytes; its input; and itself.
const brotliTables = 256*4*(630+1080+920) + 96<<10

// brotliShort is the least that a decoder of brotli makes its window of, in bytes.
const brotliShort = 1 << 10

func unbrotli(src Encoded, room Room) (io.Reader, error) {
	if _, err := src.Peek(1); err != nil {
		return nil, err
	}
	head, err := src.Peek(min(src.Buffered(), 8))
	if err != nil {
		return nil, err
	}
	if err := room(brotliWindow(head) + brotliTables); err != nil {
		return nil, err
	}
	return brotli.NewReader(chunked{src}), nil
}

// brotliWindow is how large a window the decoder makes at most, of a body that begins like
// that (RFC 7932 sections 9.1 and 9.2). It makes no more than it needs for the length that
// a block says, but any block may be the longest: only when the first is also the last one
// is that length all there is.
func brotliWindow(head []byte) int64 {
	b := bits{left: 8 * len(head)}
	var word [8]byte
	copy(word[:], head)
	b.word = binary.LittleEndian.Uint64(word[:])

	window := int64(1) << b.windowBits()
	last, empty := b.take(1), 0
	if last == 1 {
		empty = b.take(1)
	}
	nibbles := b.take(2) + 4
	length := int64(b.take(4*nibbles)) + 1
	if last == 0 || empty == 1 || nibbles == 7 || b.left < 0 {
		return window
	}
	for window/2 >= max(length, brotliShort) {
		window /= 2
	}
	return window
}

// bits reads the first 64 bits of a body, the lowest first. Left is below zero when
// more were taken than there are.
type bits struct {
	word uint64
	left int
}

func (b *bits) take(n int) int {
	v := b.word & (1<<n - 1)
	b.word >>= n
	b.left -= n
	return int(v)
}

// windowBits reads WBITS: the largest there is for what is not one.
func (b *bits) windowBits() int {
	if b.take(1) == 0 {
		return 16
	}
	if n := b.take(3); n != 0 {
		return 17 + n
	}
	switch n := b.take(3); n {
	case 0:
		return 17
	case 1:
		return 24
	default:
		return 8 + n
	}
}

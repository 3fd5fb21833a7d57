package scrub

import (
	"bufio"
	"bytes"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"
)

// Decoder makes the reader of one content coding. It may read from src before it
// returns; its error, and the reader's, is that of src or says that this is not the
// coding. A reader that is an [io.Closer] must be closed. Each is for one body and one
// goroutine. What it will keep of a body it asks room for before it keeps it, but for
// gzip and deflate, whose window has 32 KiB.
type Decoder func(src Encoded, room Room) (io.Reader, error)

// Room makes room for n bytes of memory in place of those that it made room for before,
// which are not in use any more. It may wait; its error ends the decoding.
type Room func(n int64) error

// anyRoom is that of a body which is there whole: nothing is waited for while it is decoded.
func anyRoom(int64) error { return nil }

// Encoded is what a decoder reads: a stream whose used bytes are counted, or a body
// that is there whole.
type Encoded interface {
	io.Reader
	io.ByteReader
	Peek(n int) ([]byte, error)
	Buffered() int // how many bytes Peek has without waiting for them
}

var _ Encoded = (*bufio.Reader)(nil)

// Settled is implemented by readers of codings that are several encodings, one behind the other.
type Settled interface {
	// Settled reports whether the last Read came to the end of one, so that all was given that
	// comes of what was used.
	Settled() bool
}

// DecoderOf returns the decoder of a coding in lower case (RFC 9110 section 8.4.1, RFC
// 7932, RFC 8878), nil for one we do not know, which several codings at once are.
func DecoderOf(coding string) Decoder {
	switch coding {
	case "gzip", "x-gzip":
		return gunzip
	case "deflate":
		return inflate
	case "br":
		return unbrotli
	case "zstd":
		return unzstd
	}
	return nil
}

// SearcherOf is [DecoderOf] for a body that is searched for what a client could make of it. In
// zstd what a length or a sum says of it is no reason to end: clients have the text before they
// see it. A length that stands for the window ends it even so, where a block is larger, and in gzip
// a wrong sum does, behind the text that it is of: members that follow are not searched.
func SearcherOf(coding string) Decoder {
	if coding == "zstd" {
		return unzstdLoosely
	}
	return DecoderOf(coding)
}

// mostAhead is how many bytes more than it has given a decoder of deflate may have used the
// codes of: the rest of a match that its window cut (RFC 1951 section 3.2.5), and what stands
// in its 32 bits of lookahead, where a longest match takes two.
const mostAhead = 257 + 32/2*258

// Ahead returns how many bytes a decoder of this coding, as [DecoderOf] knows it, may keep to
// itself of what it has used, while it fills what Read is given only in part. It is 0 for those
// that give all they can first.
func Ahead(coding string) int {
	switch coding {
	case "gzip", "x-gzip", "deflate":
		return mostAhead
	}
	return 0
}

// Lookahead is how many bytes at most of those that a decoder of deflate has used it may not have
// decoded when its source fails.
const Lookahead = 32 / 8

// Whole decodes a body that is there whole. Of one that decodes to more than limit
// bytes it returns limit and one byte more, and no error: a small body may decode to
// terabytes. The error is the decoder's, for a body that is not in its coding or is cut
// short.
func (decode Decoder) Whole(body []byte, limit int) ([]byte, error) {
	reader, err := decode(bufio.NewReader(bytes.NewReader(body)), anyRoom)
	if err != nil {
		return nil, err
	}
	if closer, ok := reader.(io.Closer); ok {
		defer func() { _ = closer.Close() }()
	}
	return io.ReadAll(io.LimitReader(reader, int64(limit)+1))
}

// inflate reads what servers mean by deflate: zlib, or bare deflate.
func inflate(src Encoded, _ Room) (io.Reader, error) {
	first, err := src.Peek(2)
	if err != nil {
		return nil, err
	}
	if first[0]&0x0f == 8 && (int(first[0])<<8|int(first[1]))%31 == 0 {
		return zlib.NewReader(src)
	}
	return flate.NewReader(src), nil
}

// chunked hides the byte reader of its source from decoders that take what is there
// and ask for more only when its output was given.
type chunked struct{ src Encoded }

// Read implements [io.Reader].
func (c chunked) Read(p []byte) (int, error) { return c.src.Read(p) }

package scrub

import (
	"bufio"
	"bytes"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Bounds of what a decoder of zstd keeps, in bytes.
const (
	zstdWindow    = 8 << 20 // RFC 9659 section 3
	zstdMostInUse = 32 << 20
)

// Decoder makes the reader of one content coding. It may read from src before it
// returns; its error, and the reader's, is that of src or says that this is not the
// coding. A reader that is an [io.Closer] must be closed. Each is for one body and one
// goroutine.
type Decoder func(src Encoded) (io.Reader, error)

// Encoded is what a decoder reads: a stream whose used bytes are counted, or a body
// that is there whole.
type Encoded interface {
	io.Reader
	io.ByteReader
	Peek(n int) ([]byte, error)
}

var _ Encoded = (*bufio.Reader)(nil)

// DecoderOf returns the decoder of a coding in lower case (RFC 9110 section 8.4.1, RFC
// 7932, RFC 8878), nil for one we do not know, which several codings at once are.
func DecoderOf(coding string) Decoder {
	switch coding {
	case "gzip", "x-gzip":
		return func(src Encoded) (io.Reader, error) { return gzip.NewReader(src) }
	case "deflate":
		return inflate
	case "br":
		return func(src Encoded) (io.Reader, error) { return brotli.NewReader(chunked{src}), nil }
	case "zstd":
		return func(src Encoded) (io.Reader, error) {
			d, err := zstd.NewReader(chunked{src}, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderMaxMemory(zstdMostInUse))
			if err != nil {
				return nil, err
			}
			return d.IOReadCloser(), nil
		}
	}
	return nil
}

// Whole decodes a body that is there whole. Of one that decodes to more than limit
// bytes it returns limit and one byte more, and no error: a small body may decode to
// terabytes. The error is the decoder's, for a body that is not in its coding or is cut
// short.
func (decode Decoder) Whole(body []byte, limit int) ([]byte, error) {
	reader, err := decode(bufio.NewReader(bytes.NewReader(body)))
	if err != nil {
		return nil, err
	}
	if closer, ok := reader.(io.Closer); ok {
		defer func() { _ = closer.Close() }()
	}
	return io.ReadAll(io.LimitReader(reader, int64(limit)+1))
}

// inflate reads what servers mean by deflate: zlib, or bare deflate.
func inflate(src Encoded) (io.Reader, error) {
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

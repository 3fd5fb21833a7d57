package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest/scrub"
)

// Bounds of decoding. A window is decoded, searched and forgotten, so that an
// answer costs no memory, whatever it decodes to.
const (
	windowSize   = 64 << 10  // decoded bytes looked at in one step; more than a block of deflate
	encodedChunk = 16 << 10  // read from the upstream at once
	heldLimit    = 256 << 10 // encoded bytes that may wait for output; no honest block is longer
	freeDecoded  = 64 << 20  // what any answer may decode to
	mostDecoded  = 1100      // times its size, what a longer one may: gzip makes at most 1,032, and zstd 30,000
	othersFirst  = 1 << 20   // decoded bytes, after which those who wait for a processor go first
)

// shortestEncoded is how long a credential is that is looked for in encoded bytes.
const shortestEncoded = 8

// errInflated is an answer that is not worth decoding to its end.
var errInflated = errors.New("the answer decodes to very much more than it is")

// codingOf is what a body is encoded in: "" for nothing, more than one name for
// several codings, one over the other.
func codingOf(header http.Header) string {
	codings := slices.DeleteFunc(tokens(header["Content-Encoding"]), func(c string) bool { return c == "identity" })
	return strings.Join(codings, ",")
}

// Decoded is an answer's body without its content coding, for those who read it
// rather than pass it on: servers compress unasked. One in a coding that is not
// known, or in several, and one that is text although it names a coding, is
// returned as it is: what has not been searched for the credential is not opened
// here either. The error is [runtime.ErrBodyTooLarge] for more than limit bytes, and
// an *runtime.Error for a body that does not decode.
func Decoded(header http.Header, body []byte, limit int) ([]byte, error) {
	coding := codingOf(header)
	decode := scrub.DecoderOf(coding)
	if decode == nil || len(body) == 0 {
		return body, nil
	}
	plain, err := decode.Whole(body, limit)
	switch {
	case err == nil && len(plain) > limit:
		return nil, runtime.ErrBodyTooLarge
	case err == nil:
		return plain, nil
	case utf8.Valid(body):
		return body, nil // there are servers that name an encoding and use none
	}
	return nil, &runtime.Error{
		Code: runtime.CodeUpstream, Stage: runtime.StageExecute, Err: err,
		Msg:  fmt.Sprintf("the answer says that it is %s and cannot be decoded", coding),
		Hint: "look at its bytes with: kimbap run -- curl …",
	}
}

// copyScanned passes the encoded bytes on once their decoded copy was searched.
// A hit cuts the answer off before the bytes that complete it have left.
func (x *exchange) copyScanned(ctx context.Context, body io.Reader, coding string) error {
	src := &tap{x: x, src: body, ahead: scrub.Ahead(coding)}
	err := x.search(ctx, src, scrub.SearcherOf(coding))
	if whole := err == nil; whole && src.drained() {
		if src.failed = src.release(src.used); src.failed == nil {
			return nil
		}
	} else if src.broke && (whole || errors.Is(err, src.end)) {
		if werr := src.rescue(whole); werr != nil {
			src.failed = werr
		}
	}
	switch {
	case errors.Is(err, errReflected), errors.Is(src.failed, errReflected):
		return x.reflected()
	case src.failed != nil:
		return src.failed
	}
	// Not what it said it was, or something follows its end, or too much comes of it.
	x.result.Unscanned = true
	if x.lines.o.ScrubStrict {
		if errors.Is(err, errInflated) {
			return x.unscannable("too dense")
		}
		return x.unscannable("damaged")
	}
	x.result.BytesIn -= int64(len(src.held)) // which are read again
	return x.copyMasked(io.MultiReader(bytes.NewReader(src.held), body))
}

// search decodes window by window. It returns nil at the end of the encoding.
func (x *exchange) search(ctx context.Context, src *tap, decode scrub.Decoder) error {
	room := window{x: x}
	defer room.back()
	reader, err := decode(src, func(n int64) error {
		src.failed = room.take(ctx, n) // what is not searched does not pass
		return src.failed
	})
	if err == io.EOF && len(src.held) == 0 {
		return nil // a body of no bytes at all, as some answer HEAD and 304
	}
	if err != nil {
		return err
	}
	if closer, ok := reader.(io.Closer); ok {
		defer func() { _ = closer.Close() }()
	}
	parts, _ := reader.(scrub.Settled)
	m := x.message.scrub
	window, carried, decoded := make([]byte, m.Longest()+windowSize), 0, int64(0)
	for {
		n, err := reader.Read(window[carried : carried+windowSize])
		text := window[:carried+n]
		if decoded += int64(n); decoded > freeDecoded && decoded/mostDecoded > src.came {
			return errInflated
		}
		if at, _ := m.Next(text, 0); at >= 0 {
			return errReflected
		}
		tail := m.Tail(text)
		carried = copy(window, text[len(text)-tail:])
		src.decoded(n, tail)
		if err == nil {
			// At its end that waits until nothing follows: else it was no encoding, and is
			// searched as it stands. A member of gzip whose sum was right is one.
			if werr := src.searched(n, parts != nil && parts.Settled()); werr != nil {
				src.failed = werr
				return werr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if decoded > othersFirst { // else a few such answers take all the time there is
			goruntime.Gosched()
		}
	}
}

// tap feeds a decoder byte by byte and keeps the encoded bytes until release: those the
// decoder has used, whose output was searched and in which no credential begins.
type tap struct {
	x      *exchange
	src    io.Reader
	held   []byte
	used   int
	ahead  int   // see [scrub.Ahead]
	mark   int   // so many used bytes, of which at most ahead decoded bytes were still to come
	since  int   // decoded bytes since the mark was made
	tail   int   // of what is decoded, so many bytes at the end could begin a credential
	clear  bool  // in what is decoded no credential begins
	seen   int   // how much was used when that was last looked at
	bulk   bool  // the last of it was asked for in one piece, as deflate asks for what is no code
	came   int64 // encoded bytes so far
	end    error // io.EOF or the upstream's failure
	broke  bool  // the decoder has come to that failure
	failed error // the upstream's, or the caller's, or for want of memory
}

var _ scrub.Encoded = (*tap)(nil)

// fill reads more from the upstream.
func (t *tap) fill() error {
	if t.end != nil {
		return t.ended()
	}
	if t.used > heldLimit {
		n := t.used
		if t.mark > 0 {
			n = t.mark
		}
		if t.failed = t.release(t.clean(n)); t.failed != nil {
			return t.failed
		}
	}
	if cap(t.held)-len(t.held) < encodedChunk {
		t.held = append(make([]byte, 0, 2*len(t.held)+encodedChunk), t.held...)
	}
	n, err := t.src.Read(t.held[len(t.held) : len(t.held)+encodedChunk])
	t.x.result.BytesIn += int64(n)
	t.came += int64(n)
	t.held = t.held[:len(t.held)+n]
	t.end = err
	if n > 0 || err == nil {
		return nil
	}
	return t.ended()
}

// ended is the end of what the upstream has sent, to which the decoder has come.
func (t *tap) ended() error {
	if t.end != io.EOF {
		t.failed, t.broke = t.end, true
	}
	return t.end
}

// Read implements [io.Reader].
func (t *tap) Read(p []byte) (int, error) {
	for t.used == len(t.held) {
		if err := t.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, t.held[t.used:])
	t.used, t.bulk = t.used+n, true
	return n, nil
}

// mostMark is how many bytes of a flush can come behind what was searched: the code of a block's
// end, and the empty block. No other block that ends like it has room in them.
const mostMark = 7

// ReadByte implements [io.ByteReader], so that deflate reads no byte ahead. It asks for a block
// like that, and for the sum behind the last, which may look like a flush, with Read: so what a
// flush found given already, at the end of a window, can leave here.
func (t *tap) ReadByte() (byte, error) {
	for t.used == len(t.held) {
		if t.clear && t.flushed() && t.used-t.seen <= mostMark {
			if t.failed = t.release(t.used); t.failed != nil {
				return 0, t.failed
			}
		}
		if err := t.fill(); err != nil {
			return 0, err
		}
	}
	t.used, t.bulk = t.used+1, false
	return t.held[t.used-1], nil
}

// Peek shows the next bytes without using them.
func (t *tap) Peek(n int) ([]byte, error) {
	for len(t.held)-t.used < n {
		if err := t.fill(); err != nil {
			return nil, err
		}
	}
	return t.held[t.used : t.used+n], nil
}

// Buffered returns how many bytes Peek has without waiting for the upstream.
func (t *tap) Buffered() int { return len(t.held) - t.used }

// decoded notes that n bytes more were decoded and searched, of which so many at the end could
// begin a credential.
func (t *tap) decoded(n, tail int) {
	t.since += n
	t.tail, t.clear = tail, tail == 0
}

// searched releases what may leave after n bytes more. Settled says that no more comes of what
// was used.
func (t *tap) searched(n int, settled bool) error {
	t.seen = t.used
	given := n < windowSize && (t.ahead == 0 || t.flushed()) || settled && t.end != io.EOF // all that came of what was used
	if t.clear && given {
		return t.release(t.used)
	}
	if t.since-t.tail < t.ahead {
		return nil
	}
	err := t.release(t.mark)
	if given || t.ahead > 0 {
		t.mark, t.since = t.used, 0
	}
	return err
}

// rescue releases what may leave of an answer that the upstream has broken off: what was decoded
// and searched, but for an end that could begin a credential. Whole says that the encoding was
// there to its end.
func (t *tap) rescue(whole bool) error {
	n := t.seen // all of that was given, or the decoder had not asked for more
	switch {
	case t.tail > 0 && t.since-t.tail < t.ahead:
		return nil
	case t.tail > 0:
		n = t.mark
	case whole:
		return t.release(t.used)
	case t.ahead > 0: // it was given with the failure
		n = max(0, t.used-scrub.Lookahead)
	}
	return t.release(t.clean(n))
}

// flushed reports whether what was used ends as a flush does, with an empty block (RFC 1951
// section 3.2.4), where deflate gives all there is. Text in a block of its own can end so too.
func (t *tap) flushed() bool {
	return t.ahead > 0 && t.bulk && bytes.HasSuffix(t.held[:t.used], []byte{0, 0, 0xff, 0xff})
}

// clean is how many of the first n bytes may leave while more follow or could: those before what
// could begin the credential as it is.
func (t *tap) clean(n int) int { return n - t.x.message.scrub.Tail(t.held[:n]) }

// release sends the first n of the used bytes to the caller, unless the credential stands in
// them as they are: some codings have room for a name or a comment that nobody decodes. What is
// too short is not looked for, since it stands in any by chance.
func (t *tap) release(n int) error {
	if n == 0 {
		return nil
	}
	if m := t.x.message.scrub; m.Shortest() >= shortestEncoded {
		if at, _ := m.Next(t.held[:n], 0); at >= 0 {
			return errReflected
		}
	}
	err := t.x.write(t.held[:n])
	t.held = t.held[:copy(t.held, t.held[n:])]
	t.used, t.seen, t.mark, t.since = t.used-n, max(0, t.seen-n), 0, 0
	return err
}

// drained reports whether nothing follows the end of the encoding.
func (t *tap) drained() bool {
	for t.used == len(t.held) {
		if t.fill() != nil {
			return t.failed == nil
		}
	}
	return false
}

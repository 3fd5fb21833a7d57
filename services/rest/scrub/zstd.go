package scrub

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Bounds of what a decoder of zstd keeps, in bytes.
const (
	zstdWindow    = 8 << 20 // RFC 9659 section 3
	zstdMostInUse = 32 << 20
	zstdBlock     = 128 << 10 // RFC 8878 section 3.1.1.2.4, of a block decoded
	zstdNarrow    = zstdBlock // the window that a frame begins with
	zstdKept      = 128 << 10 // of an encoded frame whose window is narrow
	zstdTables    = 64 << 10
)

// frames decodes zstd, frame by frame. The decoder makes the whole window that a frame
// names with its first block, and a stream names 8 MiB before it knows that it is short.
// So a frame has a narrow window at first, and what came of it is kept: once it has been
// decoded to more, or refers to what is further away, the frame is decoded again in the
// window that it names.
type frames struct {
	src   Encoded
	room  Room
	has   int64 // what room was asked for
	loose bool  // what a frame says of its length and its sum is not heeded
	d     *zstd.Decoder
	frame
}

// frame is the source of one frame, which ends with it.
type frame struct {
	src    Encoded
	window int64  // named in its head
	ahead  []byte // comes before what src has
	left   int    // of a block, or of the checksum, in bytes
	last   bool   // no block follows
	sum    bool   // a checksum does
	bare   bool   // which is not read here
	failed error  // of src

	narrow  bool
	head    []byte
	kept    []byte // behind head, while it is narrow
	decoded int64  // bytes that were given to the reader
}

func unzstd(src Encoded, room Room) (io.Reader, error) { return &frames{src: src, room: room}, nil }

// unzstdLoosely decodes frames whose length or sum is wrong too: the decoder would keep the last
// block of such a one to itself, and clients do not.
func unzstdLoosely(src Encoded, room Room) (io.Reader, error) {
	return &frames{src: src, room: room, loose: true}, nil
}

// Read implements [io.Reader]. It gives a block or a part of one at a time, and may give nothing
// behind the last.
func (z *frames) Read(p []byte) (int, error) {
	if z.d == nil {
		if err := z.next(); err != nil {
			return 0, err
		}
	}
	for {
		if z.narrow && (z.decoded >= zstdNarrow || len(z.kept) > zstdKept) {
			if err := z.widen(); err != nil {
				return 0, err
			}
		}
		n, err := z.d.Read(p)
		z.decoded += int64(n)
		switch {
		case n > 0:
			return n, nil // an error comes again
		case err == io.EOF && z.sum: // by itself, so that it leaves before another frame comes
			return 0, z.skipSum()
		case err == io.EOF:
			err = z.next()
		case err != nil && z.failed == nil && z.narrow:
			err = z.widen()
		}
		if err != nil {
			return 0, err
		}
	}
}

// Close implements [io.Closer].
func (z *frames) Close() error {
	if z.d != nil {
		z.d.Close()
		z.d = nil
	}
	return nil
}

// skipSum passes over a sum that the decoder was not told of.
func (z *frames) skipSum() error {
	z.sum = false
	_, err := io.CopyN(io.Discard, z.src, 4)
	return cutShort(err)
}

// next begins the next frame; io.EOF says that there is none.
func (z *frames) next() error {
	for {
		if _, err := z.src.Peek(1); err != nil {
			return err
		}
		head, size, err := zstdHead(z.src)
		if err != nil {
			return err
		}
		if size == 0 { // it can be skipped
			_, err = io.CopyN(io.Discard, z.src, int64(len(head))+int64(binary.LittleEndian.Uint32(head[4:])))
			if err != nil {
				return cutShort(err)
			}
			continue
		}
		if size > zstdWindow {
			return zstd.ErrWindowSizeExceeded
		}
		z.frame = frame{src: z.src, window: size, head: append([]byte(nil), head...), sum: head[4]&4 != 0, bare: z.loose}
		if z.loose {
			z.head, z.window = bared(head, size)
		}
		if _, err := io.CopyN(io.Discard, z.src, int64(len(head))); err != nil {
			return err
		}
		return z.begin()
	}
}

// begin decodes a frame from its beginning: in a narrow window, unless there is room
// already for what it names.
func (z *frames) begin() error {
	need := zstdNeeds(z.window)
	if z.window <= zstdNarrow || need <= z.has {
		z.ahead = z.head
		return z.decode(need)
	}
	z.narrow, z.ahead = true, narrowed(z.head)
	need = zstdNeeds(zstdNarrow) + 4*zstdKept // which grows by doubling
	if z.has > need {
		_ = z.Close() // the window of a frame before
	}
	return z.decode(need)
}

// narrowed is a head with another window, also of a frame whose window is its length.
func narrowed(head []byte) []byte {
	const single, narrow = 1 << 5, 7 << 3 // 128 KiB
	rest := head[6:]
	if head[4]&single != 0 {
		rest = head[5:]
	}
	return append(append(append([]byte(nil), head[:4]...), head[4]&^single, narrow), rest...)
}

// bared is a head that says nothing but the least window there is of such a size or more, and
// that window (RFC 8878 section 3.1.1.1.2).
func bared(head []byte, size int64) ([]byte, int64) {
	const dictionary, reserved, single = 3, 3 << 3, 1 << 5
	window, step := int64(zstd.MinWindowSize), 0
	for ; window < size; step++ {
		base := int64(zstd.MinWindowSize) << (step >> 3)
		window = base + base/8*int64(step&7)
	}
	rest := head[6:]
	if head[4]&single != 0 {
		rest = head[5:]
	}
	out := append(append([]byte(nil), head[:4]...), head[4]&(dictionary|reserved), byte(max(0, step-1)))
	return append(out, rest[:[...]int{0, 1, 2, 4}[head[4]&dictionary]]...), window
}

// widen decodes a frame again, in the window that it names.
func (z *frames) widen() error {
	z.ahead, z.kept, z.narrow = append(z.head, z.kept...), nil, false
	_ = z.Close()
	if err := z.decode(zstdNeeds(z.window)); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, z.d, z.decoded)
	return cutShort(err)
}

// decode makes the decoder read the frame, within so many bytes of memory.
func (z *frames) decode(need int64) error {
	if need <= z.has && z.d != nil {
		return z.d.Reset(&z.frame)
	}
	_ = z.Close() // who waits for room has none
	if need > z.has {
		z.has = 0
		if err := z.room(need); err != nil {
			return err
		}
		z.has = need
	}
	var err error
	z.d, err = zstd.NewReader(&z.frame, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderMaxMemory(zstdMostInUse))
	return err
}

// zstdNeeds is what the decoder keeps of a frame with such a window, in bytes: the window
// and two blocks behind it, and three buffers as long as a block.
func zstdNeeds(window int64) int64 { return window + 5*min(window, zstdBlock) + zstdTables }

// zstdHead returns the head of the frame that comes next (RFC 8878 section 3.1.1.1) and how
// large a window it names, 0 for one that can be skipped, whose head says its length.
func zstdHead(src Encoded) (head []byte, window int64, err error) {
	if head, err = src.Peek(5); err != nil {
		return nil, 0, cutShort(err)
	}
	size := 8
	if flags := head[4]; binary.LittleEndian.Uint32(head)&^15 != 0x184d2a50 {
		single := int(flags >> 5 & 1)
		size = 5 + (1 - single) + [...]int{0, 1, 2, 4}[flags&3] + [...]int{single, 2, 4, 8}[flags>>6]
	}
	if head, err = src.Peek(size); err != nil {
		return nil, 0, cutShort(err)
	}
	var h zstd.Header
	if err = h.Decode(head); err != nil {
		return nil, 0, err
	}
	switch {
	case h.Skippable:
		return head, 0, nil
	case h.SingleSegment:
		return head, int64(min(max(h.FrameContentSize, zstd.MinWindowSize), zstdWindow+1)), nil
	}
	return head, int64(min(h.WindowSize, zstdWindow+1)), nil
}

// Read implements [io.Reader].
func (f *frame) Read(p []byte) (int, error) {
	if len(f.ahead) > 0 {
		n := copy(p, f.ahead)
		if f.ahead = f.ahead[n:]; len(f.ahead) == 0 {
			f.ahead = nil
		}
		return n, nil
	}
	if f.left == 0 {
		if err := f.part(); err != nil {
			return 0, err
		}
	}
	n, err := f.src.Read(p[:min(len(p), f.left)])
	f.left -= n
	if f.narrow {
		f.kept = append(f.kept, p[:n]...)
	}
	if err != nil {
		f.failed = cutShort(err)
		return n, f.failed
	}
	return n, nil
}

// part finds out how long what comes next is (RFC 8878 section 3.1.1.2): a block with its
// head, or the checksum. The error is io.EOF at the end of the frame.
func (f *frame) part() error {
	if f.last {
		if !f.sum || f.bare {
			return io.EOF
		}
		f.sum, f.left = false, 4
		return nil
	}
	head, err := f.src.Peek(3)
	if err != nil {
		f.failed = cutShort(err)
		return f.failed
	}
	word := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	f.last, f.left = word&1 != 0, 3+word>>3
	if word>>1&3 == 1 { // one byte, so many times
		f.left = 3 + 1
	}
	return nil
}

// cutShort is the error of a frame whose source ends within it.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

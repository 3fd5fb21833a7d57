package rest

import (
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/runtime"
)

// frames finds the ends of the frames of a WebSocket (RFC 6455 section 5.2). At such an end the
// scrubber holds nothing back: more may come in an hour only, and no credential goes on in the
// next frame, whose first byte is no character of any.
type frames struct {
	head [10]byte
	have int    // bytes of the head
	left uint64 // of the payload, in bytes
	odd  bool   // a frame was in the way of an extension, or as only clients send them
}

// framesOf returns nil where what follows the upgrade cannot be searched: another protocol, and
// an extension, which compresses (permessage-deflate) or says itself what a frame is.
func framesOf(protocol string, header http.Header) *frames {
	if !strings.EqualFold(protocol, "websocket") || len(values(header, "sec-websocket-extensions")) > 0 {
		return nil
	}
	return &frames{}
}

// The bits of a frame's first two bytes.
const (
	reservedBits = 0x70
	maskedBit    = 0x80
)

// end reports whether a frame ends where the next bytes do.
func (f *frames) end(next []byte) (bool, error) {
	for len(next) > 0 {
		if f.left > 0 {
			n := min(f.left, uint64(len(next)))
			f.left -= n
			next = next[n:]
			continue
		}
		n := copy(f.head[f.have:f.size()], next)
		next = next[n:]
		if f.have += n; f.have == f.size() {
			f.begin()
		}
	}
	return f.have == 0 && f.left == 0, nil
}

// size is the length of the head as far as it is known.
func (f *frames) size() int {
	if f.have < 2 {
		return 2
	}
	switch f.head[1] &^ maskedBit {
	case 126:
		return 4
	case 127:
		return 10
	}
	return 2
}

func (f *frames) begin() {
	switch f.size() {
	case 2:
		f.left = uint64(f.head[1] &^ maskedBit)
	case 4:
		f.left = uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 10:
		f.left = binary.BigEndian.Uint64(f.head[2:])
	}
	f.odd = f.odd || f.head[0]&reservedBits != 0 || f.head[1]&maskedBit != 0
	f.have = 0
}

func (f *frames) released()      {}
func (f *frames) sealed() bool   { return f.odd }
func (f *frames) coding() string { return "frames of an extension of WebSocket" }

// unsearched notes that what follows an upgrade is not searched for the credential.
func (x *exchange) unsearched(protocol string) error {
	x.result.Unscanned = true
	if !x.lines.o.ScrubStrict {
		return nil
	}
	e := x.unscannable("what follows an upgrade to " + protocol)
	e.Hint = "set upstream.scrub to best_effort in config.yaml, which lets such an upgrade pass unsearched"
	if strings.EqualFold(protocol, "websocket") {
		e.Hint = "have the client offer no extension of WebSocket (permessage-deflate), or set upstream.scrub to best_effort in config.yaml"
	}
	return e
}

// passMasked is [exchange.pass] for what an upstream sends in frames: with the credential overwritten.
func (x *exchange) passMasked(dst io.Writer, src io.Reader, of *frames, n *atomic.Int64) (err error) {
	defer runtime.Contain(&err)
	return x.mask(src, of, func(p []byte) error {
		_, err := dst.Write(p)
		n.Add(int64(len(p)))
		return err
	})
}

package proxy

import (
	"time"

	"golang.org/x/net/http2"
)

// frames follows what a client of HTTP/2 sends, as far as to know whether it is in the
// middle of what has the time of a head: the preface, or a frame that is no DATA, with all
// the CONTINUATION frames that end a field block (RFC 9113 sections 3.4, 4.1 and 4.3).
// golang.org/x/net/http2 gives them the time that an idle connection has.
type frames struct {
	skip    int // bytes of the preface or of a payload, still to come
	head    [frameHead]byte
	n       int  // bytes of head that have come
	data    bool // the payload is part of a body, which has a time of its own
	block   bool // a field block has begun and not ended
	reads   int  // since midway began
	limited bool // a deadline is set
}

// frameHead is the size of a frame without its payload, in bytes.
const frameHead = 9

func newFrames() frames { return frames{skip: len(http2.ClientPreface)} }

// advance takes note of what was read.
func (f *frames) advance(p []byte) {
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(len(p), f.skip)
			f.skip, p = f.skip-n, p[n:]
			continue
		}
		n := copy(f.head[f.n:], p)
		if f.n, p = f.n+n, p[n:]; f.n < frameHead {
			return
		}
		f.n = 0
		f.skip = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
		switch kind := http2.FrameType(f.head[3]); kind {
		case http2.FrameHeaders, http2.FrameContinuation:
			f.block = !http2.Flags(f.head[4]).Has(http2.FlagHeadersEndHeaders)
			f.data = false
		default:
			f.data = kind == http2.FrameData
		}
	}
}

// midway reports whether the rest of something that is no body is to come.
func (f *frames) midway() bool { return f.block || f.n > 0 || f.skip > 0 && !f.data }

// limit sets the deadline of the next read. A frame comes in two reads, its head and its
// payload, and most are there as a whole: only who needs one more is given a time.
func (f *frames) limit(most time.Duration, deadline func(time.Time) error) {
	switch {
	case !f.midway():
		f.reads = 0
		if f.limited {
			f.limited = false
			_ = deadline(time.Time{})
		}
	case f.limited:
	case f.reads == 0:
		f.reads++
	default:
		f.limited = true
		_ = deadline(time.Now().Add(most))
	}
}

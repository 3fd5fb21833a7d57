package proxy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// errQuiet ends a way in which nothing has moved for too long after the other's end.
var errQuiet = errors.New("nothing moves in the tunnel")

// errRead marks an error of the side that is read from.
var errRead = errors.New("read")

// Sizes of a pump's buffers, in bytes: a tunnel that is quiet costs the small
// one, one that is busy has the large one too.
const (
	quietBuffer = 2 << 10
	busyBuffer  = 32 << 10
)

// halfway is a tunnel of which one way may have ended. The other goes on as long as
// something moves in it: it may be that nobody is there any more, and an upstream that
// does not mind would keep the tunnel for ever.
type halfway struct {
	idle  time.Duration
	ended atomic.Bool
}

// end says that the way from src to dst has ended. The other one may be reading from
// dst, or writing to src, which takes nothing.
func (h *halfway) end(dst, src net.Conn) {
	h.ended.Store(true)
	h.arm(dst)
	h.armWrite(src)
}

// arm gives the next read of the way that is left its time.
func (h *halfway) arm(src net.Conn) {
	if h.ended.Load() {
		_ = src.SetReadDeadline(time.Now().Add(h.idle))
	}
}

// armWrite does that for its next write, which a peer that reads nothing would hold up.
func (h *halfway) armWrite(dst net.Conn) {
	if h.ended.Load() {
		_ = dst.SetWriteDeadline(time.Now().Add(h.idle))
	}
}

// write writes p to dst. In the way that is left, that goes on as long as some of it moves.
func (h *halfway) write(dst net.Conn, p []byte) (n int, err error) {
	h.armWrite(dst)
	n, err = dst.Write(p)
	if n > 0 && h.over(err) {
		var more int
		more, err = insist(p[n:], func() { h.armWrite(dst) }, dst.Write)
		n += more
	}
	if h.over(err) {
		return n, errQuiet
	}
	return n, err
}

// over reports whether an error is that nothing has moved for too long.
func (h *halfway) over(err error) bool {
	return h.ended.Load() && errors.Is(err, os.ErrDeadlineExceeded)
}

// pump copies src to dst until its end, then ends dst.
func pump(dst, src net.Conn, seat *place, half *halfway) (n int64, err error) {
	small := make([]byte, quietBuffer)
	var large []byte
	buf := small
	for {
		half.arm(src)
		got, rerr := src.Read(buf)
		if got > 0 {
			seat.touch()
			wrote, werr := half.write(dst, buf[:got])
			n += int64(wrote)
			if werr != nil {
				return n, fmt.Errorf("write: %w", werr)
			}
		}
		if isEnd(rerr) {
			if ends, ok := dst.(interface{ CloseWrite() error }); ok {
				_ = ends.CloseWrite()
			}
			half.end(dst, src)
			return n, nil
		}
		if half.over(rerr) {
			return n, errQuiet
		}
		if rerr != nil {
			return n, fmt.Errorf("%w: %w", errRead, rerr)
		}
		switch {
		case got == len(buf) && large == nil:
			large = make([]byte, busyBuffer)
			buf = large
		case got < quietBuffer:
			buf, large = small, nil
		}
	}
}

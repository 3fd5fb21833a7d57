package classifier

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
)

// PackedParts reports whether a body is one in parts, in gzip: as Google's clients for Java
// send a file with what is said of it. It may be long, and is looked at as it passes ([WatchPacked]).
func PackedParts(header http.Header) bool {
	types := header["Content-Type"]
	return gzipped(header) && len(types) == 1 && isMultipart(types[0]) && !OtherCharset(types)
}

// Bounds of a body that is unpacked as it passes.
const (
	packedChunk = 16 << 10 // read at once
	packedHeld  = 80 << 10 // that may wait for what is in it: a window takes less than half
	freePacked  = 16 << 20 // unpacked, what any body may become
	mostPacked  = 100      // times its size, what a longer one may
)

// PackedBody is a body in gzip that passes as it is, each piece once what is in it was looked
// at. What readers could unpack otherwise is refused as by [Unpack], before its end has passed.
type PackedBody struct {
	from              io.Reader
	written, unpacked *OverrideWatch
	one               *gzip.Reader
	window            []byte

	held         []byte // of from
	used         int    // of these, by the decoder
	passed       int    // of these, to be forgotten
	ready        []byte // to pass on
	came, became int64
	failed       error // of from, or of what came
	end          error // what Read returns behind ready
}

var (
	_ io.Reader     = (*PackedBody)(nil)
	_ io.ByteReader = (*packedSource)(nil)
)

// WatchPacked has a body looked at as it passes, as it is written and unpacked: a reader
// could ignore the coding, and to it all before the first part is nothing.
func WatchPacked(body io.Reader, written, unpacked *OverrideWatch) *PackedBody {
	return &PackedBody{from: body, written: written, unpacked: unpacked}
}

// Read implements [io.Reader]. Its errors are those of the body, and an [*Error] for one that
// says what it may not, or that is no plain gzip: nothing further may be passed on then.
func (p *PackedBody) Read(b []byte) (int, error) {
	for len(p.ready) == 0 {
		if p.end != nil {
			return 0, p.end
		}
		p.held, p.used, p.passed = p.held[:copy(p.held, p.held[p.passed:])], p.used-p.passed, 0
		switch p.end = p.step(); p.end {
		case nil: // but for a last byte: with that a body of a known length is whole
			p.passed = max(0, p.used-1)
		case io.EOF:
			p.passed = p.used
		}
		p.ready = p.held[:p.passed]
	}
	n := copy(b, p.ready)
	p.ready = p.ready[n:]
	return n, nil
}

// step unpacks the next window and looks at it.
func (p *PackedBody) step() error {
	if p.one == nil {
		if err := p.begin(); err != nil {
			return err
		}
	}
	n, err := p.one.Read(p.window)
	if p.became += int64(n); p.became > freePacked && p.became/mostPacked > p.came {
		return badInput(reasonBodyTooLarge, "the body may decide what this request does, and is over %d times as long without its Content-Encoding", mostPacked)
	}
	if bad := p.unpacked.Look(p.window[:n]); bad != nil {
		return bad
	}
	if err != nil {
		return p.finish(err)
	}
	return nil
}

func (p *PackedBody) begin() error {
	source := &packedSource{p}
	for len(p.held) < len(plainGzip) {
		if err := source.fill(); err != nil {
			return p.damaged()
		}
	}
	if !bytes.HasPrefix(p.held, []byte(plainGzip)) {
		return unsupported("it is no plain gzip")
	}
	var err error
	if p.one, err = gzip.NewReader(source); err != nil {
		return p.damaged()
	}
	p.one.Multistream(false)
	p.window = make([]byte, 32<<10)
	return nil
}

// finish judges the end of the gzip, behind which nothing may come.
func (p *PackedBody) finish(err error) error {
	if err != io.EOF {
		return p.damaged()
	}
	source := &packedSource{p}
	for p.used == len(p.held) && source.fill() == nil {
	}
	if p.used < len(p.held) || p.failed != io.EOF {
		return p.damaged()
	}
	if err := p.unpacked.End(); err != nil {
		return err
	}
	if err := p.written.End(); err != nil {
		return err
	}
	return io.EOF
}

// damaged is why the body cannot be unpacked.
func (p *PackedBody) damaged() error {
	if p.failed != nil && p.failed != io.EOF {
		return p.failed
	}
	return unsupported("it is not one whole gzip")
}

// packedSource is what the decoder of a PackedBody reads, byte by byte, so that it takes no
// more than it uses.
type packedSource struct{ *PackedBody }

func (s *packedSource) fill() error {
	if s.failed == nil && len(s.held) > packedHeld {
		s.failed = unsupported("it is gzip with nothing in it")
	}
	if s.failed != nil {
		return s.failed
	}
	if cap(s.held)-len(s.held) < packedChunk {
		s.held = append(make([]byte, 0, len(s.held)+2*packedChunk), s.held...)
	}
	n, err := s.from.Read(s.held[len(s.held) : len(s.held)+packedChunk])
	came := s.held[len(s.held) : len(s.held)+n]
	s.held, s.came = s.held[:len(s.held)+n], s.came+int64(n)
	if s.failed = err; n == 0 {
		return err
	}
	if bad := s.written.Look(came); bad != nil {
		s.failed = bad
		return bad
	}
	return nil
}

// Read implements [io.Reader].
func (s *packedSource) Read(b []byte) (int, error) {
	for s.used == len(s.held) {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, s.held[s.used:])
	s.used += n
	return n, nil
}

// ReadByte implements [io.ByteReader].
func (s *packedSource) ReadByte() (byte, error) {
	for s.used == len(s.held) {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	s.used++
	return s.held[s.used-1], nil
}

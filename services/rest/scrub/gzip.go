package scrub

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
)

// members decodes gzip, which is one member or several (RFC 1952 section 2.2), and gives all of
// one before it asks for the next: a server may send each event as a member of its own. Of a
// head it refuses nothing but what is no gzip, since clients differ in what they refuse.
type members struct {
	src   Encoded
	body  io.Reader // of deflate
	sum   uint32    // of what the member has given
	size  uint32
	ended bool // the member, as its sum says
	err   error
}

var _ Settled = (*members)(nil)

func gunzip(src Encoded, _ Room) (io.Reader, error) {
	z := &members{src: src}
	if err := z.begin(); err != nil {
		return nil, err
	}
	return z, nil
}

// Read implements [io.Reader]. At the end of a member it gives what there is, which may be
// nothing.
func (z *members) Read(p []byte) (n int, err error) {
	if z.ended {
		z.err = z.begin()
	}
	if z.err != nil {
		return 0, z.err
	}
	n, z.err = z.body.Read(p)
	z.sum, z.size = crc32.Update(z.sum, crc32.IEEETable, p[:n]), z.size+uint32(n) //nolint:gosec // modulo 2^32
	if z.err == io.EOF {
		z.err = z.end()
	}
	return n, z.err
}

// Settled implements [Settled].
func (z *members) Settled() bool { return z.ended }

// begin begins the next member; io.EOF says that there is none.
func (z *members) begin() error {
	z.ended, z.sum, z.size = false, 0, 0
	if err := z.head(); err != nil {
		return err
	}
	if z.body == nil {
		z.body = flate.NewReader(z.src)
		return nil
	}
	return z.body.(flate.Resetter).Reset(z.src, nil)
}

// head reads over the head of a member (RFC 1952 section 2.3).
func (z *members) head() error {
	const (
		sum     = 1 << 1
		extra   = 1 << 2
		name    = 1 << 3
		comment = 1 << 4
	)
	var head [10]byte
	if _, err := io.ReadFull(z.src, head[:]); err != nil {
		return err
	}
	if !bytes.HasPrefix(head[:], []byte{0x1f, 0x8b, 8}) {
		return gzip.ErrHeader
	}
	flags := head[3]
	if flags&extra != 0 {
		if _, err := io.ReadFull(z.src, head[:2]); err != nil {
			return cutShort(err)
		}
		if err := z.skip(int(binary.LittleEndian.Uint16(head[:]))); err != nil {
			return err
		}
	}
	for _, flag := range []byte{name, comment} {
		if flags&flag == 0 {
			continue
		}
		for c := byte(1); c != 0; {
			var err error
			if c, err = z.src.ReadByte(); err != nil {
				return cutShort(err)
			}
		}
	}
	if flags&sum != 0 {
		return z.skip(2)
	}
	return nil
}

func (z *members) skip(n int) error {
	_, err := io.CopyN(io.Discard, z.src, int64(n))
	return cutShort(err)
}

// end compares what stands behind a member with what it gave.
func (z *members) end() error {
	var said [8]byte
	if _, err := io.ReadFull(z.src, said[:]); err != nil {
		return cutShort(err)
	}
	if binary.LittleEndian.Uint32(said[:]) != z.sum || binary.LittleEndian.Uint32(said[4:]) != z.size {
		return gzip.ErrChecksum
	}
	z.ended = true
	return nil
}

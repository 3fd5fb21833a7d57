package rest

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"
)

// segments is a connection on which bytes come in pieces.
type segments struct {
	net.Conn
	rest  []byte
	reads int
	next  func() int
}

func (s *segments) Read(p []byte) (int, error) {
	s.reads++
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest[:min(len(s.rest), s.next())])
	s.rest = s.rest[n:]
	return n, nil
}

// Whatever the pieces, and whenever reading ahead begins and ends, the bytes are
// the same; and a record that is said to be whole is read without waiting.
func TestGulpPassesRecordsOn(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var stream []byte
		for range 1 + random.IntN(30) {
			body := make([]byte, random.IntN(9000))
			for i := range body {
				body[i] = byte(random.Uint32())
			}
			stream = append(binary.BigEndian.AppendUint16(append(stream, 23, 3, 3), uint16(len(body))), body...)
		}
		below := &segments{rest: bytes.Clone(stream), next: func() int { return 1 + random.IntN(9000) }}
		g := &gulp{Conn: below}
		var got []byte
		p := make([]byte, 5000)
		read := func(most int) error {
			n, err := g.Read(p[:most])
			got = append(got, p[:n]...)
			return err
		}
		ahead := false
		for err := error(nil); err == nil; {
			if !ahead && random.IntN(3) == 0 {
				g.begin(make([]byte, 20000))
				ahead = true
			}
			if g.whole() {
				before := below.reads
				for left := g.rest(); left > 0; {
					had := len(got)
					if err := read(1 + random.IntN(min(left, len(p)))); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					left -= len(got) - had
				}
				if below.reads != before {
					t.Fatalf("seed %d: a whole record was waited for", seed)
				}
				if g.left != 0 || g.have != 0 {
					t.Fatalf("seed %d: not at the end of a record", seed)
				}
				if random.IntN(3) == 0 && g.end() {
					ahead = false
				} else if !ahead || g.buf == nil {
					break // bytes were read ahead and are lost: the wire would be cut
				}
				continue
			}
			err = read(1 + random.IntN(len(p)))
		}
		if !bytes.HasPrefix(stream, got) || g.buf != nil && len(got) != len(stream) {
			t.Fatalf("seed %d: %d of %d bytes, or other ones", seed, len(got), len(stream))
		}
	}
}

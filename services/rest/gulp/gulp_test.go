package gulp

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	goruntime "runtime"
	"syscall"
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
		g := &Conn{Conn: below}
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
				g.Begin(make([]byte, 20000))
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
				if random.IntN(3) == 0 && g.End() {
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

// What has come is read without waiting, where the read before may have left some
// behind; nothing, an end and a reset are three different things, and a reset that
// this read is told of is not lost.
func TestGulpTakesWhatIsPresent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for name, c := range map[string]struct {
		then func(far *net.TCPConn)
		is   func(err error) bool
	}{
		"nothing more": {func(*net.TCPConn) {}, func(err error) bool { return err == ErrDry }}, //nolint:errorlint // as TLS is to see it
		"an end":       {func(far *net.TCPConn) { _ = far.CloseWrite() }, func(err error) bool { return err == io.EOF }},
		"a reset": {func(far *net.TCPConn) { _, _ = far.SetLinger(0), far.Close() }, func(err error) bool {
			return errors.Is(err, syscall.ECONNRESET)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			near, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer near.Close()
			far, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer far.Close()
			g := &Conn{Conn: near, raw: Raw(near)}
			if g.raw == nil {
				if goruntime.GOOS != "windows" {
					t.Fatal("the socket's kernel cannot be asked")
				}
				return // present is never asked there: socket_other.go
			}
			g.Begin(make([]byte, 8))
			if _, err := far.Write(make([]byte, 3*8)); err != nil {
				t.Fatal(err)
			}
			c.then(far.(*net.TCPConn))
			read := func(want int) {
				t.Helper()
				if n, err := io.ReadFull(g, make([]byte, want)); n != want {
					t.Fatalf("%d bytes, %v", n, err)
				}
			}
			read(8)
			g.Dry = true
			read(16)
			if n, err := g.Read(make([]byte, 8)); n != 0 || !c.is(err) {
				t.Errorf("in the end %d bytes, %v", n, err)
			}
			if g.ended != (name == "an end") {
				t.Error("the end was not noted, or none was")
			}
			if n, err := g.Read(make([]byte, 8)); name == "nothing more" && (n != 0 || err != ErrDry) { //nolint:errorlint // see above
				t.Errorf("after nothing %d bytes, %v", n, err)
			}
		})
	}
}

// Suites whose records may be longer than their data by more than a fixed length
// are not counted.
func TestOverheadIsKnownOrZero(t *testing.T) {
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		got := Overhead(tls.VersionTLS12, suite.ID)
		if known := suite.ID == tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256; known && got != 24 {
			t.Errorf("%s: %d", suite.Name, got)
		}
		if Overhead(tls.VersionTLS11, suite.ID) != 0 {
			t.Errorf("%s in TLS 1.1 is counted", suite.Name)
		}
	}
}

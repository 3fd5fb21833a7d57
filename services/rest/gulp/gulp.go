// Package gulp stands below the TLS of an upstream connection and follows its records as
// they pass: so it is known, without a word to TLS, whether the next record is there whole,
// whether anything is left of what has come, and whether TLS said goodbye before the socket
// ended. Of the sockets below it the kernel is asked, where it can be.
//
// It decrypts nothing and changes no byte. What the lengths of records do not tell for
// certain (one may be padded, or be about TLS itself) is for TLS to say.
//
// Start reading at [Conn].
package gulp

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"syscall"
)

// Conn is the connection below the TLS of an upstream. For the body of a large
// answer it reads from the socket as much as has come, many records with one
// system call, knows whether the next record is whole, and lets TLS read that one
// without waiting for what comes behind it. Otherwise it passes reads on and only
// follows the records, and counts what they can hold at most. One goroutine reads at
// a time.
type Conn struct {
	net.Conn
	Dry  bool             // nothing is waited for: reads end with [ErrDry]
	raw  syscall.RawConn  // of the socket; nil when the kernel cannot be asked
	head [recordHead]byte // of the next record, as far as it was passed on
	have int              // bytes of head
	left int              // of the record that was passed on in part
	held int64            // bytes that the records since Sync can hold at most

	overhead int // of a record of data, in bytes; 0: not known

	ended bool // the socket did, which TLS was to say first
	full  bool // the last read of the socket left bytes behind, most likely

	buf      []byte // nil: reads are passed on
	from, to int    // what of buf was not passed on yet
}

// ErrDry says that nothing is left of what has come. To TLS it is like a deadline,
// after which reading goes on where it was.
var ErrDry net.Error = dry{}

type dry struct{}

// Error, Timeout and Temporary implement [net.Error].
func (dry) Error() string   { return "no more has come" }
func (dry) Timeout() bool   { return true }
func (dry) Temporary() bool { return true }

// recordHead is the length of what stands before a record (RFC 8446 section
// 5.1): type, version, length.
const recordHead = 5

// New is a gulp of conn. Raw is what [Raw] says of its socket, and may be nil.
func New(conn net.Conn, raw syscall.RawConn) *Conn { return &Conn{Conn: conn, raw: raw} }

// Begin makes reads go through buf, until End.
func (g *Conn) Begin(buf []byte) { g.buf, g.from, g.to = buf, 0, 0 }

// End takes the buffer away, and reports whether all in it was read. When it was
// not, the connection is of no use any more.
func (g *Conn) End() (empty bool) {
	g.buf = nil
	return g.from == g.to
}

// Ahead reports whether reads go through a buffer.
func (g *Conn) Ahead() bool { return g != nil && g.buf != nil }

// Read implements [net.Conn]. Through a buffer it passes on no more than one
// record, so that whole can tell what comes next.
func (g *Conn) Read(p []byte) (int, error) {
	if g.buf == nil {
		n, err := g.Conn.Read(p)
		g.full = n == len(p)
		g.follow(p[:n])
		return n, g.noted(err)
	}
	if g.from == g.to {
		if err := g.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, g.buf[g.from:min(g.to, g.from+g.rest())])
	g.follow(p[:n])
	g.from += n
	return n, nil
}

// fill reads from the socket. Where nothing may be waited for it asks only when the
// read before was stopped by the end of its buffer.
func (g *Conn) fill() error {
	n, err := 0, error(ErrDry)
	switch {
	case !g.Dry:
		n, err = g.Conn.Read(g.buf)
	case g.full && g.raw != nil:
		n, err = present(g.raw, g.buf)
	}
	g.full = n == len(g.buf)
	if g.from, g.to = 0, n; n == 0 {
		return g.noted(err)
	}
	return nil
}

// Ready reports whether a read is worth a try that must not wait. Got is how many
// bytes were read since [Conn.Sync]: TLS may have records that were passed on and not
// asked for.
func (g *Conn) Ready(got int64) bool {
	return g.Ahead() && (g.whole() || g.full || g.held > got)
}

// noted takes note of the socket's end.
func (g *Conn) noted(err error) error {
	if err == io.EOF {
		g.ended = true
	}
	return err
}

// CutOff is the error of a read above TLS. An end that TLS had not announced is
// no end of an answer (RFC 9112 sections 8 and 9.8): crypto/tls lets it pass
// between two records, where anybody on the way could bring it about.
func (g *Conn) CutOff(err error) error {
	if err == io.EOF && g != nil && g.ended {
		return io.ErrUnexpectedEOF
	}
	return err
}

// rest is how many bytes there are up to the end of the record that begins or
// goes on at from, of a head that is not whole those of the head.
func (g *Conn) rest() int {
	if g.left > 0 {
		return g.left
	}
	missing := recordHead - g.have
	if g.to-g.from < missing {
		return missing
	}
	head := g.head
	copy(head[g.have:], g.buf[g.from:g.from+missing])
	return missing + int(binary.BigEndian.Uint16(head[3:]))
}

// whole reports whether the rest of the record, or the next one, is there, and
// long enough to be one of data, most likely. It may be a ticket, or new keys and
// much padding.
func (g *Conn) whole() bool {
	if !g.Ahead() || g.to == g.from {
		return false
	}
	rest := g.rest()
	return rest >= dataRecord && g.to-g.from >= rest
}

// dataRecord, in bytes, is longer than most records of TLS that are not data.
const dataRecord = 4 << 10

// dataRecordType is that of data (RFC 8446 section 5.1), and in TLS 1.3 of all
// that is encrypted.
const dataRecordType = 23

// Overhead is how much longer a record of data is than the data in it,
// when it is not padded; 0 when that cannot be told.
func Overhead(version, suite uint16) int {
	switch {
	case version == tls.VersionTLS13:
		return 16 + 1 // the tag, and the type behind the data
	case version != tls.VersionTLS12:
		return 0
	}
	switch suite {
	case tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:
		return 8 + 16 // RFC 5288: the explicit nonce, the tag
	case tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256:
		return 16 // RFC 7905
	}
	return 0
}

// Midway reports whether a part of a record was passed on, and no more has come.
func (g *Conn) Midway() bool { return g != nil && (g.have > 0 || g.left > 0) }

// Sync begins the count, when TLS is known to hold nothing.
func (g *Conn) Sync(overhead int) {
	if g != nil {
		g.held, g.overhead = 0, overhead
	}
}

// Drained reports whether n bytes, read since [Conn.Sync], are all that TLS was
// given since then: as many as the records can hold. False may also mean that one
// was padded, or was about TLS itself.
func (g *Conn) Drained(n int64) bool {
	return g != nil && g.overhead > 0 && g.held == n && !g.Midway()
}

// follow takes note of bytes that are passed on.
func (g *Conn) follow(p []byte) {
	for len(p) > 0 {
		if g.left > 0 {
			n := min(g.left, len(p))
			g.left -= n
			p = p[n:]
			continue
		}
		n := copy(g.head[g.have:], p)
		p = p[n:]
		if g.have += n; g.have == recordHead {
			g.left, g.have = int(binary.BigEndian.Uint16(g.head[3:])), 0
			if g.head[0] == dataRecordType {
				g.held += int64(max(0, g.left-g.overhead))
			} else {
				g.overhead = 0 // about TLS itself, a farewell perhaps: TLS must be asked
			}
		}
	}
}

//lint:file-ignore SA1019 the double speaks HTTP/2 on connections that it is given

// Package http2test writes HTTP/2 by hand, for tests: one side of a connection whose frames,
// and the order of them, are its test's own.
//
// It is imported by tests only. Start reading at [Client].
package http2test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frameSize is the most that a frame holds by default (RFC 9113 section 4.2).
const frameSize = 16 << 10

// Frames is one side of a connection. The frames of heads come whole, as
// [http2.MetaHeadersFrame].
type Frames struct {
	*http2.Framer
	Conn net.Conn
	Enc  *hpack.Encoder // writes into Buf
	Buf  bytes.Buffer
	next uint32
}

func newFrames(conn net.Conn) *Frames {
	f := &Frames{Framer: http2.NewFramer(conn, conn), Conn: conn, next: 1}
	f.Enc, f.ReadMetaHeaders = hpack.NewEncoder(&f.Buf), hpack.NewDecoder(4<<10, nil)
	return f
}

// Client begins HTTP/2 with settings.
func Client(conn net.Conn, settings ...http2.Setting) (*Frames, error) {
	f := newFrames(conn)
	_, err := io.WriteString(conn, http2.ClientPreface)
	return f, errors.Join(err, f.WriteSettings(settings...))
}

// Server waits for a client to begin, and says its settings.
func Server(conn net.Conn, settings ...http2.Setting) (*Frames, error) {
	f, err := Silent(conn)
	return f, errors.Join(err, f.WriteSettings(settings...))
}

// Silent is [Server] that has not said its settings yet.
func Silent(conn net.Conn) (*Frames, error) {
	f := newFrames(conn)
	_, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface)))
	return f, err
}

// Next is a stream that no other call has returned. It is for clients.
func (f *Frames) Next() uint32 {
	f.next += 2
	return f.next - 2
}

// Block encodes fields, as ":path /open".
func (f *Frames) Block(fields ...string) []byte {
	f.Buf.Reset()
	for _, field := range fields {
		name, value, _ := strings.Cut(field, " ")
		_ = f.Enc.WriteField(hpack.HeaderField{Name: name, Value: value}) // to memory
	}
	return bytes.Clone(f.Buf.Bytes())
}

// Send sends a field block, in as many frames as it needs.
func (f *Frames) Send(stream uint32, end bool, block []byte) error {
	first, rest := cut(block)
	err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndStream: end, EndHeaders: len(rest) == 0})
	for err == nil && len(rest) > 0 {
		first, rest = cut(rest)
		err = f.WriteContinuation(stream, len(rest) == 0, first)
	}
	return err
}

// cut takes what one frame holds.
func cut(block []byte) (first, rest []byte) {
	n := min(len(block), frameSize)
	return block[:n], block[n:]
}

// Open sends the head of a request, and returns its stream.
func (f *Frames) Open(end bool, fields ...string) uint32 {
	stream := f.Next()
	_ = f.Send(stream, end, f.Block(fields...)) // whoever reads finds out
	return stream
}

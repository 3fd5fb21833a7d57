package proxy

import (
	"bufio"
	"time"
)

// How long and for how many bytes a connection that ends is still read from: any, and one
// whose client is in the middle of a body.
const (
	hangUpTime  = 500 * time.Millisecond // without a byte, or in all
	hangUpBytes = 8 << 20
	uploadPause = 2 * time.Second // between two bytes
	uploadTime  = 30 * time.Second
	uploadBytes = 1 << 30
)

// hangUp closes the connection such that the client can still read the answer,
// although we may not have read all it sent.
func (r *relay) hangUp() {
	defer func() { _ = r.c.Close() }()
	if r.ctx.Err() == nil && closeWrite(r.c.Conn) == nil {
		r.c.outlast(r.br)
	}
}

// drain does that for a connection that net/http ends.
func (c *conn) drain() {
	if closeWrite(c.Conn) == nil {
		c.outlast(bufio.NewReaderSize(c.Conn, relayBuffer))
	}
}

// outlast reads what still comes behind our last answer, for a while: an end with bytes that
// nobody has read is a reset, which takes from the client what it has not got yet. Many read
// no answer before they have sent all of their body, among them Python's and so its SDKs:
// they would lose a refusal, and the reason with it.
func (c *conn) outlast(from *bufio.Reader) {
	begun, pause, most := time.Now(), hangUpTime, hangUpBytes
	if c.uploads.Load() {
		most = uploadBytes
	}
	for took := 0; took < most; {
		left := hangUpTime - time.Since(begun)
		if c.uploads.Load() && !c.ending.Load() {
			left += uploadTime - hangUpTime
		}
		if left <= 0 {
			return
		}
		_ = c.Conn.SetReadDeadline(time.Now().Add(min(pause, left)))
		if _, err := from.Peek(1); err != nil {
			return
		}
		n, _ := from.Discard(from.Buffered())
		took, pause = took+n, uploadPause
	}
}

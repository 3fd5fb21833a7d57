package servicestest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"strings"
)

// Request is one request as it was on the wire.
type Request struct {
	Line    string // without CRLF
	Method  string
	Target  string
	Header  textproto.MIMEHeader
	Head    []byte // request line and fields, with the final CRLF CRLF
	Body    []byte // decoded
	RawBody []byte // as on the wire, chunk sizes and trailers included
	Trailer textproto.MIMEHeader
	Conn    int  // which connection it came on, from 1
	Whole   bool // the body was read to its end
}

// Fields returns the values of a field in the raw head under exactly this
// spelling, and how often it is there.
func (r Request) Fields(name string) []string {
	var out []string
	for line := range strings.SplitSeq(string(r.Head), "\r\n") {
		if n, value, ok := strings.Cut(line, ":"); ok && n == name {
			out = append(out, strings.TrimSpace(value))
		}
	}
	return out
}

// Conn is one connection, for behaviours.
type Conn struct {
	net.Conn
	raw net.Conn
	r   *bufio.Reader
	n   int
	up  *Upstream
}

// Read implements [io.Reader] behind what was read for the head.
func (c *Conn) Read(p []byte) (int, error) { return c.r.Read(p) }

// Send writes text to the client.
func (c *Conn) Send(parts ...string) bool {
	_, err := io.WriteString(c.Conn, strings.Join(parts, ""))
	return err == nil
}

// CloseWrite ends the upstream's half.
func (c *Conn) CloseWrite() {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// Reset closes the connection with a TCP reset.
func (c *Conn) Reset() bool {
	if tcp, ok := c.raw.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.raw.Close()
	return false
}

// next serves one request.
func (c *Conn) next() bool {
	r, err := c.head()
	if err != nil {
		return false
	}
	var times int
	path, _, _ := strings.Cut(r.Target, "?")
	c.up.note(func() {
		c.up.requests = append(c.up.requests, r)
		c.up.seen[path]++
		times = c.up.seen[path]
	})
	b := c.up.o.Routes[path]
	if b == nil {
		b = builtIn(path, times)
	}
	return b(c, r)
}

func (c *Conn) head() (*Request, error) {
	var head bytes.Buffer
	for {
		line, err := c.r.ReadBytes('\n')
		head.Write(line)
		if err != nil {
			return nil, err
		}
		if string(line) == "\r\n" {
			break
		}
		if head.Len() > 1<<20 {
			return nil, errors.New("head too large")
		}
	}
	r := &Request{Head: head.Bytes(), Conn: c.n}
	reader := textproto.NewReader(bufio.NewReader(bytes.NewReader(r.Head)))
	var err error
	if r.Line, err = reader.ReadLine(); err != nil {
		return nil, err
	}
	if r.Header, err = reader.ReadMIMEHeader(); err != nil {
		return nil, err
	}
	words := strings.SplitN(r.Line, " ", 3)
	if len(words) != 3 {
		return nil, errors.New("bad request line")
	}
	r.Method, r.Target = words[0], words[1]
	return r, nil
}

// ReadBody reads the request's body and trailers to their end and records them
// as they come. Behaviours that do not want the body do not call it.
func (c *Conn) ReadBody(r *Request) error {
	var err error
	if strings.EqualFold(r.Header.Get("Transfer-Encoding"), "chunked") {
		err = c.chunks(r)
	} else if n, _ := strconv.Atoi(r.Header.Get("Content-Length")); n > 0 {
		err = c.take(r, n, true)
	}
	c.up.note(func() { r.Whole = err == nil })
	return err
}

// take reads n bytes piece by piece, so that a test sees the first ones early.
func (c *Conn) take(r *Request, n int, data bool) error {
	buf := make([]byte, 32<<10)
	for n > 0 {
		got, err := c.r.Read(buf[:min(n, len(buf))])
		n -= got
		c.up.note(func() {
			r.RawBody = append(r.RawBody, buf[:got]...)
			if data {
				r.Body = append(r.Body, buf[:got]...)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) line(r *Request) (string, error) {
	line, err := c.r.ReadString('\n')
	c.up.note(func() { r.RawBody = append(r.RawBody, line...) })
	return strings.TrimRight(line, "\r\n"), err
}

func (c *Conn) chunks(r *Request) error {
	for {
		text, err := c.line(r)
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(text, 16, 64)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		if err := c.take(r, int(size), true); err != nil {
			return err
		}
		if _, err := c.line(r); err != nil {
			return err
		}
	}
	trailer := textproto.MIMEHeader{}
	for {
		text, err := c.line(r)
		if err != nil {
			return err
		}
		if text == "" {
			c.up.note(func() { r.Trailer = trailer })
			return nil
		}
		name, value, _ := strings.Cut(text, ":")
		trailer.Add(name, strings.TrimSpace(value))
	}
}

//go:build bench

package main_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// The client of the benchmark speaks HTTP/1.1 by hand: its request is the same
// bytes every time and of an answer it reads what it must, so that it hides
// nothing of what is measured.

// patience bounds the life of one connection of the client.
const patience = 2 * time.Minute

// answerBuffer is what a client reads at once, in bytes: a TLS record.
const answerBuffer = 16 << 10

// client is one connection and the one request it sends again and again.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
}

// open connects to host, through the proxy when the job has one.
func (j *job) open(host string) (*client, error) {
	conn, err := j.connect(host, "http/1.1")
	if err != nil {
		return nil, err
	}
	if j.Serve != "" {
		return &client{conn: conn, in: bufio.NewReaderSize(conn, answerBuffer), request: fmt.Appendf(nil,
			"POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			j.Path, j.Serve, j.Token, len(j.Body), j.Body)}, nil
	}
	target := j.Path
	if j.Clear && j.Proxy != "" {
		target = "http://" + host + j.Path // absolute-form, RFC 9112 section 3.2.2
	}
	return &client{
		conn: conn, in: bufio.NewReaderSize(conn, answerBuffer),
		request: []byte("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nAccept: */*\r\n\r\n"),
	}, nil
}

// get sends the request and reads one answer of status 200 whole.
func (c *client) get() error {
	length, err := c.ask()
	if err != nil {
		return err
	}
	if length < 0 {
		return errors.New("an answer without a length")
	}
	if _, err = c.in.Discard(length); errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ask sends the request and reads the head of the answer. It returns the
// content length, -1 when there is none.
func (c *client) ask() (length int, err error) {
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, err
	}
	return readHead(c.in)
}

// readHead reads a head of status 200 and returns its content length or -1.
func readHead(in *bufio.Reader) (length int, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if !bytes.Contains(line, []byte(" 200 ")) {
		return 0, fmt.Errorf("answer: %s", bytes.TrimSpace(line))
	}
	length = -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(line) == 2 {
			return length, nil
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
}

// connect opens a connection on which host answers. protocols are offered in
// the TLS handshake, which a job in clear does not do.
func (j *job) connect(host string, protocols ...string) (net.Conn, error) {
	address := j.Upstream
	if j.Proxy != "" {
		address = j.Proxy
	}
	if j.Serve != "" {
		address = j.Serve
	}
	raw, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	_ = raw.SetDeadline(time.Now().Add(patience))
	if j.Clear || j.Serve != "" {
		return raw, nil
	}
	if j.Proxy != "" {
		err = openTunnel(raw, host+":443")
	}
	conn := tls.Client(raw, &tls.Config{RootCAs: j.roots, ServerName: host, NextProtos: protocols})
	if err == nil {
		err = conn.Handshake()
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

// openTunnel asks the proxy for authority. It reads byte by byte, so that
// nothing of what comes after the head is lost.
func openTunnel(raw net.Conn, authority string) error {
	if _, err := fmt.Fprintf(raw, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority); err != nil {
		return err
	}
	head := make([]byte, 0, 512)
	for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, one[0]) {
		if _, err := raw.Read(one); err != nil {
			return err
		}
	}
	if !bytes.Contains(head[:min(len(head), 15)], []byte(" 200")) {
		return fmt.Errorf("CONNECT: %s", head)
	}
	return nil
}

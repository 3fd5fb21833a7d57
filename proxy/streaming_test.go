package proxy

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// PC-022: each event of a stream arrives before the next is sent.
func TestStreaming(t *testing.T) {
	r := newRig(t, nil)
	seen := make(chan struct{})
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range 5 {
			<-seen
			_, _ = io.WriteString(c, "9\r\ndata: 1\n\n\r\n")
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	inside := r.open("api.good.test:443")
	inside.send(openGood)
	resp := inside.answer("GET") // the head comes before any event
	event := make([]byte, 9)
	for range 5 {
		seen <- struct{}{}
		if _, err := io.ReadFull(resp.Body, event); err != nil {
			t.Fatal(err)
		}
	}
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
}

// PC-022: a stream lives as long as something moves in it, beyond the
// timeout for one that does not.
func TestALiveStreamIsNotCut(t *testing.T) {
	t.Parallel()
	const idle = 2 * time.Second // a busy machine sends late too
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.IdleTimeout = idle })
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range 60 { // three times the timeout in all
			time.Sleep(idle / 20)
			_, _ = io.WriteString(c, "9\r\ndata: 1\n\n\r\n")
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	inside := r.open("api.good.test:443")
	inside.send(openGood)
	if resp, body := inside.get("GET"); resp.StatusCode != 200 || len(body) != 60*9 {
		t.Errorf("%s, %d bytes", resp.Status, len(body))
	}
}

// Ten MiB up and down, opened and raw, byte for byte.
func TestLargeBodies(t *testing.T) {
	payload := bytes.Repeat([]byte("0123456789abcdef"), 10<<16)
	want := sha256.Sum256(payload)
	echo := func(c net.Conn, br *bufio.Reader) {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(req.Body)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body))
		_, _ = c.Write(body)
	}
	r := newRig(t, nil)
	r.upstream("api.good.test:443", echo)
	r.upstream("plain.test:80", echo)
	raw := func() *client {
		c := r.dial()
		c.send("CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test:80\r\n\r\n")
		c.answer("CONNECT")
		return c
	}
	opened := func() *client { return r.open("api.good.test:443") }
	for host, open := range map[string]func() *client{"api.good.test": opened, "plain.test": raw} {
		c := open()
		go func() {
			_, _ = fmt.Fprintf(c, "POST /open HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", host, len(payload))
			_, _ = c.Write(payload)
		}()
		if resp, body := c.get("POST"); sha256.Sum256([]byte(body)) != want {
			t.Errorf("%s: %s, %d bytes came back", host, resp.Status, len(body))
		}
	}
}

package servicestest

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"
)

// The built-in paths. "echo" stands for the request's head as JSON.
//
//	/                     200 "ok"
//	/reflect              200 echo; ?as=base64|hex|percent|json|gzip|deflate|chunked, ?split=N writes N bytes at a time,
//	                      ?in=header|name|location|cookie|reason|trailer|trailer-name|early puts Authorization's value there
//	/401-once             401 the first time, then 200
//	/429                  429 with Retry-After: 7
//	/redirect             302 to ?to=, /redirect-307 the same with 307
//	/slow                 200, one byte of "slowly" at a time
//	/chunked              200 in three chunks
//	/trailers             200 with X-Sum announced and X-Late not
//	/cut                  200 with Content-Length: 1000 and 400 bytes, then a reset
//	/cut-chunked          200 chunked, closed before the last chunk
//	/stall                200 with Content-Length: 10 and 3 bytes, then silence
//	/silent               no answer at all
//	/103 /100 /101        the 1xx of that number unasked, then 200
//	/hop                  200 with hop-by-hop fields
//	/cookies              200 with three Set-Cookie
//	/head                 200 with Content-Length: 1234, no body
//	/204-body /304-chunked /205   statuses with bodies they may not have
//	/poison               200 "ok" with a second answer behind it
//	/large-head           200 with a head of 1 MiB
//	/events               200 text/event-stream, three events
//	/ws                   101 to websocket, then every byte comes back; the end too
//	/expect               100 once the head is read, then 200 with the body's length; /refuse-early answers 413 without 100
//	/garbage              bytes that are not HTTP
func builtIn(path string, times int) Behave {
	if path == "/" {
		return answer("200 OK", "Content-Type: text/plain\r\n", "ok")
	}
	if path == "/401-once" && times == 1 {
		return answer("401 Unauthorized", "WWW-Authenticate: Bearer\r\n", "no\n")
	}
	if b := behaviours()[path]; b != nil {
		return b
	}
	return answer("200 OK", "Content-Type: text/plain\r\n", "ok")
}

func behaviours() map[string]Behave {
	return map[string]Behave{
		"/reflect":      reflect,
		"/429":          answer("429 Too Many Requests", "Retry-After: 7\r\n", "slow down\n"),
		"/redirect":     redirect("302 Found"),
		"/redirect-307": redirect("307 Temporary Redirect"),
		"/slow":         slow,
		"/chunked":      pieces("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\none\r\n", "3\r\ntwo\r\n", "5\r\nthree\r\n0\r\n\r\n"),
		"/trailers": pieces("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n",
			"4\r\nbody\r\n0\r\nX-Sum: 42\r\nX-Late: yes\r\n\r\n"),
		"/trailers-private": pieces("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Cookie, X-Sum\r\n\r\n",
			"4\r\nbody\r\n0\r\nAuthorization: x\r\nCookie: y\r\nContent-Length: 3\r\nX-Sum: 42\r\n\r\n"),
		"/cut":         func(c *Conn, r *Request) bool { cut(c, r); return c.Reset() },
		"/cut-chunked": ending("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
		"/stall":       stall("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"),
		"/silent":      stall(""),
		"/103":         pieces("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
		"/100":         pieces("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
		"/101":         ending("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
		"/hop": pieces("HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nX-Hop: leak\r\nKeep-Alive: timeout=5\r\n" +
			"Proxy-Authenticate: Basic\r\nX-End: stays\r\nContent-Length: 2\r\n\r\nok"),
		"/cookies":     pieces("HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2; Path=/\r\nSet-Cookie: c=3\r\nContent-Length: 0\r\n\r\n"),
		"/head":        pieces("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"),
		"/204-body":    pieces("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"),
		"/304-chunked": pieces("HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nTransfer-Encoding: chunked\r\n\r\n"),
		"/205":         pieces("HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n"),
		"/poison": pieces("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" +
			"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"),
		"/large-head": func(c *Conn, r *Request) bool {
			return c.ReadBody(r) == nil && c.Send("HTTP/1.1 200 OK\r\nX-Big: ", strings.Repeat("x", 1<<20), "\r\nContent-Length: 0\r\n\r\n")
		},
		"/events": events,
		"/ws":     websocket,
		"/expect": expect,
		"/refuse-early": func(c *Conn, _ *Request) bool {
			return !c.Send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
		},
		"/garbage": ending("SSH-2.0-not-http\r\n"),
	}
}

// answer reads the request and sends a whole answer.
func answer(status, fields, body string) Behave {
	return func(c *Conn, r *Request) bool {
		return c.ReadBody(r) == nil &&
			c.Send("HTTP/1.1 ", status, "\r\n", fields, "Content-Length: ", strconv.Itoa(len(body)), "\r\n\r\n", body)
	}
}

// pieces sends each text in a write of its own.
func pieces(texts ...string) Behave {
	return func(c *Conn, r *Request) bool {
		if c.ReadBody(r) != nil {
			return false
		}
		for _, text := range texts {
			if !c.Send(text) {
				return false
			}
		}
		return true
	}
}

// ending sends a text and closes.
func ending(text string) Behave {
	return func(c *Conn, r *Request) bool {
		if c.ReadBody(r) == nil {
			c.Send(text)
		}
		return false
	}
}

// stall sends a text and then nothing, until the client goes.
func stall(text string) Behave {
	return func(c *Conn, r *Request) bool {
		if c.ReadBody(r) == nil && c.Send(text) {
			_, _ = io.Copy(io.Discard, c)
		}
		return false
	}
}

func cut(c *Conn, r *Request) {
	if c.ReadBody(r) == nil {
		c.Send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", strings.Repeat("x", 400))
		time.Sleep(50 * time.Millisecond) // a reset overtakes bytes that are not yet read
	}
}

func redirect(status string) Behave {
	return func(c *Conn, r *Request) bool {
		return answer(status, "Location: "+query(r).Get("to")+"\r\n", "moved\n")(c, r)
	}
}

func query(r *Request) url.Values {
	_, text, _ := strings.Cut(r.Target, "?")
	values, _ := url.ParseQuery(text)
	return values
}

func slow(c *Conn, r *Request) bool {
	if c.ReadBody(r) != nil || !c.Send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n") {
		return false
	}
	for _, b := range "slowly" {
		if !c.Send(string(b)) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}

func events(c *Conn, r *Request) bool {
	if c.ReadBody(r) != nil || !c.Send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n") {
		return false
	}
	for i := range 3 {
		if !c.Send(Chunk(fmt.Sprintf("data: %d\n\n", i))) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return c.Send("0\r\n\r\n")
}

// Chunk is a text as one chunk (RFC 9112 section 7.1).
func Chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// Gzip returns the text compressed.
func Gzip(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return out.String()
}

func expect(c *Conn, r *Request) bool {
	if r.Header.Get("Expect") == "100-continue" && !c.Send("HTTP/1.1 100 Continue\r\n\r\n") {
		return false
	}
	if c.ReadBody(r) != nil {
		return false
	}
	text := strconv.Itoa(len(r.Body))
	return c.Send("HTTP/1.1 200 OK\r\nContent-Length: ", strconv.Itoa(len(text)), "\r\n\r\n", text)
}

func websocket(c *Conn, r *Request) bool {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	if !c.Send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ",
		base64.StdEncoding.EncodeToString(sum[:]), "\r\n\r\n") {
		return false
	}
	_, _ = io.Copy(c.Conn, c)
	c.CloseWrite()
	return false
}

// reflect sends back what it was told, in the ways that servers do.
func reflect(c *Conn, r *Request) bool {
	if c.ReadBody(r) != nil {
		return false
	}
	q, auth := query(r), r.Header.Get("Authorization")
	_, token, _ := strings.Cut(auth, " ")
	switch q.Get("in") {
	case "header":
		return c.Send("HTTP/1.1 200 OK\r\nX-Echo: ", auth, "\r\nContent-Length: 0\r\n\r\n")
	case "name":
		return c.Send("HTTP/1.1 200 OK\r\nX-", token, ": 1\r\nContent-Length: 0\r\n\r\n")
	case "location":
		return c.Send("HTTP/1.1 302 Found\r\nLocation: /next?token=", url.QueryEscape(token), "\r\nContent-Length: 0\r\n\r\n")
	case "cookie":
		return c.Send("HTTP/1.1 200 OK\r\nSet-Cookie: t=", token, "\r\nContent-Length: 0\r\n\r\n")
	case "reason":
		return c.Send("HTTP/1.1 400 Bad ", token, "\r\nContent-Length: 0\r\n\r\n")
	case "early":
		return c.Send("HTTP/1.1 103 Early Hints\r\nX-Echo: ", token, "\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	case "trailer":
		return c.Send("HTTP/1.1 200 OK\r\nTrailer: X-Echo\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Echo: ", token, "\r\n\r\n")
	case "trailer-name":
		return c.Send("HTTP/1.1 200 OK\r\nTrailer: X-Sum, X-", token, "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 42\r\nX-", token, ": 1\r\n\r\n")
	case "malformed":
		c.Send("HTTP/1.1 2x0 ", token, "\r\n\r\n")
		return false
	}
	body, coding := encode(r, token, q.Get("as"))
	head := "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Type: application/json\r\n" + coding
	if q.Get("as") == "chunked" {
		return c.Send(head, "Transfer-Encoding: chunked\r\n\r\n", Chunk(body), "0\r\n\r\n")
	}
	if !c.Send(head, "Content-Length: ", strconv.Itoa(len(body)), "\r\n\r\n") {
		return false
	}
	step, _ := strconv.Atoi(q.Get("split"))
	if step <= 0 {
		step = len(body)
	}
	for at := 0; at < len(body); at += step {
		if !c.Send(body[at:min(at+step, len(body))]) {
			return false
		}
	}
	return true
}

func encode(r *Request, token, as string) (body, coding string) {
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		names = append(names, name)
	}
	sort.Strings(names)
	echo := map[string]any{"line": r.Line, "header": r.Header, "names": names, "body": string(r.Body)}
	text, _ := json.Marshal(echo)
	switch as {
	case "base64":
		return base64.StdEncoding.EncodeToString(text), ""
	case "hex":
		return hex.EncodeToString([]byte(token)), ""
	case "percent":
		return url.QueryEscape(token), ""
	case "gzip":
		return Gzip(string(text)), "Content-Encoding: gzip\r\n"
	case "deflate":
		var out bytes.Buffer
		w := zlib.NewWriter(&out)
		_, _ = w.Write(text)
		_ = w.Close()
		return out.String(), "Content-Encoding: deflate\r\n"
	case "unknown":
		return string(text), "Content-Encoding: compress\r\n"
	}
	return string(text), ""
}

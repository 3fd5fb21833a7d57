//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package app_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/proxy/http2/http2test"
)

// speller writes requests as frames of HTTP/2, in any spelling that frames leave room for.
type speller struct {
	apptest.Spellings
	*http2test.Frames
}

// newSpeller opens a tunnel and begins HTTP/2 in it.
func newSpeller(t *testing.T, k *apptest.Kimbap, s apptest.Spellings) *speller {
	t.Helper()
	w, a := k.Connect(t, apptest.Authority)
	if a.Status != 200 {
		t.Fatalf("CONNECT: %d", a.Status)
	}
	c := tls.Client(w, &tls.Config{RootCAs: k.Roots(), ServerName: apptest.Host, NextProtos: []string{"h2"}})
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	f, err := http2test.Client(c)
	if err := errors.Join(err, f.WriteWindowUpdate(0, 1<<30)); err != nil {
		t.Fatal(err)
	}
	f.AllowIllegalWrites = true
	return &speller{s, f}
}

// fields are those of a request: mostly as they should be.
func (p *speller) fields(q plain) [][2]string {
	target, scheme := q.target(), "https"
	switch p.IntN(30) {
	case 0:
		target = p.One("https://"+apptest.Host, "//"+apptest.Host, "http://elsewhere.test", "", "*") + target
	case 1:
		target += p.One(" HTTP/1.1", " HTTP/1.1\r\nX-A: b", "\r\n\r\nGET /notes/admin HTTP/1.1\r\nHost: "+apptest.Host, "\t", " ")
	case 2:
		scheme = p.One("http", "HTTPS", "wss", "", "file")
	}
	out := [][2]string{{":method", q.method}, {":scheme", scheme}, {":authority", p.Authority(apptest.Host)}, {":path", target}}
	if p.IntN(10) == 0 {
		out = append(out, [2]string{p.One("host", "Host", "host"), p.Authority(apptest.Host)})
	}
	switch p.IntN(30) {
	case 0:
		p.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	case 1:
		out = append(out, out[p.IntN(len(out))])
	case 2:
		out = append(out[:2:2], out[3:]...)
	case 3:
		out = append(out, [2]string{p.One(":protocol", ":status", ":", ":path ", "Path"), "/notes/admin"})
	}
	for line := range strings.SplitSeq(p.Field(), "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			if p.IntN(8) > 0 {
				name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
			}
			out = append(out, [2]string{name, value})
		}
	}
	if p.IntN(20) == 0 {
		out = append(out, [2]string{p.One("transfer-encoding", "x-a", "x-a\r\nx-b", "x a", "", "content-length", "te", "trailer", "expect", "cookie"),
			p.One("chunked", "a\r\nHost: elsewhere.test", "a\nb", "a\x00b", " a", "trailers", "x-sum, content-length", "100-continue", "0", "5")})
	}
	return out
}

// ask sends a request and returns its status, "" when it was reset or not answered; whole
// is false when the connection cannot be used again.
func (p *speller) ask(q plain) (status string, whole bool) {
	id := p.Next()
	fields, body := p.fields(q), q.body
	if body != "" || q.method == "POST" && p.IntN(2) == 0 {
		fields = append(fields, [2]string{"content-type", q.media})
		if p.IntN(3) > 0 {
			fields = append(fields, [2]string{"content-length", p.One(strconv.Itoa(len(body)), strconv.Itoa(len(body)), strconv.Itoa(len(body)),
				strconv.Itoa(len(body)+1), "0", "+"+strconv.Itoa(len(body)), "0"+strconv.Itoa(len(body)))})
		}
	}
	ends := body == ""
	p.head(id, fields, ends)
	for !ends {
		n := len(body)
		if p.IntN(3) == 0 {
			n = p.IntN(len(body) + 1)
		}
		tail := n == len(body) && p.IntN(10) == 0
		ends = n == len(body) && !tail
		_ = p.WriteDataPadded(id, ends, []byte(body[:n]), make([]byte, p.IntN(3)*p.IntN(100)))
		if body = body[n:]; tail {
			ends = true
			p.head(id, [][2]string{{p.One("x-sum", "x-http-method-override", "host", ":path", "content-length", "authorization"), p.One("1", "DELETE", "/notes/admin", "a\r\nb")}}, true)
		}
	}
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return "", false
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID == id && !strings.HasPrefix(f.PseudoValue("status"), "1") {
				status = f.PseudoValue("status")
				if f.StreamEnded() {
					return status, true
				}
			}
		case *http2.DataFrame:
			if f.StreamID == id && f.StreamEnded() {
				return status, true
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return status, true
			}
		case *http2.GoAwayFrame:
			return status, false
		}
	}
}

// head sends a field block, in one frame or several.
func (p *speller) head(id uint32, fields [][2]string, ends bool) {
	p.Buf.Reset()
	for _, f := range fields {
		_ = p.Enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: p.IntN(4) == 0})
	}
	block := bytes.Clone(p.Buf.Bytes())
	n := len(block)
	if p.IntN(6) == 0 {
		n = p.IntN(len(block))
	}
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:n], EndStream: ends, EndHeaders: n == len(block), PadLength: uint8(p.IntN(2) * p.IntN(20))})
	if n < len(block) {
		_ = p.WriteContinuation(id, true, block[n:])
	}
}

// Over HTTP/2 too, whatever reached the upstream, read again from its raw bytes, is the
// action that was judged: the upstream of these speaks HTTP/1.1, where a byte that is no
// delimiter of one is a delimiter of the other.
func TestWhatArrivesOverHTTP2IsWhatWasJudged(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{spelled}})
	seed := rand.Uint64()
	s := apptest.NewSpellings(seed)
	t.Logf("seed %d", seed)
	statuses := map[string]int{}
	var p *speller
	for range 8000 {
		if p == nil {
			p = newSpeller(t, k, s)
		}
		status, whole := p.ask(spell(s))
		statuses[status]++
		if status == "500" {
			t.Error("an undeclared change, or worse")
		}
		if !whole {
			_ = p.Conn.Close()
			p = nil
		}
	}
	if p != nil {
		_ = p.Conn.Close()
	}
	t.Log(statuses)
	compareWithTrail(t, k, 300)
	k.Verify(t)
}

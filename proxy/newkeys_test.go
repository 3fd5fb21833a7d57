package proxy

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// hand writes a client's records of TLS 1.3 itself, from its first one after the
// handshake: crypto/tls never asks for new keys (RFC 8446 section 4.6.3).
type hand struct {
	t      *testing.T
	to     io.Writer
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

func (h *hand) expand(label string, n int) []byte {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	key, err := hkdf.Expand(sha256.New, h.secret, string(append(append(append(info, byte(len(label))), label...), 0)), n)
	if err != nil {
		h.t.Error(err)
	}
	return key
}

func (h *hand) use(secret []byte) {
	h.secret, h.seq = secret, 0
	block, err := aes.NewCipher(h.expand("key", 16))
	if err == nil {
		h.aead, err = cipher.NewGCM(block)
	}
	if err != nil {
		h.t.Error(err)
	}
	h.iv = h.expand("iv", 12)
}

func (h *hand) write(kind byte, p []byte) {
	h.t.Helper()
	inner := append(bytes.Clone(p), kind)
	head := binary.BigEndian.AppendUint16([]byte{23, 3, 3}, uint16(len(inner)+h.aead.Overhead()))
	nonce := bytes.Clone(h.iv)
	for i, b := range binary.BigEndian.AppendUint64(nil, h.seq) {
		nonce[4+i] ^= b
	}
	h.seq++
	if _, err := h.to.Write(h.aead.Seal(head, nonce, inner, head)); err != nil {
		h.t.Error(err)
	}
}

// renew asks for new keys and uses new ones.
func (h *hand) renew() {
	h.write(22, []byte{24, 0, 0, 1, 1})
	h.use(h.expand("traffic upd", sha256.Size))
}

// handed opens a tunnel whose client's records are written by hand.
func (r *rig) handed(authority string) (*client, *hand) {
	r.t.Helper()
	c := r.dial()
	c.send("CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n")
	if resp := c.answer("CONNECT"); resp.StatusCode != http.StatusOK {
		r.t.Fatal(resp.Status)
	}
	var log bytes.Buffer
	host, _, _ := strings.Cut(authority, ":")
	inside := c.tls(&tls.Config{RootCAs: r.roots, ServerName: host, NextProtos: []string{protocolH1}, KeyLogWriter: &log})
	if suite := inside.Conn.(*tls.Conn).ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		r.t.Fatal("this machine chose ", tls.CipherSuiteName(suite))
	}
	for line := range strings.Lines(log.String()) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(words[2])
			if err != nil {
				r.t.Fatal(err)
			}
			h := &hand{t: r.t, to: c.Conn}
			h.use(secret)
			return inside, h
		}
	}
	r.t.Fatal("no secret was logged")
	return nil, nil
}

// A client may ask for new keys whenever it likes: in the middle of an upload that
// takes longer than a write may, and of an answer. No byte is lost on either way.
func TestAClientMayAskForNewKeys(t *testing.T) {
	t.Parallel()
	const idle, size = 2 * time.Second, 1 << 20
	asking := make(chan bool)
	r := newRig(t, func(o *Options, st *stages) {
		o.Engine, o.Limits.IdleTimeout = EngineRelay, idle
		st.execute = func(_ context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
			if call.Request.Raw.Body == nil {
				return reply(out, runtime.Form{}, 200, http.Header{"Content-Length": {"2"}}, "ok")
			}
			text, err := io.ReadAll(call.Request.Raw.Body)
			if err == nil {
				err = out.Start(200, http.Header{"Content-Length": {strconv.Itoa(len(text))}})
			}
			for piece := range 8 {
				if err == nil {
					_, err = out.Write(text[piece*size/8 : (piece+1)*size/8])
				}
				asking <- true
			}
			return runtime.Result{Status: 200}, err
		}
	})
	inside, h := r.handed("api.good.test:443")
	h.write(23, []byte("GET /open HTTP/1.1\r\nHost: api.good.test\r\n\r\n"))
	if _, body := inside.get("GET"); body != "ok" {
		t.Fatal(body)
	}
	h.write(23, []byte("POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Length: "+strconv.Itoa(size)+"\r\n\r\n"))
	sent := make([]byte, size)
	for i := range sent {
		sent[i] = byte(i ^ i>>8 ^ i>>16)
	}
	for i := range 8 { // longer than a write may take, each part shorter than a read
		time.Sleep(idle * 3 / 16)
		for part := range 8 {
			at := (i*8 + part) * size / 64
			h.write(23, sent[at:at+size/64])
		}
		h.renew()
	}
	var renewing sync.WaitGroup
	defer renewing.Wait()
	renewing.Go(func() {
		for range 8 {
			<-asking
			h.renew()
		}
	})
	if resp, body := inside.get("POST"); resp.StatusCode != 200 || body != string(sent) {
		t.Fatalf("%s, %d bytes", resp.Status, len(body))
	}
}

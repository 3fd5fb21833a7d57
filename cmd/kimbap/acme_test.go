//go:build linux

package main

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// blobSize is what goes up and down in one piece.
const blobSize = 10 << 20

// blob is the same 10 MiB every time, and does not compress.
func blob() []byte {
	data := make([]byte, blobSize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

// events is how many events a stream has.
const events = 5

// acme is the API of testdata/clients/acme.yaml. Its event stream sends an
// event only after the client has told the control address, around kimbap, that
// the one before has arrived: a proxy that holds events back stands still.
type acme struct {
	control *httptest.Server
	acks    chan string
	blob    []byte
}

func newAcme(t *testing.T) *acme {
	a := &acme{acks: make(chan string, events), blob: blob()}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	a.control = &httptest.Server{Listener: ln, Config: &http.Server{
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { a.acks <- r.FormValue("n") }),
	}}
	a.control.Start()
	t.Cleanup(a.control.Close)
	return a
}

func (a *acme) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/reply":
		a.reply(w)
	case path == "/stream":
		a.stream(w, r)
	case path == "/blob" && r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(a.blob)))
		_, _ = w.Write(a.blob)
	case strings.HasPrefix(path, "/status/"):
		code, err := strconv.Atoi(strings.TrimPrefix(path, "/status/"))
		if err != nil { // git looks below it for a repository
			code = http.StatusNotFound
		}
		w.Header().Set("X-Request-Id", "of-the-upstream")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"upstream":"says %d"}`, code)
	case r.Method == http.MethodPost:
		digest := sha256.New()
		n, _ := io.Copy(digest, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"bytes":%d,"sha256":"%x"}`, n, digest.Sum(nil))
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"target":%q}`, r.RequestURI)
	}
}

// reply has what proxies like to repair: repeated fields, a weak ETag, and a
// compressed body.
func (a *acme) reply(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Link", `<https://api.acme.example/reply?page=2>; rel="next", <https://api.acme.example/reply?page=9>; rel="last"`)
	h.Set("ETag", `W/"a-weak-one"`)
	h.Add("Set-Cookie", "a=1; Path=/; HttpOnly")
	h.Add("Set-Cookie", "b=two,with,commas; Secure")
	h.Add("Set-Cookie", "c=")
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	defer z.Close()
	fmt.Fprint(z, `{"packed":true}`)
}

func (a *acme) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for n := range events {
		fmt.Fprintf(w, "data: %d\n\n", n)
		_ = http.NewResponseController(w).Flush()
		select {
		case ack := <-a.acks:
			if ack != strconv.Itoa(n) {
				fmt.Fprintf(w, "data: out-of-order-%s\n\n", ack)
				return
			}
		case <-r.Context().Done():
			return
		case <-time.After(20 * time.Second):
			fmt.Fprint(w, "data: not-acknowledged\n\n")
			return
		}
	}
}

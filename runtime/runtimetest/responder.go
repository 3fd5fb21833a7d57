package runtimetest

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/kimbap-run/kimbap/runtime"
)

// Responder takes an answer into memory. It is safe for concurrent use.
type Responder struct {
	OnAbort func(error)              // told of every Abort; may be nil
	Conn    func() (net.Conn, error) // what Upgrade returns; nil: an error

	mu      sync.Mutex
	interim []int
	status  int
	header  http.Header
	body    bytes.Buffer
	trailer http.Header
	aborted error
}

var _ runtime.Responder = (*Responder)(nil)

// errOrder is a call out of its order.
var errOrder = errors.New("runtimetest: Responder used out of order")

// Informational implements [runtime.Responder].
func (r *Responder) Informational(status int, _ http.Header) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status != 0 || status < 100 || status > 199 {
		return errOrder
	}
	r.interim = append(r.interim, status)
	return nil
}

// Start implements [runtime.Responder].
func (r *Responder) Start(status int, header http.Header) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status != 0 {
		return errOrder
	}
	r.status, r.header = status, header.Clone()
	return nil
}

// Write implements [runtime.Responder].
func (r *Responder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == 0 {
		return 0, errOrder
	}
	if r.aborted != nil {
		return 0, r.aborted
	}
	return r.body.Write(p)
}

// Trailer implements [runtime.Responder].
func (r *Responder) Trailer(header http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trailer = header.Clone()
}

// Upgrade implements [runtime.Responder].
func (r *Responder) Upgrade() (net.Conn, error) {
	if r.Conn == nil {
		return nil, errors.New("runtimetest: no connection to upgrade to")
	}
	return r.Conn()
}

// Abort implements [runtime.Responder].
func (r *Responder) Abort(err error) {
	r.mu.Lock()
	if r.status != 0 && r.aborted == nil {
		r.aborted = err
	}
	r.mu.Unlock()
	if r.OnAbort != nil {
		r.OnAbort(err)
	}
}

// Answer is what a caller has seen so far.
type Answer struct {
	Interim []int
	Status  int // 0: not started
	Header  http.Header
	Body    string
	Trailer http.Header
	Aborted error // nil: complete, or not started
}

// Answer returns what was taken so far.
func (r *Responder) Answer() Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Answer{
		Interim: append([]int(nil), r.interim...), Status: r.status, Header: r.header.Clone(),
		Body: r.body.String(), Trailer: r.trailer.Clone(), Aborted: r.aborted,
	}
}

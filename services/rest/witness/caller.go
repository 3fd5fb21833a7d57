package witness

import (
	"net/http"

	"github.com/kimbap-run/kimbap/runtime"
)

// watched is a Responder under the eyes of a witness.
type watched struct {
	runtime.Responder
	w *Witness
}

// Watch returns the responder of an exchange.
func (w *Witness) Watch(out runtime.Responder) runtime.Responder {
	if w == nil {
		return out
	}
	return &watched{out, w}
}

// Like implements [runtime.Verbatim].
func (o *watched) Like(form runtime.Form) {
	if v, ok := o.Responder.(runtime.Verbatim); ok {
		v.Like(form)
	}
}

// Hurry implements [runtime.Holding].
func (o *watched) Hurry() {
	if h, ok := o.Responder.(runtime.Holding); ok {
		h.Hurry()
	}
}

// NoBody implements [runtime.Bare].
func (o *watched) NoBody() {
	if b, ok := o.Responder.(runtime.Bare); ok {
		b.NoBody()
	}
}

// Informational implements [runtime.Responder].
func (o *watched) Informational(status int, header http.Header) error {
	if err := o.w.informed(status, header); err != nil {
		return err
	}
	return o.Responder.Informational(status, header)
}

// informed compares a 1xx with the next one of that status that came.
func (w *Witness) informed(status int, header http.Header) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.in == nil {
		return nil
	}
	for len(w.interims) > 0 {
		came := w.interims[0]
		if w.interims = w.interims[1:]; came.status == status {
			return w.compare(came, status, header)
		}
	}
	return w.fail(undeclared("an answer %d that nobody gave", status))
}

// compare holds the head of an answer against what is given to the caller.
func (w *Witness) compare(came side, status int, header http.Header) error {
	left := newSide()
	for name, list := range header {
		left.add(name, list...)
	}
	if came.status != status {
		return w.fail(undeclared("the status"))
	}
	if err := w.allowed(true).fields(came, left); err != nil {
		return w.fail(err)
	}
	return nil
}

// Start implements [runtime.Responder].
func (o *watched) Start(status int, header http.Header) error {
	o.w.mu.Lock()
	err := o.w.compare(o.w.final, status, header)
	o.w.mu.Unlock()
	if err != nil {
		return err
	}
	return o.Responder.Start(status, header)
}

// Write implements [io.Writer].
func (o *watched) Write(p []byte) (int, error) {
	o.w.mu.Lock()
	same, err := o.w.got.leave(p, true), error(nil)
	if !same {
		err = o.w.fail(undeclared("the body of the answer"))
	}
	o.w.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return o.Responder.Write(p)
}

// Trailer implements [runtime.Responder].
func (o *watched) Trailer(header http.Header) {
	o.w.mu.Lock()
	for name, list := range header {
		o.w.given.add(name, list...)
	}
	o.w.mu.Unlock()
	o.Responder.Trailer(header)
}

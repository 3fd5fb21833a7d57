package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/recognised"
)

// checkOverride looks for another method in a POST whose body nothing else asked for,
// and in that of any method for the words that decided in the query: they could make
// another action of the request. A form is read before it is sent, by a caller that the
// pipeline will not turn away anyway, and so is a short body in parts or of no type, or
// beside such words; a longer one, and any other in which frameworks look for a method,
// is looked at as it passes.
func (s *Server) checkOverride(ctx context.Context, req *runtime.Request, owner string, words []string) *runtime.Error {
	if req.Parsed || req.Raw.Body == nil {
		return nil
	}
	watch := watchOf(req, words)
	if watch == nil {
		return nil
	}
	form := slices.ContainsFunc(req.Raw.Header["Content-Type"], classifier.IsForm)
	soon := form || comesAtOnce(req.Raw, len(words) > 0)
	if !soon && len(words) == 0 {
		lookAt(req, watch)
		return nil
	}
	if _, err := s.o.Identity.Identify(ctx, req.Caller); err != nil {
		return recognised.Refusal(err)
	}
	if !form && len(words) > 0 && classifier.Unpackable(req.Raw.Header) {
		return s.unpacked(ctx, req, owner, func(text []byte) error { // which is read whole for that
			if err := watch.Look(text); err != nil {
				return err
			}
			return watch.End()
		})
	}
	if !form && len(words) > 0 && classifier.PackedParts(req.Raw.Header) {
		return s.checkPacked(req, words, soon)
	}
	if form || len(words) > 0 {
		if err := illegible(req.Raw, form, words); err != nil {
			return err
		}
	}
	if !soon || req.Raw.ContentLength > s.o.Limits.BodyBytes {
		lookAt(req, watch)
		return nil
	}
	return s.checkFront(req, words)
}

// checkPacked has a body in parts that is compressed looked at as it is and unpacked: a short
// one before it is sent, and as it passes another, which may be a file of any length.
func (s *Server) checkPacked(req *runtime.Request, words []string, soon bool) *runtime.Error {
	looked := func(body io.Reader) io.Reader {
		return packedBody{classifier.WatchPacked(body, watchOf(req, words), watchOf(req, words))}
	}
	if soon {
		front, err := req.Raw.Front(frontBytes)
		if err != nil {
			return recognised.Refusal(err)
		}
		if _, whole := req.Raw.Buffered(); whole {
			if _, err := io.Copy(io.Discard, looked(bytes.NewReader(front))); err != nil {
				return recognised.Refusal(err)
			}
			return nil
		}
	}
	req.Raw.Body = looked(req.Raw.Body)
	return nil
}

// packedBody gives the refusals of the classifier as they are told.
type packedBody struct{ *classifier.PackedBody }

// Read implements [io.Reader].
func (b packedBody) Read(p []byte) (int, error) {
	n, err := b.PackedBody.Read(p)
	var bad *classifier.Error
	if errors.As(err, &bad) {
		err = recognised.Refusal(bad)
	}
	return n, err
}

// illegible refuses a form, or a body beside words, that is read otherwise than it can be
// looked at.
func illegible(raw *runtime.Raw, form bool, words []string) *runtime.Error {
	how, hint := "compressed", "send it without a Content-Encoding"
	if !classifier.Packed(raw.Header) {
		how, hint = "in a charset of its own", "send it in UTF-8"
		if !classifier.OtherCharset(raw.Header["Content-Type"]) {
			return nil
		}
	}
	e := &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonUnsupportedMedia, Stage: runtime.StageSurface,
		Msg: "a form decides what a request does, and this one is " + how, Hint: hint,
	}
	if !form {
		e.Msg = fmt.Sprintf("the body may say the parameter %q again, which decides in the query, and it is %s", words[0], how)
	}
	return e
}

// watchOf is what the body is looked at with; nil when no framework finds anything in it.
func watchOf(req *runtime.Request, words []string) *classifier.OverrideWatch {
	kinds := req.Raw.Header["Content-Type"]
	if req.Target.Method == http.MethodPost {
		return classifier.WatchOverride(kinds, words...)
	}
	return classifier.WatchWords(kinds, words...)
}

// comesAtOnce reports whether a body that is no form is short, need not be asked for
// (RFC 9110 section 10.1.1), and is one that some framework takes for a form, or looked
// at for words too.
func comesAtOnce(raw *runtime.Raw, words bool) bool {
	return raw.ContentLength >= 0 && raw.ContentLength <= frontBytes && raw.Header["Expect"] == nil &&
		(words || classifier.IsParts(raw.Header["Content-Type"]))
}

// frontBytes is how much of a body is read before it is sent, where it does not say
// that it is a form, or not how long it is: enough for most, so that one which asks
// for another method is refused before anything of it has left.
const frontBytes = 64 << 10

// checkFront looks at a form that ends soon, and has one that does not looked at as
// it passes, from its beginning.
func (s *Server) checkFront(req *runtime.Request, words []string) *runtime.Error {
	body, most := req.Raw.Body, s.o.Limits.BodyBytes
	if req.Raw.ContentLength < 0 {
		most = min(most, frontBytes)
	}
	front, err := req.Raw.Front(most)
	if err != nil {
		return recognised.Refusal(err)
	}
	watch := watchOf(req, words)
	if err := watch.Look(front); err != nil {
		return recognised.Refusal(err)
	}
	if _, whole := req.Raw.Buffered(); whole {
		if err := watch.End(); err != nil {
			return recognised.Refusal(err)
		}
		return nil
	}
	if timed, ok := body.(arriving); ok {
		timed.by(time.Time{}) // it may take its time now
	}
	lookAt(req, watchOf(req, words))
	return nil
}

// lookAt has the body looked at by watch as it passes.
func lookAt(req *runtime.Request, watch *classifier.OverrideWatch) {
	req.Raw.Body = &passingBody{Reader: req.Raw.Body, watch: watch, left: req.Raw.ContentLength}
}

// passingBody is a body that is looked at as it passes, and broken off before the end
// where it asks for another method. Most long forms are files, of clients that say of
// every body that it is a form.
type passingBody struct {
	io.Reader
	watch  *classifier.OverrideWatch
	left   int64 // bytes that are to come; negative: not announced
	failed error
}

// errLonger is a body that goes on behind its length.
var errLonger = errors.New("the body is longer than it says")

// Read implements [io.Reader].
func (b *passingBody) Read(p []byte) (int, error) {
	if b.failed != nil {
		return 0, b.failed
	}
	n, err := b.Reader.Read(p)
	if n > 0 && int64(n) == b.left && err == nil { // with these it is whole to who goes by its length
		if _, err = io.ReadFull(b.Reader, make([]byte, 1)); err == nil {
			err = errLonger
		}
		if err != io.EOF { //nolint:errorlint // what a reader returns itself
			b.failed = err
			return 0, err
		}
	}
	b.left -= int64(n)
	bad := b.watch.Look(p[:n])
	if bad == nil && err == io.EOF { //nolint:errorlint // what a reader returns itself
		bad = b.watch.End()
	}
	if bad != nil {
		b.failed = recognised.Refusal(bad)
		return 0, b.failed
	}
	return n, err
}

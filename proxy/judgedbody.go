package proxy

import (
	"context"
	"errors"
	"net/http"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/recognised"
)

// readable lets policy ask for the body of a request that was recognised
// without it.
func (s *Server) readable(ctx context.Context, req *runtime.Request, owner string) {
	if req.Raw.Body == nil || req.Parsed {
		return
	}
	req.Fields = classifier.HasParameters(req.Target.Method, req.Raw.Header["Content-Type"])
	req.Read = func() error {
		if !req.Action.Foreign() {
			return errorOf(s.recogniseWhole(ctx, req, owner))
		}
		return errorOf(s.parseBody(ctx, req, owner, func(*classifier.Body) error { return nil }))
	}
}

// errorOf keeps a nil *Error from being an error that is not nil.
func errorOf(e *runtime.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// recogniseWhole recognises the request again, with its body.
func (s *Server) recogniseWhole(ctx context.Context, req *runtime.Request, owner string) *runtime.Error {
	t := &req.Target
	in := classifier.Input{Scheme: t.Scheme, Authority: t.Authority, Method: t.Method, Target: t.Path, Header: req.Raw.Header}
	match, err := s.matchBody(ctx, req, owner, in)
	if err != nil {
		return recognised.Refusal(err)
	}
	if match.Action == "" { // a reload took it away meanwhile
		return recognised.None(t.Authority, t.Path)
	}
	recognised.As(req, match)
	return nil
}

// matchBody reads the body and classifies again, by the routes in force once it is there: it
// may have taken a minute. A caller the pipeline will turn away anyway is not read from.
func (s *Server) matchBody(ctx context.Context, req *runtime.Request, owner string, in classifier.Input) (match classifier.Match, err error) {
	if _, err := s.o.Identity.Identify(ctx, req.Caller); err != nil {
		return classifier.Match{}, err
	}
	refused := s.parseBody(ctx, req, owner, func(body *classifier.Body) error {
		in.Body = body
		match, err = s.o.Table().Match(in)
		return err
	})
	switch {
	case refused != nil:
		return classifier.Match{}, refused
	case match.NeedBody:
		return classifier.Match{}, errors.New("the classifier asked for a body it was given")
	}
	return match, nil
}

// wholeBody reads the body whole, as far as it may be judged.
func (s *Server) wholeBody(req *runtime.Request) ([]byte, *runtime.Error) {
	text, err := req.Raw.Buffer(s.o.Limits.BodyBytes)
	if errors.Is(err, runtime.ErrBodyTooLarge) {
		return nil, recognised.TooLarge(s.o.Limits.BodyBytes)
	}
	if err != nil {
		return nil, recognised.Refusal(err)
	}
	return text, nil
}

// hasParameters reports whether a request that needs no body has one that some
// frameworks read like its query, and before it.
func hasParameters(req *runtime.Request) bool {
	switch req.Target.Method {
	case http.MethodGet, http.MethodHead, http.MethodDelete:
		return req.Raw.Body != nil && classifier.HasParameters(req.Target.Method, req.Raw.Header["Content-Type"])
	}
	return false
}

// parseBody reads the body whole, parses it and gives it to use, where there
// is room for that.
func (s *Server) parseBody(ctx context.Context, req *runtime.Request, owner string, use func(*classifier.Body) error) *runtime.Error {
	return s.unpacked(ctx, req, owner, func(text []byte) error { return recognised.Parse(req, text, use) })
}

// unpacked reads the body whole and gives use what it says, where there is room for that.
func (s *Server) unpacked(ctx context.Context, req *runtime.Request, owner string, use func(text []byte) error) *runtime.Error {
	text, refused := s.wholeBody(req)
	if refused != nil {
		return refused
	}
	var err error
	header := req.Raw.Header
	if refused := recognised.CheckFields(header); refused != nil {
		return refused
	}
	full := s.admission.parse(ctx, owner, s.unpackedLength(header, text), func() {
		if text, err = classifier.Unpack(header, text, s.o.Limits.BodyBytes); err == nil {
			err = use(text)
		}
	})
	switch {
	case full != nil:
		return full
	case err != nil:
		return recognised.Refusal(err)
	}
	return nil
}

// unpackedLength is how long a body may become when it is unpacked.
func (s *Server) unpackedLength(header http.Header, body []byte) int64 {
	if classifier.Packed(header) {
		return s.o.Limits.BodyBytes
	}
	return int64(len(body))
}

package app

import (
	"errors"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/recognised"
	"github.com/kimbap-run/kimbap/services"
)

// readable lets policy ask again for the body of a request that waited for a
// person: what it may look at is what it looked at then.
func (a *App) readable(req *runtime.Request) {
	if req.Raw == nil || req.Raw.Body == nil {
		return
	}
	req.Fields = classifier.HasParameters(req.Target.Method, req.Raw.Header["Content-Type"])
	req.Read = func() error {
		text, err := req.Raw.Buffer(services.JudgedBody)
		if errors.Is(err, runtime.ErrBodyTooLarge) {
			return &runtime.Error{
				Code: runtime.CodeInvalidInput, Reason: runtime.ReasonBodyTooLarge,
				Msg: "this request can only be judged by its body, which is over 1 MiB", Hint: "send a smaller body",
			}
		}
		if err != nil {
			return err
		}
		header := req.Raw.Header
		var body *classifier.Body
		if text, err = classifier.Unpack(header, text, services.JudgedBody); err == nil {
			body, err = classifier.ParseBody(header.Get("Content-Type"), "", text)
		}
		if err == nil && !req.Action.Foreign() {
			err = a.recogniseHeld(req, body)
		}
		if err != nil {
			return classified(err)
		}
		req.Document, req.Parsed = body.Value(), true
		return nil
	}
}

// recogniseHeld reads the arguments from the request again, with its body. It
// must still be the same action.
func (a *App) recogniseHeld(req *runtime.Request, body *classifier.Body) error {
	t := req.Target
	match, err := a.Services().Table().Match(classifier.Input{
		Scheme: t.Scheme, Authority: t.Authority, Method: t.Method, Target: t.Path, Header: req.Raw.Header, Body: body,
	})
	if err != nil {
		return err
	}
	if runtime.Ref(match.Action) != req.Action {
		return &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonPolicyChanged,
			Msg: "the services have changed: this request is not the action any more that was asked about", Hint: "make the request again",
		}
	}
	recognised.As(req, match)
	return nil
}

// classified makes a refusal of what the classifier found wrong.
func classified(err error) error {
	var e *classifier.Error
	if !errors.As(err, &e) {
		return err
	}
	return &runtime.Error{Code: runtime.Code(e.Code), Reason: runtime.Reason(e.Reason), Msg: e.Msg}
}

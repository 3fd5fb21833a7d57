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
			return recognised.TooLarge(services.JudgedBody)
		}
		if err == nil {
			err = a.parseHeld(req, text)
		}
		if err != nil {
			return recognised.Refusal(err)
		}
		return nil
	}
}

// parseHeld reads what policy may look at from the body.
func (a *App) parseHeld(req *runtime.Request, text []byte) error {
	header := req.Raw.Header
	if refused := recognised.CheckFields(header); refused != nil {
		return refused
	}
	text, err := classifier.Unpack(header, text, services.JudgedBody)
	if err != nil {
		return err
	}
	return recognised.Parse(req, text, func(body *classifier.Body) error {
		if req.Action.Foreign() {
			return nil
		}
		return a.recogniseHeld(req, body)
	})
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

package recognised

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// CheckFields refuses a head that says more than once what the body is: a server may take
// another of these for the one that counts.
func CheckFields(header http.Header) *runtime.Error {
	for _, name := range [...]string{"Content-Type", "Content-Encoding"} {
		if len(header[name]) > 1 {
			return &runtime.Error{
				Code: runtime.CodeAmbiguousTarget, Stage: runtime.StageSurface,
				Msg: "the request could be read in two ways: the field " + name + " is there more than once", Hint: oneForm,
			}
		}
	}
	return nil
}

// Parse reads an unpacked body, gives it to use, and makes it the request's document when that
// has no error.
func Parse(req *runtime.Request, text []byte, use func(*classifier.Body) error) error {
	body, err := classifier.ParseBody(req.Raw.Header.Get("Content-Type"), "", text)
	if err == nil {
		err = use(body)
	}
	if err == nil {
		req.Document, req.Parsed = body.Value(), true
	}
	return err
}

// TooLarge is the error of a request whose body decides and is over the limit, in bytes.
func TooLarge(limit int64) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonBodyTooLarge, Stage: runtime.StageSurface,
		Msg:  fmt.Sprintf("this request can only be judged by its body, which is over %d bytes", limit),
		Hint: "send a smaller body",
	}
}

// Refusal turns an error of the classifier into one that crosses stages. Others stay as they are.
func Refusal(err error) *runtime.Error {
	var c *classifier.Error
	if !errors.As(err, &c) {
		return runtime.AsError(err)
	}
	return &runtime.Error{
		Code: runtime.Code(c.Code), Reason: runtime.Reason(c.Reason), Stage: runtime.StageSurface, Msg: c.Msg, Err: err,
		Hint: oneForm,
	}
}

const oneForm = "send it in one unambiguous form; kimbap does not repair requests"

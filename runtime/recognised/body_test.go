package recognised_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/recognised"
)

// A request that waited for a person is refused in the words of one that did not.
func TestEveryRefusalSaysWhatToSend(t *testing.T) {
	header := http.Header{"Content-Type": {"application/json"}}
	req := runtime.Request{Raw: &runtime.Raw{Header: header}}
	use := func(*classifier.Body) error { return nil }
	refused := recognised.Refusal(recognised.Parse(&req, []byte(`{"a":1,"a":2}`), use))
	if refused.Code != runtime.CodeInvalidInput || refused.Reason != "duplicate_key" || refused.Hint == "" || refused.Stage != runtime.StageSurface || req.Parsed {
		t.Errorf("%+v, parsed %v", refused, req.Parsed)
	}
	header["Content-Type"] = append(header["Content-Type"], "text/plain")
	if refused = recognised.CheckFields(header); refused == nil || refused.Code != runtime.CodeAmbiguousTarget || refused.Hint == "" {
		t.Errorf("two types: %+v", refused)
	}
	other := &runtime.Error{Code: runtime.CodeCanceled, Msg: "gone"}
	if recognised.Refusal(other) != other {
		t.Error("another error became one of the classifier's")
	}
}

// What policy is shown is what use was given, and nothing when use refuses it.
func TestADocumentIsTheRequestsOnceItIsTaken(t *testing.T) {
	for _, refused := range []error{nil, errors.New("another action")} {
		req := runtime.Request{Raw: &runtime.Raw{Header: http.Header{"Content-Type": {"application/json"}}}}
		err := recognised.Parse(&req, []byte(`{"a":1}`), func(*classifier.Body) error { return refused })
		if err != refused || req.Parsed != (refused == nil) || (req.Document != nil) != (refused == nil) {
			t.Errorf("%v: %v, %v, %v", refused, err, req.Parsed, req.Document)
		}
	}
}

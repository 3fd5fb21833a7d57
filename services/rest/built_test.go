package rest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

func tmpl(v any) runtime.Template { return runtime.Template{Value: v} }

func TestBuiltRequestsAreSent(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	c := r.call("POST", "/")
	c.Request.Raw, c.Request.Target = nil, runtime.Target{}
	b := tmpl(map[string]any{"f": "{v}"})
	c.Action.HTTP.Path, c.Action.HTTP.Body, c.Action.HTTP.BodyType = "/make", &b, "multipart"
	c.Args = runtime.Args{"v": "plain"}
	r.must(t, c)
	last := r.Last(t)
	equal(t, "line", last.Line, "POST /make HTTP/1.1")
	equal(t, "credential", strings.Join(last.Fields("Authorization"), "|"), "Bearer "+canary)
	if !strings.Contains(string(last.Body), "name=\"f\"\r\n\r\nplain\r\n--kimbap-") {
		t.Errorf("body:\n%s", last.Body)
	}
	c.Credential = runtime.Credential{}
	e := r.refused(t, c, runtime.CodeNoCredential, "")
	equal(t, "hint", e.Hint, "kimbap link test")
	preview, err := r.backend.Preview(c.Action, c.Built)
	if err != nil || !strings.Contains(preview.String(), "\nAuthorization: Bearer [secret]\n") {
		t.Errorf("preview: %v\n%v", err, preview)
	}
	c.Action.Auth = &runtime.Auth{Type: runtime.AuthQuery, Query: "key"}
	if preview, err = r.backend.Preview(c.Action, c.Built); err != nil || !strings.HasSuffix(preview.URL, "/make?key=[secret]") {
		t.Errorf("preview: %v\n%v", err, preview)
	}
	c.Action.Auth = &runtime.Auth{Type: "elsewhere"}
	if preview, err = r.backend.Preview(c.Action, c.Built); runtime.CodeOf(err) != runtime.CodeInternal {
		t.Errorf("a preview of what cannot be sent: %v\n%v", err, preview)
	}
}

// What was not built before it was judged is not sent, and what was built stays as it is:
// it may be sent again, with another credential.
func TestOnlyWhatWasJudgedIsSent(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	c := r.call("POST", "/")
	c.Request.Raw, c.Request.Target = nil, runtime.Target{}
	if _, err := r.backend.Execute(t.Context(), c, &runtimetest.Responder{}); runtime.CodeOf(err) != runtime.CodeInternal || !errors.Is(err, runtime.ErrNotSent) {
		t.Errorf("without a built request: %v", err)
	}
	equal(t, "requests", len(r.Requests()), 0)
	for _, auth := range []runtime.Auth{
		{Type: runtime.AuthBearer}, {Type: runtime.AuthHeader, Header: "X-Key"}, {Type: runtime.AuthQuery, Query: "key"}, {Type: runtime.AuthBody, Field: "key"},
	} {
		for _, kind := range []string{"json", "form", "multipart"} {
			b := tmpl(map[string]any{"f": "{v}"})
			c.Action.HTTP.Body, c.Action.HTTP.BodyType, c.Args = &b, kind, runtime.Args{"v": "plain"}
			auth.Ref = "test"
			c.Action.Auth = &auth
			before := fmt.Sprintf("%+v", *build(t, c).Built)
			if _, err := r.backend.Execute(t.Context(), c, &runtimetest.Responder{}); err != nil {
				t.Fatal(err)
			}
			if after := fmt.Sprintf("%+v", *c.Built); after != before || strings.Contains(after, canary) {
				t.Errorf("%s, %s: what was judged has changed", auth.Type, kind)
			}
		}
	}
}

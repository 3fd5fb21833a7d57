package rest_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
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
	preview, err := r.backend.Preview(c.Action, c.Args)
	if err != nil || !strings.Contains(preview.String(), "\nAuthorization: Bearer [secret]\n") {
		t.Errorf("preview: %v\n%v", err, preview)
	}
	c.Action.Auth = &runtime.Auth{Type: runtime.AuthQuery, Query: "key"}
	if preview, err = r.backend.Preview(c.Action, c.Args); err != nil || !strings.HasSuffix(preview.URL, "/make?key=[secret]") {
		t.Errorf("preview: %v\n%v", err, preview)
	}
}

package request_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// A body of a form that holds files: names that would end a part's head, lead
// out of a folder or begin another part go out as plain text, or are refused.
func TestFilesOfAMultipartBody(t *testing.T) {
	build := func(args runtime.Args) (string, error) {
		b := tmpl(map[string]any{"note": "{note}", "file": "{file}"})
		r, err := request.Build(&runtime.Action{Ref: "t.a", HTTP: &runtime.HTTPSpec{
			BaseURL: "https://a.test", Authorities: []string{"a.test:443"}, Method: "POST", Path: "/x", Body: &b, BodyType: "multipart",
		}}, args)
		if err != nil {
			return "", err
		}
		return string(r.Body), nil
	}
	body, err := build(runtime.Args{"note": "a\r\n--x", "file": []any{
		map[string]any{"filename": "../../etc/pass\"wd.json", "content": "{}"},
		map[string]any{"filename": `C:\x\y.bin`, "base64": "AP8="},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`form-data; name="file"; filename="pass%22wd.json"` + "\r\nContent-Type: application/json\r\n\r\n{}\r\n",
		`form-data; name="file"; filename="y.bin"` + "\r\nContent-Type: application/octet-stream\r\n\r\n\x00\xff\r\n",
		`form-data; name="note"` + "\r\n\r\na\r\n--x\r\n",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%q", want, body)
		}
	}
	for name, file := range map[string]map[string]any{
		"line break": {"filename": "a\r\nX-Evil: 1\r\n\r\nbody", "content": "x"}, "NUL": {"filename": "a\x00b", "content": "x"},
		"no name": {"filename": "..", "content": "x"}, "empty": {"filename": "", "content": "x"}, "folder": {"filename": "a/", "content": "x", "base64": "x"},
		"no content": {"filename": "a"}, "not base64": {"filename": "a", "base64": "%"}, "a number": {"filename": "a", "content": 1},
		"type": {"filename": "a", "content": "x", "content_type": "a\r\nb"}, "page break in the type": {"filename": "a", "content": "x", "content_type": "text/plain; a=\"\fContent-Disposition: x\""},
		"NUL in the type": {"filename": "a", "content": "x", "content_type": "text/plain; a=\"\x00\""}, "long": {"filename": strings.Repeat("x", 2000), "content": "x"},
		"unknown": {"filename": "a", "content": "x", "mode": "0777"}, "not text": {"filename": "a\xff", "content": "x"},
	} {
		if _, err := build(runtime.Args{"file": file}); runtime.CodeOf(err) != runtime.CodeInvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// A body that is not what the page takes is answered in the words of the page, with what
// is right: the members there are, and the one that may have been meant.
func TestWhatIsWrongWithABodyIsSaid(t *testing.T) {
	client, base := open(t, false, Options{Agent: nobody{}, Operator: nobody{}, Shutdown: func() {}})
	const call, exec = "/v1/actions/notes/get-note:execute", "/v1/exec"
	for _, c := range []struct{ path, body, want, hint string }{
		{call, "", "there is no body", "input, wait, dry_run, all, max, raw"},
		{call, " \n", "there is no body", "input"},
		{call, `[]`, "it is not an object", "input"},
		{call, `null`, "it is not an object", "input"},
		{call, `"input"`, "it is not an object", "input"},
		{call, `{"input":{}`, "it ends too early", "input"},
		{call, `{"input":{},}`, "it is not JSON from byte 13 on", "input"},
		{call, `{"inputs":{}}`, `there is no member "inputs"; did you mean input?`, "the members here are: input, wait, dry_run, all, max, raw"},
		{call, `{"Input":{}}`, `there is no member "Input"; did you mean input?`, "input"},
		{call, `{"input":{},"dryrun":true}`, `there is no member "dryrun"; did you mean dry_run?`, "input"},
		{call, `{"something":{"input":1}}`, `there is no member "something"`, "input"},
		{call, `{"` + strings.Repeat("\\u202e", 100) + `":1}`, `there is no member "`, "input"},
		{call, `{"input":[]}`, "input must be an object", "input"},
		{call, `{"max":"5"}`, "max must be a whole number", "max"},
		{call, `{"max":1.5}`, "max must be a whole number", "max"},
		{call, `{"all":1}`, "all must be true or false", "all"},
		{call, `{"wait":true}`, `wait must be seconds, or text such as "30s"`, "wait"},
		{call, `{"wait":"soon"}`, `wait must be seconds, or text such as "30s"`, "wait"},
		{exec, `{"code":1}`, "code must be text", "code, timeoutMs, wait, allow"},
		{exec, `{"code":"x","allow":"github.*"}`, "allow must be a list of text", "allow"},
		{exec, `{"code":"x","allow":["a",1]}`, "allow must be a list of text", "allow"},
		{"/call", `{"actoin":"notes.get-note"}`, `there is no member "actoin"; did you mean action?`, "action, input, wait"},
		{"/v1/exec/exe_1/resume", `{"wat":1}`, `there is no member "wat"; did you mean wait?`, "the members here are: wait"},
	} {
		status, text := ask(t, client, "POST", base+c.path, c.body)
		var p runtime.Problem
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if status != 400 || p.Code != runtime.CodeInvalidInput || p.Reason != runtime.ReasonInvalidJSON ||
			!strings.HasPrefix(p.Detail, "the request is not understood: "+c.want) || !strings.Contains(p.Hint, c.hint) || len(p.Detail) > 300 {
			t.Errorf("%s %.40s: %d %s", c.path, c.body, status, text)
		}
		for _, words := range []string{"EOF", "unmarshal", "json:", "Go ", "server.", "runtime.", "field", "\u202e"} {
			if strings.Contains(p.Detail+p.Hint, words) {
				t.Errorf("%s %.40s is answered with %q: %s", c.path, c.body, words, text)
			}
		}
	}
}

package vm_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// FuzzBridge holds what a script gets of an answer, and what it makes of it, against
// encoding/json: any text that is JSON comes out as it went in, and no other text is
// ever a value.
func FuzzBridge(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,-0.5e2,true,null,"\u00e9\ud83d\ude00\n"],"__proto__":{"x":1},"toJSON":1}`, `[1,]`, `{"a":1,"a":2}`, `"\ud800"`, `1e999`, `-`, `[[[[]]]]`,
		`{"then":{}}`, `{"constructor":{"prototype":1}}`, ` "x" y`, `01`, `{"":0}`, "\"\x00\"", `12345678901234567890`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.Count(text, "[")+strings.Count(text, "{") > 500 || strings.TrimSpace(text) == "" {
			return
		}
		h := newHost()
		h.answer = func(h *host, c frame.Call) { h.reply(c.Seq, text) }
		done := run(t, `const r = await tools.a.b().catch(e => e instanceof ToolError ? undefined : [e]); return r === undefined ? undefined : {r, again: JSON.parse(JSON.stringify(r))}`, h, 20*time.Second)
		if done.Failure != nil {
			t.Fatalf("%q: %+v", text, *done.Failure)
		}
		var want any
		valid := json.Unmarshal([]byte(text), &want) == nil
		if !valid {
			if done.Value != "" && !strings.ContainsAny(text, "eE") { // a number beyond those of Go is infinite here, and null
				t.Errorf("%q is no JSON and was a value: %s", text, done.Value)
			}
			return
		}
		var got struct{ R, Again any }
		if err := json.Unmarshal([]byte(done.Value), &got); err != nil || !reflect.DeepEqual(got.R, want) || !reflect.DeepEqual(got.Again, want) {
			t.Errorf("%q came out as %s", text, done.Value)
		}
	})
}

package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// pieces is a caller that keeps what it reads, where room was made for that before.
type pieces struct {
	header http.Header
	text   bytes.Buffer
	most   int // the longest
}

func (p *pieces) Header() http.Header { return p.header }
func (p *pieces) WriteHeader(int)     {}
func (p *pieces) Write(b []byte) (int, error) {
	p.most = max(p.most, len(b))
	return p.text.Write(b)
}

// A text is up to six times as long as JSON. That much is never in memory: what has a place
// there is the answer as it came, and up to a mebibyte of it needs none.
func TestWhatIsMadeOfAnAnswerIsNeverThereWhole(t *testing.T) {
	for name, body := range map[string]string{
		"control characters": strings.Repeat("\x01", 1<<20),
		"HTML":               strings.Repeat("<&>", 1<<18),
		"cut characters":     "a" + strings.Repeat("é€😀\u2028\"\\\n", 1<<16) + " ",
		"no text":            strings.Repeat("\xff\x00\x80", 1<<18) + "\xfe",
		"a little":           "text\n",
		"JSON":               ` {"a":"` + strings.Repeat("<é>", 1<<16) + `"} `,
	} {
		out := &pieces{header: http.Header{}}
		out.text.Grow(8 * len(body))
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		if err := answerResult(out, Result{Body: []byte(body)}, false, nil); err != nil {
			t.Fatal(err)
		}
		goruntime.ReadMemStats(&after)
		if made := int(after.TotalAlloc-before.TotalAlloc) - len(body); made > len(body)+1<<20 || out.most > max(1<<17, len(body)) {
			t.Errorf("%s: %d KiB for %d KiB, the longest piece has %d KiB", name, made>>10, len(body)>>10, out.most>>10)
		}
		var got struct{ Result any }
		if err := json.Unmarshal(out.text.Bytes(), &got); err != nil || !strings.HasSuffix(out.text.String(), "}\n") {
			t.Fatalf("%s: %.100q…: %v", name, out.text.String(), err)
		}
		var want any = body
		switch name {
		case "no text":
			want = map[string]any{"base64": base64.StdEncoding.EncodeToString([]byte(body))}
		case "JSON":
			want = json.RawMessage(body)
		}
		if a, b := asJSON(t, got.Result), asJSON(t, want); a != b {
			t.Errorf("%s: %d bytes, not %d: %.100q", name, len(a), len(b), a)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// full is an agent whose answers are the filter's: longer than what came.
type full struct{ Agent }

func (full) Call(context.Context, Call) (Result, error) {
	return Result{Body: bytes.Repeat([]byte("1"), Large+1)}, nil
}

// A filter can make much of little: that has its place too.
func TestWhatAFilterMakesHasItsPlace(t *testing.T) {
	var s *Server
	client, base := serve(t, true, Options{Agent: full{}}, func(one *Server) { s, one.large.patient = one, 0 })
	do := func() int {
		status, _ := ask(t, client, "POST", base+"/v1/actions/a/b:execute", `{}`, "Authorization", "Bearer a")
		return status
	}
	if status := do(); status != http.StatusOK {
		t.Errorf("with room: %d", status)
	}
	for i := range largeAll {
		a, err := s.large.allow(runtime.Principal{ID: string(rune('b' + i)), Tenant: "default"})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer a.give()
	}
	if status := do(); status != http.StatusRequestEntityTooLarge {
		t.Errorf("without room: %d", status)
	}
}

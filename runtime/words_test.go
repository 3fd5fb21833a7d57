package runtime_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

type holder struct {
	Exported runtime.Secret
	hidden   runtime.Secret
	pointer  *runtime.Secret
	deep     struct{ list []runtime.Secret }
	byName   map[string]runtime.Secret
	any      any
}

func TestSecretCannotPrint(t *testing.T) {
	const value = "hunter2-hunter2"
	s := runtime.NewSecret(value)
	h := holder{Exported: s, hidden: s, pointer: &s, byName: map[string]runtime.Secret{"a": s}, any: s}
	h.deep.list = []runtime.Secret{s}
	var printed []string
	for _, v := range []any{s, &s, h, &h, []runtime.Secret{s}, map[string]any{"k": s}, [1]runtime.Secret{s}, error(fmt.Errorf("%v", s))} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T", "%p", "%10.3s", "%U"} {
			printed = append(printed, fmt.Sprintf(verb, v))
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		printed = append(printed, string(out), log.String(), fmt.Sprint(v), fmt.Sprintln(v))
	}
	text, err := s.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	printed = append(printed, string(text), s.String(), s.GoString())
	for _, p := range printed {
		for _, leak := range []string{value, "68756e746572", "68756E746572", "104 117"} {
			if strings.Contains(p, leak) {
				t.Errorf("printed %q", p)
			}
		}
	}
	if s.Reveal() != value || s.Empty() || !s.Equal(runtime.NewSecret(value)) || s.Equal(runtime.Secret{}) {
		t.Error("the secret is not what was put in")
	}
	if z := (runtime.Secret{}); !z.Empty() || z.Reveal() != "" || z.String() != "[secret]" || !runtime.NewSecret("").Empty() {
		t.Error("the zero secret is not empty")
	}
}

func TestZeroValuesDeny(t *testing.T) {
	if v := (&runtime.Principal{Scopes: []runtime.Scope{"a.*"}}).Beyond("a.b"); v != nil {
		t.Errorf("within the scopes: %+v", v)
	}
	if v := (&runtime.Principal{}).Beyond("a.b"); v == nil || v.Effect != runtime.EffectDeny || v.Rule != "scope" {
		t.Errorf("beyond the scopes: %+v", v)
	}
	if (&runtime.Principal{}).Permits("a.b") {
		t.Error("the zero principal may do something")
	}
	if c := (&runtime.Credential{}); c.Found() || c.Allows("") || c.Allows("a:443") {
		t.Error("the zero credential may be sent")
	}
	if (runtime.Verdict{}).Effect == runtime.EffectAllow {
		t.Error("the zero verdict allows")
	}
	if runtime.CodeOf(nil) != "" || runtime.CodeOf(errors.New("x")) != runtime.CodeInternal || runtime.CodeOf((*runtime.Error)(nil)) != runtime.CodeInternal {
		t.Error("an error without a code is not internal")
	}
}

func TestEveryCodeHasAStatus(t *testing.T) {
	seen := map[runtime.Code]bool{}
	for _, code := range runtime.Codes() {
		if status := (&runtime.Error{Code: code}).Status(); status < 400 || status > 599 {
			t.Errorf("%s: status %d", code, status)
		}
		if seen[code] {
			t.Errorf("%s twice", code)
		}
		seen[code] = true
	}
	if runtime.AsError(errors.New("x")).Status() != 500 {
		t.Error("an unknown error is not a 500")
	}
}

func TestWriteProblem(t *testing.T) {
	w := httptest.NewRecorder()
	runtime.WriteProblem(w, &runtime.Error{
		Code: runtime.CodeApprovalPending, Reason: runtime.ReasonScope, Msg: "line\r\nKimbap-Evil: 1 é " + strings.Repeat("x", 600),
		Hint: "wait", Err: errors.New("cause"), RequestID: "req_1", Action: "a.b", Rule: "r", ApprovalID: "apr_1", RetryAfter: 1500 * time.Millisecond,
	}, runtime.Asker{})
	h := w.Header()
	if w.Code != 403 || h.Get("Retry-After") != "2" || h.Get("Content-Type") != runtime.ProblemType || h.Get("Cache-Control") != "no-store" {
		t.Errorf("status %d, header %v", w.Code, h)
	}
	if e := h.Get("Kimbap-Error"); len(e) > 512 || !regexp.MustCompile(`^approval_pending: line\?\?[ -~]*$`).MatchString(e) {
		t.Errorf("Kimbap-Error %q", e)
	}
	if strings.Contains(w.Body.String(), "cause") || fmt.Sprint(w.Body.Len()) != h.Get("Content-Length") {
		t.Errorf("body %s", w.Body)
	}
	var p map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"code": "approval_pending", "reason": "scope", "status": 403.0, "action": "a.b", "rule": "r", "title": "approval pending",
		"request_id": "req_1", "approval_id": "apr_1", "hint": "wait", "type": "https://kimbap.run/errors#approval_pending",
	} {
		if p[name] != want {
			t.Errorf("%s: %v, want %v", name, p[name], want)
		}
	}
	w = httptest.NewRecorder()
	runtime.WriteProblem(w, &runtime.Error{Code: runtime.CodeUnauthenticated}, runtime.Asker{})
	if w.Code != 407 || w.Header().Get("Proxy-Authenticate") == "" {
		t.Errorf("status %d without a challenge", w.Code)
	}
	w = httptest.NewRecorder()
	runtime.WriteOwnProblem(w, &runtime.Error{Code: runtime.CodeUnauthenticated})
	if w.Code != 401 || len(w.Header()["Www-Authenticate"]) != 2 || w.Header().Get("Proxy-Authenticate") != "" {
		t.Errorf("of an own page: status %d, %v", w.Code, w.Header())
	}
}

// A client that looks for an error where its own API has it finds one there, with what to do.
func TestARefusalIsAnErrorToTheClientsOfOtherAPIs(t *testing.T) {
	for accept, want := range map[string]string{
		"": runtime.ProblemType, "*/*": runtime.ProblemType, "text/html": runtime.ProblemType,
		"application/json": "application/json", "application/vnd.github.v3+JSON": "application/json",
		"application/json, application/problem+json": runtime.ProblemType,
	} {
		w := httptest.NewRecorder()
		runtime.WriteProblem(w, &runtime.Error{Code: runtime.CodeForbidden, Msg: "no", Hint: "ask"}, runtime.AskerOf(http.Header{"Accept": {accept}}))
		if got := w.Header().Get("Content-Type"); got != want {
			t.Errorf("who accepts %q gets %s, want %s", accept, got, want)
		}
		var p struct {
			Detail, Message string
			Error           struct{ Code, Message string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Detail != "no" || p.Message != "kimbap: no (ask)" ||
			p.Error.Code != "forbidden" || p.Error.Message != p.Message {
			t.Errorf("%s: %v", w.Body, err)
		}
	}
}

// npm prints what stands under error, which is a text in registries.
func TestARefusalIsATextToTheClientsOfRegistries(t *testing.T) {
	for agent, text := range map[string]bool{
		"npm/10.8.2 node/v20.20.2 linux x64 workspaces/false": true, "pnpm/9.1.0 npm/? node/v20.20.2 linux x64": true,
		"yarn/1.22.22 npm/? node/v20.20.2 linux x64": true, "": false, "Stripe/v1 NodeBindings/23.0.0": false, "pinpm/1": false,
	} {
		w := httptest.NewRecorder()
		runtime.WriteProblem(w, &runtime.Error{Code: runtime.CodeForbidden, Msg: "no", Hint: "ask"}, runtime.AskerOf(http.Header{"User-Agent": {agent}}))
		var p struct{ Error any }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || (p.Error == "kimbap: no (ask)") != text {
			t.Errorf("%q gets %s", agent, w.Body)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a.b", true}, {"a", "a", true}, {"a", "ab", false},
		{"github.*", "github.list", true}, {"github.*", "githubx.list", false}, {"github.list-*", "github.list-", true},
		{"*.delete-*", "a.delete-b", true}, {"*.delete-*", "a.list", false}, {"a*b*c", "aXbYc", true}, {"a*b*c", "aXcYb", false},
		{"**", "x", true}, {"*ab", "aab", true}, {"?", "a", false}, {"a.b", "axb", false}, {"A", "a", false}, {"*é", "é", true},
	} {
		if got := runtime.Glob(c.pattern).Match(c.text); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.text, got)
		}
	}
	hard := runtime.Glob(strings.Repeat("*a", 40) + "b")
	if hard.Match(strings.Repeat("a", 4000)) {
		t.Error("matched without its end")
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("a*b", "axxb")
	f.Add("*a*", "bab")
	f.Add("**", "")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 64 || len(text) > 256 {
			return
		}
		reference := func(p, s string) bool {
			matches := make([]bool, len(s)+1) // whether what was read of p matches so many bytes of s
			matches[0] = true
			for i := range len(p) {
				next := make([]bool, len(s)+1)
				for n := range next {
					if p[i] == '*' {
						next[n] = matches[n] || n > 0 && next[n-1]
					} else {
						next[n] = n > 0 && matches[n-1] && p[i] == s[n-1]
					}
				}
				matches = next
			}
			return matches[len(s)]
		}
		if got, want := runtime.Glob(pattern).Match(text), reference(pattern, text); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, text, got, want)
		}
	})
}

func TestIDsSortByTime(t *testing.T) {
	at, ids, seen := time.UnixMilli(1), []string{}, map[string]bool{}
	for i := range 2000 {
		id := runtime.NewID("req", at.Add(time.Duration(i)*997*time.Hour))
		if seen[id] || !regexp.MustCompile(`^req_[0-9a-hjkmnp-tv-z]{26}$`).MatchString(id) {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) {
		t.Error("ids do not sort by time")
	}
	if first, second := runtime.NewID("a", at), runtime.NewID("a", at); first == second {
		t.Error("two ids of one moment are the same")
	}
}

// Every request has an identifier: it is one allocation.
func TestAnIdentifierIsCheap(t *testing.T) {
	at := time.Unix(1, 0)
	if n := testing.AllocsPerRun(100, func() { runtime.NewID("req", at) }); n > 1 {
		t.Errorf("%v allocations for an id", n)
	}
}

// The front of a body is read and sent all the same, and with what follows it.
func TestTheFrontOfABody(t *testing.T) {
	for limit, want := range map[int64]string{2: "123", 4: "12345", 5: "12345", 9: "12345"} {
		var room []int64
		raw := &runtime.Raw{
			Body: strings.NewReader("12345"), ContentLength: -1,
			Room: func(n int64) error { room = append(room, n); return nil },
		}
		front, err := raw.Front(limit)
		if _, whole := raw.Buffered(); err != nil || string(front) != want || whole != (limit >= 5) {
			t.Errorf("%d: %q, whole %t, %v", limit, front, whole, err)
		}
		if room[0] != limit || limit >= 5 && room[len(room)-1] != 5 {
			t.Errorf("%d: room for %d", limit, room)
		}
		if all, err := raw.Buffer(5); err != nil || string(all) != "12345" {
			t.Errorf("%d: %q, %v", limit, all, err)
		}
		if sent, err := io.ReadAll(raw.Body); err != nil || string(sent) != "12345" {
			t.Errorf("%d: what is sent is %q, %v", limit, sent, err)
		}
	}
}

func TestABufferedBodyIsSentWhole(t *testing.T) {
	raw := &runtime.Raw{Body: strings.NewReader("12345"), ContentLength: -1}
	if _, err := raw.Buffer(4); !errors.Is(err, runtime.ErrBodyTooLarge) {
		t.Errorf("five bytes in four: %v", err)
	}
	if rest, err := io.ReadAll(raw.Body); err != nil || string(rest) != "12345" {
		t.Errorf("left of five bytes: %q, %v", rest, err)
	}
	raw = &runtime.Raw{Body: strings.NewReader("12345"), ContentLength: -1}
	for range 2 {
		if got, err := raw.Buffer(5); err != nil || string(got) != "12345" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if sent, err := io.ReadAll(raw.Body); err != nil || string(sent) != "12345" {
		t.Errorf("what is sent is %q, %v", sent, err)
	}
}

package call

import (
	"errors"
	"net/http"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

func TestAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	full := errors.New("no room")
	asked := 0
	a := &Answer{Limit: 8, Free: 4, Room: func() error { asked++; return nil }}
	for _, part := range []string{"1234", "5678"} {
		if _, err := a.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 1 || string(a.Body) != "12345678" {
		t.Errorf("kept %q, asked %d times", a.Body, asked)
	}
	if _, err := a.Write([]byte("9")); err == nil || runtime.AsError(err).Reason != runtime.ReasonBodyTooLarge {
		t.Errorf("over its limit: %v", err)
	}
	a = &Answer{Room: func() error { return full }}
	if _, err := a.Write([]byte("1")); !errors.Is(err, full) {
		t.Errorf("without room: %v", err)
	}
}

// A key that is not accepted is that of the tenant who asked: so is the one to store in its place.
func TestAKeyThatIsNotAcceptedIsOfWhoAsked(t *testing.T) {
	t.Parallel()
	for of, want := range map[runtime.Tenant]string{"": "kimbap link notes", runtime.DefaultTenant: "kimbap link notes", "acme": "kimbap --tenant acme link notes"} {
		answer := &Answer{Status: http.StatusUnauthorized}
		answer.Of(&runtime.Request{ID: "req_1", Tenant: of})
		e := runtime.AsError(Actions{}.UpstreamError(&runtime.Action{Service: "notes"}, nil, answer))
		if e.Hint != want || e.RequestID != "req_1" {
			t.Errorf("%q: %+v", of, e)
		}
	}
}

func TestTheNextPageOfALink(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`<https://api.test/a?page=2>; rel="next"`:                     "https://api.test/a?page=2",
		`</first>; rel=first, </b>; title="x"; REL="prev next", </c>`: "/b",
		`</last>; rel="last"`:                                         "",
		`>broken<`:                                                    "",
		`</a?cursor=0:0:1>; rel="previous"; results="false"; cursor="0:0:1", </a?cursor=0:100:0>; rel="next"; results="true"; cursor="0:100:0"`: "/a?cursor=0:100:0",
		`</a?cursor=0:0:1>; rel="previous"; results="true"; cursor="0:0:1", </a?cursor=0:200:0>; rel="next"; results="false"; cursor="0:200:0"`: "",
	} {
		if got := nextLink(http.Header{"Link": {value}}); got != want {
			t.Errorf("%s leads to %q, not %q", value, got, want)
		}
	}
}

func TestPagesAreJoined(t *testing.T) {
	t.Parallel()
	for want, pages := range map[string][]string{
		`[1,2,3]`:           {`[1,2]`, `[]`, `[3,4]`},
		`[{"a":1},{"a":2}]`: {`{"a":1}`, `{"a":2}`},
		"one\ntwo":          {"one\n", "two"},
		`[]`:                {`[]`},
		`[4]`:               {`null`, `[4]`},
		`[[1, 2],"a]",{}]`:  {` [[1, 2] , "a]"]`, "[]", "\n[{}\n,4]"},
		"one\n[1,2,3]":      {"[1,2]", "one", "[3, 4]"},
		"[1] 2":             {"[1] 2", "[]"},
		"[\"\xff\"]":        {"[\"\xff\"]"},
	} {
		var g gathered
		for _, page := range pages {
			if _, err := g.add([]byte(page), nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := string(g.bytes(3)); got != want {
			t.Errorf("%q became %s", pages, got)
		}
	}
}

// The filter of a program makes less of an answer too, as that of a request does.
func TestTheLimitIsOfTheAnswerBeforeItsFilter(t *testing.T) {
	t.Parallel()
	for want, list := range map[int][]*runtime.Action{
		10: {nil, {}, {HTTP: &runtime.HTTPSpec{}}, {Command: &runtime.CommandSpec{}}},
		40: {{HTTP: &runtime.HTTPSpec{Filter: ".a"}}, {Command: &runtime.CommandSpec{Filter: ".a"}}, {Command: &runtime.CommandSpec{TextFilter: "."}}},
	} {
		for _, action := range list {
			if got := Limit(action, 10); got != want {
				t.Errorf("%+v: %d, want %d", action, got, want)
			}
		}
	}
}

// A file that is no text can be had back as it was.
func TestABinaryAnswerIsKept(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{"\x89PNG\r\n\x1a\n\x00": `{"base64":"iVBORw0KGgoA"}`, "a\x00b": `"a\u0000b"`, "caf\xe9": `"caf` + "\uFFFD" + `"`} {
		got, err := Actions{}.Value(&runtime.Action{}, nil, &Answer{Status: http.StatusOK, Body: []byte(body)})
		if err != nil || got != want {
			t.Errorf("%q became %q (%v)", body, got, err)
		}
	}
}

// Pages take the room that their text takes: what stands for an element is no longer than it.
func TestPagesOfShortElementsTakeLittleRoom(t *testing.T) {
	page := []byte("[" + strings.Repeat("1, ", 1<<18) + "1]")
	held := func() int {
		var of goruntime.MemStats
		goruntime.GC()
		goruntime.ReadMemStats(&of)
		return int(of.HeapAlloc)
	}
	before := held()
	var g gathered
	for range 2 {
		if n, err := g.add(page, nil); n != 1<<18+1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if kept := held() - before; kept > 4*len(page) || g.elements != 2<<18+2 {
		t.Errorf("%d elements of %d bytes take %d", g.elements, 2*len(page), kept)
	}
	if got := string(g.bytes(3)); got != "[1,1,1]" {
		t.Errorf("cut to %.40s", got)
	}
}

func TestAValueIsJSON(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{`{"a":1}`: `{"a":1}`, "": "", "plain": `"plain"`, "\xff": `"` + "\uFFFD" + `"`} {
		got, err := Actions{}.Value(&runtime.Action{}, nil, &Answer{Status: http.StatusOK, Body: []byte(body)})
		if err != nil || got != want {
			t.Errorf("%q became %q (%v)", body, got, err)
		}
	}
	_, err := Actions{}.Value(&runtime.Action{Service: "notes"}, nil, &Answer{Status: http.StatusNotFound, Body: []byte("no\n\tsuch")})
	if e := runtime.AsError(err); err == nil || e.UpstreamStatus != http.StatusNotFound || e.Msg != "notes answered 404 Not Found: no such" {
		t.Errorf("an error of the upstream: %v", err)
	}
}

// What a service says of an error stays readable, line by line, and steers no terminal.
func TestWhatAServiceSaidOfAnErrorIsReadable(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"{\n\t\"error\": 404\n}\n":    "{\n\t\"error\": 404\n}",
		"no\r\nsuch\rnote":            "no\nsuch\uFFFDnote",
		"\x1b[2J\u202egone\u2028\x00": "\uFFFD[2J\uFFFDgone\uFFFD\uFFFD",
	} {
		err := Told(&runtime.Error{Code: runtime.CodeUpstream, Msg: "notes answered 404"}, &Answer{Status: 404, Body: []byte(said)})
		if got := runtime.AsError(err).Err.Error(); got != want {
			t.Errorf("%q became %q, want %q", said, got, want)
		}
	}
}

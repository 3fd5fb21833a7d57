package record_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
)

// A token that stands in the path by the service's design is not recorded, the
// placeholder is: it says whose request it was.
func TestATokenInThePathIsNotRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		path    string
		segment int
		want    string
	}{
		"the placeholder":     {"/bot1234567890:kimbap/send", 1, "/bot1234567890:kimbap/send"},
		"a token":             {"/bot42:hunter2/send?x=1", 1, "/***/send"},
		"a token, encoded":    {"/bot42%3ahunter%32/send", 1, "/***/send"},
		"in a later segment":  {"/file/bot42:hunter2/a/b", 2, "/file/***/a/b"},
		"no prefix":           {"/hunter2/send", 1, "/***/send"},
		"an action without":   {"/about/this", 0, "/about/this"},
		"a path that is less": {"/", 2, "/"},
	} {
		t.Run(name, func(t *testing.T) {
			r := audittest.Record("req_1")
			r.Action = action()
			r.Action.Auth = &runtime.Auth{Type: runtime.AuthPath, Prefix: "bot", Placeholders: map[string]string{"T": "1234567890:kimbap"}}
			r.Action.HTTP = &runtime.HTTPSpec{Segment: c.segment}
			r.Target.Path = c.path
			line, m := written(t, holding(), r)
			if m["path"] != c.want || strings.Contains(line, "hunter") {
				t.Errorf("recorded %v, want %s", m["path"], c.want)
			}
		})
	}
}

// A path that no action of the service has, or one that says nothing of a token, can
// hold one too: a method in another case, another verb. Tokens of bots have a form.
func TestABotTokenIsNotRecordedWhereverItStands(t *testing.T) {
	const token = "123456789:AAFhunter2-hunter2_hunter2-hunter2-"
	for name, c := range map[string]struct{ path, want string }{
		"refused":     {"/bot" + token + "/GETME", "/bot123456789:***/GETME"},
		"with a file": {"/file/bot" + token + "/a.jpg", "/file/bot123456789:***/a.jpg"},
		"at the end":  {"/bot" + token, "/bot123456789:***"},
		"longer":      {"/a:" + token + "x/b", "/a:" + token + "x/b"},
		"no number":   {"/v/x:AAFhonest2-honest2_honest2-honest2-", "/v/x:AAFhonest2-honest2_honest2-honest2-"},
	} {
		t.Run(name, func(t *testing.T) {
			r := audittest.Record("req_1")
			r.Action, r.Target.Path = nil, c.path
			if _, m := written(t, holding(), r); m["path"] != c.want {
				t.Errorf("recorded %v, want %s", m["path"], c.want)
			}
		})
	}
}

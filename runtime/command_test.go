package runtime_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

func TestWordsOfACommand(t *testing.T) {
	spec := &runtime.CommandSpec{
		Fixed: []string{"pr", "list"}, JSONFlag: []string{"-o", "json"},
		Styles: map[string]runtime.Style{
			"repo": runtime.StyleFlag, "max_count": runtime.StyleFlag, "n": runtime.StyleFlag, "label": runtime.StyleFlag,
			"all": runtime.StyleBoolean, "draft": runtime.StyleFlag, "path": runtime.StylePositional, "meta": runtime.StyleFlag,
		},
	}
	var params []runtime.Param
	for _, name := range []string{"path", "repo", "max_count", "n", "label", "all", "draft", "meta"} {
		params = append(params, runtime.Param{Name: name})
	}
	for _, c := range []struct {
		args runtime.Args
		dash bool
		want string // words with "|" between them; "" refused
	}{
		{nil, false, "pr|list|-o|json"},
		{runtime.Args{"repo": "a b", "max_count": json.Number("-5"), "all": true, "draft": false}, false, "pr|list|--repo=a b|--max-count=-5|--all|--draft=false|-o|json"},
		{runtime.Args{"all": false, "label": []any{"x", "-y"}, "path": []any{"a", "b"}}, false, "pr|list|--label=x|--label=-y|-o|json|a|b"},
		{runtime.Args{"meta": map[string]any{"k": "v"}, "n": "7"}, false, `pr|list|-n|7|--meta={"k":"v"}|-o|json`},
		{runtime.Args{"repo": "--exec=sh", "path": "$(id); `id` && x | y > z"}, false, "pr|list|--repo=--exec=sh|-o|json|$(id); `id` && x | y > z"},
		{runtime.Args{"path": "-rf"}, true, "pr|list|-o|json|--|-rf"},
		{runtime.Args{"path": "--"}, true, "pr|list|-o|json|--|--"},
		{runtime.Args{"path": "-rf"}, false, ""},
		{runtime.Args{"path": []any{"a", "--upload-pack=x"}}, false, ""},
		{runtime.Args{"path": json.Number("-1")}, false, ""},
		{runtime.Args{"n": "-x"}, false, ""},
		{runtime.Args{"n": "-x"}, true, ""},
		{runtime.Args{"repo": "a\nb"}, false, ""},
		{runtime.Args{"repo": "a\rb"}, false, ""},
		{runtime.Args{"path": "a\x00b"}, true, ""},
		{runtime.Args{"path": strings.Repeat("x", 200<<10)}, false, ""},
	} {
		spec.Dashes = c.dash
		words, err := spec.Words(params, c.args)
		if c.want == "" {
			if runtime.CodeOf(err) != runtime.CodeInvalidInput {
				t.Errorf("%.60v: %q, %v", c.args, words, err)
			}
			continue
		}
		if want := strings.Split(c.want, "|"); strings.Contains(c.want, "| y") {
			want = []string{"pr", "list", "--repo=--exec=sh", "-o", "json", "$(id); `id` && x | y > z"}
			if !slices.Equal(words, want) {
				t.Errorf("%v: %q, %v", c.args, words, err)
			}
		} else if err != nil || !slices.Equal(words, want) {
			t.Errorf("%v: %q, %v", c.args, words, err)
		}
	}
	if len(spec.Fixed) != 2 {
		t.Error("the words of the action were changed")
	}
}

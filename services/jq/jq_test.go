package jq_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/jq"
)

func TestFilter(t *testing.T) {
	got, err := jq.Filter("map(.n)", []byte(`[{"n":12345678901234567890},{"n":1.5}]`))
	if err != nil || string(got) != "[12345678901234567890,1.5]" {
		t.Errorf("filter: %s %v", got, err)
	}
	for expression, data := range map[string]string{"(": "1", ".x": "[1]", ".": "<html>"} {
		if _, err := jq.Filter(expression, []byte(data)); runtime.CodeOf(err) != runtime.CodeInvalidInput {
			t.Errorf("%s on %s: %v", expression, data, err)
		}
	}
}

func TestFiltersHaveLimits(t *testing.T) {
	for _, expression := range []string{
		"[range(1e10)]", "def f: f; f", "reduce range(60) as $i (\"ab\"; . + .)",
		"reduce range(40) as $i (.; [., .])", "\"xxxx\" * 1e9", "def f: [f]; f", strings.Repeat("[", 100_000),
	} {
		_, err := jq.Filter(expression, []byte("[1]"))
		if runtime.CodeOf(err) != runtime.CodeInvalidInput {
			t.Errorf("%.40s: %v", expression, err)
		}
	}
	for _, expression := range []string{"input", "inputs", `import "a" as a; 1`, `include "a"; 1`, "get_search_list", "$__loc__ | input_filename | error"} {
		if out, err := jq.Filter(expression, []byte("1")); err == nil && !bytes.Equal(out, []byte("null")) {
			t.Errorf("%s gives %s", expression, out)
		}
	}
	t.Setenv("KIMBAP_TEST", "seen")
	for _, expression := range []string{"env", "$ENV"} {
		if out, err := jq.Filter(expression, []byte("1")); err != nil || string(out) != "{}" {
			t.Errorf("%s gives %s, %v", expression, out, err)
		}
	}
}

package agents_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/runner/agents"
)

// What is wrong with a file of settings is said, whether a reader of JSON minds it or we do.
func TestWhatIsNoObjectIsSaid(t *testing.T) {
	claude, ok := agents.Find("claude")
	if !ok {
		t.Fatal("there is no claude")
	}
	for have, want := range map[string]string{
		`[1]`: "it begins with [", `{} {}`: "{ follows it", `{} x`: "invalid character 'x'", `{"env"`: "EOF",
		`{"env": null, "model": "opus"}`: "its env is no object", `{"env": "A=b"}`: "its env is no object", `{"env": [1]}`: "its env is no object",
	} {
		_, _, err := agents.Put(claude, have, []runner.Variable{{Name: "A", Value: "b"}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", have, err)
		}
	}
}

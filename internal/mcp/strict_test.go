package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A value that a strict reader of JSON refuses would take the whole answer from its client:
// half of a surrogate pair is replaced, and what is too deep or too large comes as text alone.
func TestAnAnswerIsOneThatStrictClientsRead(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for value, want := range map[string]string{
		`"ab\ud83d"`:                               `"ab\ufffd"`,
		`"\uDE00\ud83d\ude00\ud83d"`:               `"\ufffd\ud83d\ude00\ufffd"`,
		`"\ud83d\ud83d\ude00"`:                     `"\ufffd\ud83d\ude00"`,
		`"\ud83dx\ude00"`:                          `"\ufffdx\ufffd"`,
		`{"\ud800":1}`:                             `{"\ufffd":1}`,
		`"\\ud800\u00e9"`:                          `"\\ud800\u00e9"`,
		`["\\",-1.5e300,"1e999[["]`:                `["\\",-1.5e300,"1e999[["]`,
		`0.` + strings.Repeat("3", 400):            `0.` + strings.Repeat("3", 400),
		deep(maxDepth - 1):                         deep(maxDepth - 1),
		deep(maxDepth):                             "",
		`[1e400]`:                                  "",
		`{"a":-1` + strings.Repeat("0", 400) + `}`: "",
	} {
		got, err := answered(Answer{Status: 200, Value: json.RawMessage(value)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		text := got.Content[0].(*sdk.TextContent).Text
		if want == "" {
			if got.StructuredContent != nil || text != value {
				t.Errorf("%.80s: %.80s and the text %.80s", value, got.StructuredContent, text)
			}
			continue
		}
		if body, _ := got.StructuredContent.(json.RawMessage); string(body) != `{"result":`+want+`,"status":200}` {
			t.Errorf("%.80s: %.80s", value, body)
		}
	}
	got, err := executed(Execution{Body: map[string]any{"value": json.RawMessage(`"\ud800"`)}}, nil)
	if err != nil || got.Content[0].(*sdk.TextContent).Text != `{"value":"\ufffd"}` {
		t.Errorf("of a script: %+v %v", got, err)
	}
}

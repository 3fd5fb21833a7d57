package mcp

import (
	"encoding/json"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a model reads that gets the text alone. A service that has nothing to say, as after
// a delete, has said that it was done.
func TestWhatIsReadOfAnAnswer(t *testing.T) {
	for _, c := range []struct {
		of         Answer
		text, body string
	}{
		{Answer{Status: 204}, "done: status 204, no content", `{"result":null,"status":204}`},
		{Answer{Status: 200, Value: json.RawMessage("null")}, "null", `{"result":null,"status":200}`},
		{Answer{Status: 200, Value: json.RawMessage(`"gone"`)}, "gone", `{"result":"gone","status":200}`},
		{Answer{Status: 201, Value: json.RawMessage(`{"id":7}`)}, `{"id":7}`, `{"result":{"id":7},"status":201}`},
	} {
		got, err := answered(c.of, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(got.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		if text := got.Content[0].(*sdk.TextContent).Text; text != c.text || string(body) != c.body {
			t.Errorf("%d %s: text %q and %s", c.of.Status, c.of.Value, text, body)
		}
	}
}

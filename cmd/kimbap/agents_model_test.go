//go:build agents

package main

import (
	"encoding/json"
	"strings"
)

// What the model of `make agents` asks for: one request that policy allows, one that it
// denies, and a placeholder, as agents send what env prints to their models.
const (
	codeHost  = "api.github.com"
	codeKey   = "real-key-of-github"
	modelRuns = `curl -sS https://api.github.com/user; curl -sS -d '{"key":"x"}' https://api.github.com/repos/o/r/keys; echo; echo "$GITHUB_TOKEN"`
)

// What a turn wants of the model.
const (
	wantsCommand = "a command"  // its first
	wantsAnswer  = "an answer"  // the agent has told what the command said
	wantsWords   = "some words" // there are no tools: a title, or the like
)

// turnWants tells from the conversation that the agent sent.
func turnWants(body string) string {
	has := func(words ...string) bool {
		for _, word := range words {
			if strings.Contains(body, word) {
				return true
			}
		}
		return false
	}
	switch {
	case has(`"tool_result"`, `call_output"`, `"functionResponse"`):
		return wantsAnswer
	case has(`"Bash"`, `exec_command`, `"run_shell_command"`):
		return wantsCommand
	}
	return wantsWords
}

// quoted is a text in JSON.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func anthropicTurn(body string) []string {
	if turnWants(body) == wantsCommand {
		return []string{
			`{"type":"message_start","message":{"id":"msg_0","type":"message","role":"assistant","model":"stub","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":` + quoted(`{"description":"try","command":`+quoted(modelRuns)+`}`) + `}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":2}}`,
			`{"type":"message_stop"}`,
		}
	}
	return []string{
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"stub","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + spoken + `"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}`,
		`{"type":"message_stop"}`,
	}
}

func openaiTurn(body string) []string {
	item := `{"type":"message","role":"assistant","id":"msg_1","status":"completed","content":[{"type":"output_text","text":"` + spoken + `","annotations":[]}]}`
	switch {
	case turnWants(body) != wantsCommand:
	case strings.Contains(body, `"additional_tools"`): // newer models write a script that uses tools
		item = `{"type":"custom_tool_call","id":"ct_1","call_id":"call_1","name":"exec","namespace":"functions","input":` +
			quoted(`text(JSON.stringify(await tools.exec_command({cmd: `+quoted(modelRuns)+`})))`) + `}`
	default:
		item = `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"exec_command","arguments":` + quoted(`{"cmd":`+quoted(modelRuns)+`}`) + `}`
	}
	return []string{
		`{"type":"response.created","response":{"id":"resp_1"}}`,
		`{"type":"response.output_item.done","output_index":0,"item":` + item + `}`,
		`{"type":"response.completed","response":{"id":"resp_1","output":[` + item + `],"usage":{"input_tokens":1,"input_tokens_details":null,"output_tokens":1,"output_tokens_details":null,"total_tokens":2}}}`,
	}
}

func geminiTurn(body string) []string {
	if turnWants(body) == wantsCommand {
		return []string{`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"run_shell_command","args":{"description":"try","command":` + quoted(modelRuns) +
			`}}}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2},"modelVersion":"stub"}`}
	}
	return []string{`{"candidates":[{"content":{"role":"model","parts":[{"text":"` + spoken + `"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2},"modelVersion":"stub"}`}
}

// wholeTurn is a turn that is not streamed.
func wholeTurn(host string) string {
	switch host {
	case "api.anthropic.com":
		return `{"id":"msg_1","type":"message","role":"assistant","model":"stub","content":[{"type":"text","text":"` + spoken + `"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`
	case "api.openai.com":
		return `{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message","role":"assistant","id":"msg_1","content":[{"type":"output_text","text":"` + spoken + `"}]}]}`
	}
	return geminiTurn("")[0]
}

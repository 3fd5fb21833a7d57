package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/internal/object"
	"github.com/kimbap-run/kimbap/runtime"
)

// maxWait is the longest that a tool waits for a person. Clients give up on a tool
// after a minute or some, so that polling is the rule.
const maxWait = 5 * time.Minute

// What one search tells of: the most, and when it says nothing.
const (
	maxFound   = 100
	usualFound = 10
)

// maxTimeout is the most that a script may ask for; the runner has a limit of its own.
const maxTimeout = time.Hour

// one is a tool: what clients are told of it, and what it does.
type one struct {
	name, title, about string
	fields             string // JSON Schema of its arguments, by name
	required           string // the one that it cannot do without; "": none
	looks              bool   // it only looks at what is installed here
	do                 func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error)
}

const waitSchema = `"wait":{"type":"number","minimum":0,"maximum":300,"description":"seconds to wait for a person when one must decide; default 0: answer at once that it is pending"}`

func (s *Server) tools() []one {
	return []one{
		{
			name: "search", title: "Find actions", looks: true, do: s.search,
			about:  "Find actions of the installed services by words. Answers name, description, risk and whether a person must approve.",
			fields: `"query":{"type":"string","description":"words such as: list pull requests, at most 1000 bytes; empty: all"},"limit":{"type":"integer","minimum":1,"maximum":100},"offset":{"type":"integer","minimum":0}`,
		}, {
			name: "describe", title: "Show an action or a service", looks: true, do: s.describe,
			about:    "Show an action's arguments as JSON Schema and TypeScript, with risk and approval; or, for the name of a service, how to use it.",
			required: "name", fields: `"name":{"type":"string","description":"service.action, or a service"}`,
		}, {
			name: "call", title: "Do an action", do: s.call,
			about:    "Do one action. The credential is added on the way. When a person must decide, the answer has pending with an approval id: poll resume with it.",
			required: "action", fields: `"action":{"type":"string","description":"service.action"},"args":{"type":"object","description":"the action's arguments; see describe"},` + waitSchema,
		}, {
			name: "execute", title: "Run a script", do: s.execute,
			about:    "Run JavaScript or TypeScript whose only capability is tools: await tools.SERVICE.ACTION({…}), tools.search({query}), tools.describe.tool({path}). One script instead of many calls. Return a value.",
			required: "code", fields: `"code":{"type":"string","description":"the script, at most 64 KiB"},"allow":{"type":"array","minItems":1,"maxItems":100,"items":{"type":"string"},"description":"patterns of the actions it may use, beside what you may: github.list-*"},"timeoutMs":{"type":"integer","minimum":0},` + waitSchema,
		}, {
			name: "resume", title: "Go on after an approval", do: s.resume,
			about:    "Ask for what waits for a person: the approval id (apr_…) of a call, or the execution id (exe_…) of a script. It goes on once when they have said yes; until then the answer is pending again.",
			required: "id", fields: `"id":{"type":"string","description":"apr_… or exe_…"},` + waitSchema,
		},
	}
}

// tool is what clients are told. Annotations of what acts depend on who asks, and
// are added then.
func (t *one) tool() *sdk.Tool {
	schema := `{"type":"object","additionalProperties":false,"properties":{` + t.fields + `}`
	if t.required != "" {
		schema += `,"required":["` + t.required + `"]`
	}
	out := &sdk.Tool{Name: t.name, Title: t.title, Description: t.about, InputSchema: json.RawMessage(schema + "}")}
	if t.looks {
		no := false
		out.Annotations = &sdk.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &no, IdempotentHint: true, OpenWorldHint: &no}
	}
	return out
}

func (s *Server) search(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	in := struct {
		Query  string       `json:"query"`
		Limit  object.Whole `json:"limit"`
		Offset object.Whole `json:"offset"`
	}{Limit: usualFound}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.Limit < 1 || in.Limit > maxFound {
		return nil, invalid(fmt.Sprintf("limit is not from 1 to %d", maxFound), `leave limit out for 10; with offset it goes on: {"limit": 100, "offset": 100}`)
	}
	if in.Offset < 0 {
		return nil, invalid("offset is negative", "leave offset out, or write how many of the best to leave out")
	}
	found, err := s.o.Search(ctx, s.caller(r.Extra), Search{Query: in.Query, Limit: int(in.Limit), Offset: int(min(in.Offset, math.MaxInt32))})
	return structured(found, "", err)
}

func (s *Server) describe(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var in struct {
		Name string `json:"name"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.Name == "" {
		return nil, invalid("name is missing", `{"name": "service.action"}, or a service; search finds one`)
	}
	about, err := s.o.Describe(ctx, s.caller(r.Extra), in.Name)
	return structured(about, "", err)
}

func (s *Server) call(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var in struct {
		Action string       `json:"action"`
		Args   runtime.Args `json:"args"`
		Wait   seconds      `json:"wait"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.Action == "" {
		return nil, invalid("action is missing", `{"action": "service.action", "args": {…}}; search finds one`)
	}
	if in.Args == nil {
		in.Args = runtime.Args{}
	}
	answer, err := s.o.Call(ctx, s.caller(r.Extra), Call{
		Action: in.Action, Args: in.Args, Wait: time.Duration(in.Wait),
		Pending: s.noticing(ctx, r.Session, in.Action),
	})
	return answered(answer, err)
}

func (s *Server) execute(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var in struct {
		Code      string       `json:"code"`
		Allow     []string     `json:"allow"`
		TimeoutMs object.Whole `json:"timeoutMs"`
		Wait      seconds      `json:"wait"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.Code == "" {
		return nil, invalid("code is missing: there is no script", `{"code": "return await tools.github.getUser()"}`)
	}
	if in.TimeoutMs < 0 {
		return nil, invalid("timeoutMs is negative", "leave timeoutMs out, or write milliseconds")
	}
	if in.Allow != nil && len(in.Allow) == 0 {
		return nil, invalid("allow is empty", `name what it may use, or leave it out for all that you may: {"allow": ["github.list-*"]}`)
	}
	e, err := s.o.Execute(ctx, s.caller(r.Extra), Script{
		Code: in.Code, Allow: in.Allow, Wait: time.Duration(in.Wait),
		Timeout: time.Duration(min(int64(in.TimeoutMs), maxTimeout.Milliseconds())) * time.Millisecond,
		Pending: s.noticing(ctx, r.Session, aScript),
	})
	return executed(e, err)
}

func (s *Server) resume(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var in struct {
		ID   string  `json:"id"`
		Wait seconds `json:"wait"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.ID == "" {
		return nil, invalid("id is missing", `{"id": "apr_…"} or {"id": "exe_…"}: approvalId or executionId of the answer that was pending`)
	}
	if strings.HasPrefix(in.ID, "exe_") {
		return executed(s.o.Resume(ctx, s.caller(r.Extra), Resumption{ID: in.ID, Wait: time.Duration(in.Wait), Pending: s.noticing(ctx, r.Session, aScript)}))
	}
	answer, err := s.o.Collect(ctx, s.caller(r.Extra), Resumption{ID: in.ID, Wait: time.Duration(in.Wait), Pending: s.noticing(ctx, r.Session, "a redirect of "+in.ID)})
	if e := runtime.AsError(err); e != nil && e.Reason == runtime.ReasonNotFound {
		told := *e // there is no list of approvals here, as there is over REST
		told.Ask = `give "id" as approvalId or executionId of the pending answer had it: "apr_…" or "exe_…"`
		err = &told
	}
	return answered(answer, err)
}

// seconds is a time as clients write it.
type seconds time.Duration

// UnmarshalJSON implements [json.Unmarshaler].
func (d *seconds) UnmarshalJSON(data []byte) error {
	var n float64
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	if !(n >= 0 && n <= maxWait.Seconds()) {
		return errors.New("wait is negative or over 300 seconds")
	}
	*d = seconds(n * float64(time.Second))
	return nil
}

// Takes implements [object.Kind].
func (*seconds) Takes() string { return "seconds, a number from 0 to 300" }

// words are those of what is wrong with the arguments of a tool.
var words = object.Words{
	Not: "the arguments of the tool are not understood", None: "there are none", See: "see the tool's inputSchema",
}

// read reads the arguments of a tool: one strict object, numbers as they are written. Some
// clients write null, or nothing, for none.
func read(r *sdk.CallToolRequest, into any) error {
	data := r.Params.Arguments
	if len(data) == 0 || string(data) == "null" {
		data = json.RawMessage("{}")
	}
	err := words.Read(data, into)
	if e := (*runtime.Error)(nil); errors.As(err, &e) {
		e.Stage = runtime.StageSurface
	}
	return err
}

func invalid(msg, hint string) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Stage: runtime.StageSurface, Msg: msg, Hint: hint}
}

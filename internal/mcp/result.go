package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/runtime"
)

// handler bounds a tool, and makes a result of its errors: a model reads those of
// tools, while those of the protocol stay with the client.
func (s *Server) handler(do sdk.ToolHandler) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (result *sdk.CallToolResult, _ error) {
		defer func() {
			if broken := recover(); broken != nil {
				s.o.Log.Error().Interface("panic", broken).Msg("a tool failed")
				result = failed(&runtime.Error{Code: runtime.CodeInternal, Msg: "kimbap failed to handle the request", Hint: "see the log of the kimbap process"})
			}
		}()
		leave, err := s.enter(ctx, r)
		if err != nil {
			return failed(runtime.AsError(err)), nil
		}
		defer until(ctx, leave)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.life, cancel)()
		result, err = do(ctx, r)
		if err != nil {
			e := runtime.AsError(err)
			if e.Code == runtime.CodeInternal {
				s.o.Log.Error().Err(e).Str("tool", r.Params.Name).Msg("a tool failed")
			}
			return failed(e), nil
		}
		return result, nil
	}
}

// structured is a value as structured content and as text; text "": its JSON. What strict
// clients would not read is text alone.
func structured(value any, text string, err error) (*sdk.CallToolResult, error) {
	if err != nil {
		return nil, err
	}
	var whole bytes.Buffer
	encoder := json.NewEncoder(&whole)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	body := bytes.TrimSpace(whole.Bytes())
	paired(body)
	if text == "" {
		text = string(body)
	}
	result := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	if strict(body) {
		result.StructuredContent = json.RawMessage(body)
	}
	return result, nil
}

// pending is the answer of what waits for a person.
type pending struct {
	Approval  string      `json:"approvalId"`
	Execution string      `json:"executionId,omitempty"`
	Action    runtime.Ref `json:"action,omitempty"`
	Message   string      `json:"message,omitempty"`
	RequestID string      `json:"requestId,omitempty"`
	Expires   *time.Time  `json:"expiresAt,omitempty"`
	Decide    string      `json:"decide"` // for the person
	Next      string      `json:"next"`   // for the caller
}

func waiting(approval, resume string, until time.Time) pending {
	p := pending{
		Approval: approval, Decide: "kimbap approve show " + approval,
		Next: fmt.Sprintf("call resume with {\"id\": %q}, now and then, until it is not pending; wait waits in it", resume),
	}
	if !until.IsZero() {
		p.Expires = &until
	}
	return p
}

func (p *pending) text() string {
	until := ""
	if p.Expires != nil {
		until = ", until " + p.Expires.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("pending: a person must decide (approval %s%s). They see it with: %s\nnext: %s", p.Approval, until, p.Decide, p.Next)
}

// answered is the result of an action.
func answered(a Answer, err error) (*sdk.CallToolResult, error) {
	if e := runtime.AsError(err); e != nil && e.Code == runtime.CodeApprovalPending {
		p := waiting(e.ApprovalID, e.ApprovalID, a.Expires)
		p.Action, p.Message, p.RequestID = e.Action, e.Msg, e.RequestID
		return structured(map[string]any{"pending": p}, p.text(), nil)
	}
	value := a.Value
	text, plain := string(value), ""
	switch {
	case len(value) == 0: // which a model that gets the text alone could take for a failure
		value, text = json.RawMessage("null"), fmt.Sprintf("done: status %d, no content", a.Status)
	case json.Unmarshal(value, &plain) == nil && value[0] == '"':
		text = plain
	}
	return structured(map[string]any{"status": a.Status, "result": value}, text, err)
}

// executed is the result of a script.
func executed(e Execution, err error) (*sdk.CallToolResult, error) {
	body, text := e.Body, e.Text
	if e.Approval != "" && err == nil {
		p := waiting(e.Approval, e.ID, e.Expires)
		p.Execution, text = e.ID, p.text()
		body, err = beside(body, p)
	}
	result, err := structured(body, text, err)
	if err == nil {
		result.IsError = e.Failed
	}
	return result, err
}

// beside is what is told of a script that waits, with pending as of an action: a client that
// shows structured content alone would show no way on.
func beside(body any, p pending) (map[string]json.RawMessage, error) {
	var parts map[string]json.RawMessage
	text, err := json.Marshal(body)
	if err == nil {
		err = json.Unmarshal(text, &parts)
	}
	if err == nil {
		parts["pending"], err = json.Marshal(p)
	}
	return parts, err
}

// failed is the result of what was refused, or went wrong.
func failed(e *runtime.Error) *sdk.CallToolResult {
	said := e.Problem()
	if said.Hint = hint(e); e.Code == runtime.CodeUnauthenticated {
		said.Status = http.StatusUnauthorized // 407 is for proxies
	}
	text := string(e.Code) + ": " + e.Msg
	if said.Hint != "" {
		text += "\nhint: " + said.Hint
	}
	for _, part := range [][2]string{{"rule", e.Rule}, {"request", e.RequestID}} {
		if part[1] != "" {
			text += "\n" + part[0] + ": " + part[1]
		}
	}
	problem, err := json.Marshal(map[string]any{"error": said})
	if err != nil { // cannot be: strings and numbers
		problem = []byte("{}")
	}
	return &sdk.CallToolResult{
		IsError: true, StructuredContent: json.RawMessage(problem),
		Content: []sdk.Content{&sdk.TextContent{Text: strings.ToValidUTF8(text, "\uFFFD")}},
	}
}

// hint is what to do next where there are tools, and no commands, pages of the REST API or
// addresses of a proxy.
func hint(e *runtime.Error) string {
	describe := "kimbap actions describe " + string(e.Action)
	switch {
	case e.Action != "" && strings.HasSuffix(e.Hint, describe):
		return strings.TrimSuffix(e.Hint, describe) + fmt.Sprintf(`describe {"name": %q}`, e.Action)
	case e.Code == runtime.CodeUnknownAction && e.Ask != "":
		return `search finds it: {"query": "…"}`
	case e.Code == runtime.CodeUnauthenticated && strings.Contains(e.Hint, "proxy URL"):
		return "show another token: in KIMBAP_TOKEN of kimbap mcp, over HTTP as Authorization: Bearer TOKEN; the owner makes one with: kimbap token create --agent NAME --scope GLOB"
	}
	return cmp.Or(e.Ask, e.Hint)
}

// noticeLasts bounds how long a client may show a notice.
const noticeLasts = maxWait

// aScript is what a notice calls one.
const aScript = "a script"

// noticing is notice of whatever what asks.
func (s *Server) noticing(ctx context.Context, session *sdk.ServerSession, what string) func(id string, until time.Time) {
	return func(id string, until time.Time) { s.notice(ctx, session, what, id, until) }
}

// notice has the client show that a person must decide, where it can. It waits for
// nothing, and whatever is answered there decides nothing.
func (s *Server) notice(ctx context.Context, session *sdk.ServerSession, what, id string, until time.Time) {
	asked := session.InitializeParams()
	if s.o.RequireToken || asked == nil || asked.Capabilities == nil || asked.Capabilities.Elicitation == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noticeLasts)
	stop := context.AfterFunc(s.life, cancel)
	s.notices.Go(func() {
		defer cancel()
		defer stop()
		_, err := session.Elicit(ctx, &sdk.ElicitParams{
			Message: fmt.Sprintf("kimbap: %s needs your decision (approval %s, until %s). This is only a notice, and its answer decides nothing: look at it with kimbap approve show %s",
				what, id, until.Local().Format(time.DateTime), id),
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
		})
		if err != nil {
			s.o.Log.Debug().Err(err).Msg("notice not shown")
		}
	})
}

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// longest is what one request may wait for a person.
const longest = "1h"

// Call is an action that is asked for.
type Call struct {
	Input  runtime.Args `json:"input"`
	Wait   string       `json:"wait,omitempty"`
	DryRun bool         `json:"dry_run,omitempty"`
	All    bool         `json:"all,omitempty"`
	Max    int          `json:"max,omitempty"`
	Raw    bool         `json:"raw"`
}

// Action asks what an action is.
func (c *Client) Action(ctx context.Context, ref string) (*runtime.Action, error) {
	data, err := c.Do(ctx, http.MethodGet, actionPath(ref), nil)
	if err != nil {
		return nil, err
	}
	var d runtime.Described
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&d); err != nil {
		return nil, err
	}
	return d.Told(), nil
}

func actionPath(ref string) string {
	service, action, _ := strings.Cut(ref, ".")
	return "/v1/actions/" + url.PathEscape(service) + "/" + url.PathEscape(action)
}

// Execute does an action and returns its answer's bytes. With patience it waits for
// a person as long as the question is open, or ctx.
func (c *Client) Execute(ctx context.Context, ref string, call Call, patience bool) ([]byte, error) {
	if call.Raw = !call.DryRun; patience {
		call.Wait = longest
	}
	body, err := c.Do(ctx, http.MethodPost, actionPath(ref)+":execute", call)
	if e := runtime.AsError(err); err != nil && patience && e.Code == runtime.CodeApprovalPending && e.ApprovalID != "" {
		return c.Collect(ctx, e.ApprovalID)
	}
	return body, err
}

// Collect waits for the decision on an approval that the caller asked for, and
// returns the answer of its request.
func (c *Client) Collect(ctx context.Context, id string) ([]byte, error) {
	for {
		body, err := c.Do(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(id)+":result", map[string]any{"wait": longest, "raw": true})
		if err == nil || runtime.CodeOf(err) != runtime.CodeApprovalPending {
			return body, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

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

// mostSaid is the longest request that is taken elsewhere, in bytes.
const mostSaid = 512 << 10

// ErrUnsaid in the chain of an error says that a call cannot be put into a request to a
// kimbap elsewhere, and that nothing was sent.
var ErrUnsaid = errors.New("it cannot be said in a request")

// unsaid is why a call cannot be sent: JSON has no bytes that are no text, and would have
// others in their place.
func (c *Call) unsaid() error {
	refused := &runtime.Error{Code: runtime.CodeInvalidInput, Hint: "do it where that kimbap runs, or send the request itself through its proxy", Err: ErrUnsaid}
	if !text(map[string]any(c.Input)) {
		refused.Msg = "an argument is not text (UTF-8), and a kimbap elsewhere takes nothing else"
		return refused
	}
	data, err := json.Marshal(c)
	if err == nil && len(data) > mostSaid {
		refused.Reason, refused.Msg = runtime.ReasonBodyTooLarge, "the arguments are over 512 KiB, and a kimbap elsewhere takes no more"
		return refused
	}
	return err
}

// text reports whether all texts of a value are UTF-8.
func text(value any) bool {
	switch v := value.(type) {
	case string:
		return utf8.ValidString(v)
	case []any:
		for _, one := range v {
			if !text(one) {
				return false
			}
		}
	case map[string]any:
		for name, one := range v {
			if !utf8.ValidString(name) || !text(one) {
				return false
			}
		}
	}
	return true
}

// Action asks what an action is.
func (c *Client) Action(ctx context.Context, ref string) (*runtime.Action, error) {
	data, err := c.again(ctx, func() ([]byte, error) { return c.Do(ctx, http.MethodGet, actionPath(ref), nil) })
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
	if err := call.unsaid(); err != nil {
		return nil, err
	}
	body, err := c.again(ctx, func() ([]byte, error) { return c.Do(ctx, http.MethodPost, actionPath(ref)+":execute", call) })
	if e := runtime.AsError(err); err != nil && patience && e.Code == runtime.CodeApprovalPending && e.ApprovalID != "" {
		return c.Collect(ctx, e.ApprovalID)
	}
	return body, err
}

// Collect waits for the decision on an approval that the caller asked for, and
// returns the answer of its request.
func (c *Client) Collect(ctx context.Context, id string) ([]byte, error) {
	for {
		body, err := c.again(ctx, func() ([]byte, error) {
			return c.Do(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(id)+":result", map[string]any{"wait": longest, "raw": true})
		})
		if err == nil || runtime.CodeOf(err) != runtime.CodeApprovalPending {
			return body, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// Script runs a script or, with the id of an execution, goes on with that. Body is what the
// page takes, and the answer how it stands.
func (c *Client) Script(ctx context.Context, id string, body any) ([]byte, error) {
	path := "/v1/exec"
	if id != "" {
		path += "/" + url.PathEscape(id) + "/resume"
	}
	return c.again(ctx, func() ([]byte, error) { return c.Do(ctx, http.MethodPost, path, body) })
}

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime"
)

// How long one request waits for a person: on a socket all the time that it may, and where
// others may stand between less than any of them waits for an answer. nginx ends a silent
// request after 60 seconds, and HAProxy mostly after 30 or 50. And nginx 1.22 can take an
// interim answer for the answer, so no wait is asked for that would have one.
const (
	longest = time.Hour
	oneTurn = 10 * time.Second // a script may wait for two people in one request
)

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
// a person as long as the question is open, or ctx: where others may stand between, with
// requests that do nothing else. The pages of a list come from one request all the same,
// since what a person decides later is one of them alone.
func (c *Client) Execute(ctx context.Context, ref string, call Call, patience bool) ([]byte, error) {
	if call.Raw = !call.DryRun; patience && (c.socket || call.All || call.Max > 0) {
		call.Wait = longest.String()
	}
	if err := call.unsaid(); err != nil {
		return nil, err
	}
	body, err := c.again(ctx, func() ([]byte, error) { return c.Do(ctx, http.MethodPost, actionPath(ref)+":execute", call) })
	if e := runtime.AsError(err); err != nil && patience && e.Code == runtime.CodeApprovalPending && e.ApprovalID != "" {
		c.tell(ctx, e.ApprovalID)
		return c.Collect(ctx, e.ApprovalID)
	}
	return body, err
}

// Collect waits for the decision on an approval that the caller asked for, and
// returns the answer of its request. What that redirects to may need a decision too.
func (c *Client) Collect(ctx context.Context, id string) ([]byte, error) {
	turn := oneTurn
	if c.socket {
		turn = longest
	}
	for {
		began := time.Now()
		body, err := c.again(ctx, func() ([]byte, error) {
			return c.Do(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(id)+":result", map[string]any{"wait": turn.String(), "raw": true})
		})
		if err == nil || runtime.CodeOf(err) != runtime.CodeApprovalPending {
			return body, err
		}
		if next := runtime.AsError(err).ApprovalID; next != "" && next != id {
			id = next
			c.tell(ctx, id)
		}
		if err := c.slowly(ctx, began); err != nil {
			return nil, err
		}
	}
}

// slowly waits a second from the begin of a request: who says that nobody has decided without
// waiting for it is not asked all the time.
func (c *Client) slowly(ctx context.Context, began time.Time) error {
	if left := time.Second - time.Since(began); left > 0 {
		select {
		case <-c.after(left):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// Script runs a script or, with the id of an execution, goes on with that, and waits so long
// for a person, on a socket for all whom it asks, else for each at least. Body is what else the
// page takes, and the answer how it stands.
func (c *Client) Script(ctx context.Context, id string, body map[string]any, wait time.Duration) ([]byte, error) {
	left, question, turn := wait, "", wait
	if !c.socket {
		turn = min(turn, 0) // who is asked is heard of at once
	}
	for {
		began := time.Now()
		data, err := c.script(ctx, id, body, turn)
		var stands struct {
			Paused *struct {
				ExecutionID string `json:"executionId"`
				ApprovalID  string `json:"approvalId"`
			} `json:"paused"`
		}
		if err != nil || wait <= 0 || c.socket || json.Unmarshal(data, &stands) != nil || stands.Paused == nil {
			return data, err
		}
		if left -= turn; question != stands.Paused.ApprovalID {
			question, left = stands.Paused.ApprovalID, wait
		}
		if left <= 0 {
			return data, nil
		}
		if turn > 0 {
			if err := c.slowly(ctx, began); err != nil {
				return nil, err
			}
		}
		id, body, turn = stands.Paused.ExecutionID, nil, min(left, oneTurn)
		if told, is := ctx.Value(pausingKey{}).(func(string)); is {
			told(id)
		}
	}
}

// script is one request of Script.
func (c *Client) script(ctx context.Context, id string, body map[string]any, wait time.Duration) ([]byte, error) {
	said := map[string]any{"wait": wait.String()}
	maps.Copy(said, body)
	path := "/v1/exec"
	if id != "" {
		path += "/" + url.PathEscape(id) + "/resume"
	}
	return c.again(ctx, func() ([]byte, error) { return c.Do(ctx, http.MethodPost, path, said) })
}

package remote

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"sync"
	"time"
)

// fieldInterim asks for interim answers, which nobody gets who does not ask.
const fieldInterim = "Kimbap-Interim"

// listens reports whether somebody is told of interim answers in a context.
func listens(ctx context.Context) bool {
	return ctx.Value(waitingKey{}) != nil || ctx.Value(pausingKey{}) != nil
}

type waitingKey struct{}

// waiting tells of a question once.
type waiting struct {
	told func(approval string, until time.Time)

	mu   sync.Mutex
	last string
}

// tell may be called by the reader of a connection.
func (w *waiting) tell(id string, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id != w.last {
		w.last = id
		w.told(id, until)
	}
}

func (w *waiting) knows(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return id == w.last
}

// Waiting returns a context in which told is called when the other side waits for a
// person: it says so in an interim answer (102), or that nobody has decided yet.
func Waiting(ctx context.Context, told func(approval string, until time.Time)) context.Context {
	w := &waiting{told: told}
	ctx = context.WithValue(ctx, waitingKey{}, w)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		until, err := time.Parse(time.RFC3339, header.Get("Kimbap-Approval-Until"))
		if id := header.Get("Kimbap-Approval"); code == http.StatusProcessing && err == nil && id != "" {
			w.tell(id, until)
		}
		return nil
	}})
}

// tell says what is waited for, if nobody has: the zero time is one that is not known.
func (c *Client) tell(ctx context.Context, id string) {
	w, is := ctx.Value(waitingKey{}).(*waiting)
	if !is || w.knows(id) {
		return
	}
	var question struct {
		Expires time.Time `json:"expires"`
	}
	data, err := c.again(ctx, func() ([]byte, error) { return c.Do(ctx, http.MethodGet, "/v1/approvals/"+url.PathEscape(id), nil) })
	if err == nil {
		_ = json.Unmarshal(data, &question)
	}
	w.tell(id, question.Expires)
}

type pausingKey struct{}

// Pausing returns a context in which told is called when a script at the other side waits
// for a person, perhaps more than once for the same.
func Pausing(ctx context.Context, told func(execution string)) context.Context {
	ctx = context.WithValue(ctx, pausingKey{}, told)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		if id := header.Get("Kimbap-Execution"); code == http.StatusProcessing && id != "" {
			told(id)
		}
		return nil
	}})
}

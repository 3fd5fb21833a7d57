package server

import (
	"context"
	"testing"
	"time"
)

// A request with a key goes on without its caller, and has time for the longest wait and for
// what is done after it; but no more than its key is kept, or it would be begun again.
func TestARequestWithAKeyHasTimeBehindTheLongestWait(t *testing.T) {
	var left time.Duration
	client, base := open(t, true, Options{Execute: func(ctx context.Context, _ Script) (Answer, error) {
		end, _ := ctx.Deadline()
		left = time.Until(end)
		return Answer{Body: "done"}, nil
	}})
	status, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"x","wait":"1h"}`, "Authorization", "Bearer a", "Idempotency-Key", "k")
	if status != 200 || left < maxWait+largeLasts || left >= keptFor || left > 2*maxWait {
		t.Errorf("%d %s, with %v left", status, text, left)
	}
}

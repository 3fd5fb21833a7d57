package mcp

import (
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// unanswered are the ids of the requests that were handed on and are not answered yet, with
// how many each has. The SDK would end the session on a batch that has one of them.
type unanswered struct {
	mu sync.Mutex
	of map[jsonrpc.ID]int
}

// add counts the requests of a line; false for a batch with one that is there already, of
// which nothing counts.
func (u *unanswered) add(ids map[jsonrpc.ID]bool, batched bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id := range ids {
		if batched && u.of[id] > 0 {
			return false
		}
	}
	for id := range ids {
		u.of[id]++
	}
	return true
}

// drop counts a request no more.
func (u *unanswered) drop(id jsonrpc.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of[id]--; u.of[id] <= 0 {
		delete(u.of, id)
	}
}

// has reports whether an id is there, as it was written.
func (u *unanswered) has(id json.RawMessage) bool {
	var value any
	if json.Unmarshal(id, &value) != nil {
		return false
	}
	of, err := jsonrpc.MakeID(value)
	u.mu.Lock()
	defer u.mu.Unlock()
	return err == nil && u.of[of] > 0
}

package connector

import (
	"context"
	"crypto/sha256"
	"time"
)

// How long a token is believed to be good whatever an API answers: where it names the token
// (RFC 6750 section 3.1, invalid_token), and where it answers 401 without a reason, as some do
// for a token and others for a request. No token is so young twice, so an API that always
// answers 401, or an agent that finds a request for which it does, has a provider asked once in
// that time and not more often.
const (
	trustNamed = time.Minute
	trustPlain = 10 * time.Minute
)

// spent is an access token that an API has refused, by its hash and by when it was obtained: a
// provider may give the same one again.
type spent struct {
	hash     [sha256.Size]byte
	obtained int64
}

func spentOf(g *Grant) spent {
	return spent{sha256.Sum256([]byte(g.AccessToken)), g.Obtained.UnixNano()}
}

// refused takes up that an API has answered 401 to a grant's access token: the next request
// renews it first. It waits for nothing, since the answer is on its way to the caller.
func (c *Connector) refused(at place, g *Grant, named bool) {
	least := trustPlain
	if named {
		least = trustNamed
	}
	if !g.renews() || g.Over != "" || g.Spent || c.o.Clock().Sub(g.Obtained) < least {
		return
	}
	mark := spentOf(g)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.spent[at] == mark {
		return
	}
	c.spent[at] = mark
	c.running.Add(1)
	go c.noteSpent(at, mark)
}

// noteSpent has it stored with the grant: the next request may be another process's, as that
// of a command is. It is not tried again, since this process knows it anyway.
func (c *Connector) noteSpent(at place, mark spent) {
	defer c.running.Done()
	defer func() { _ = recover() }() // nobody waits for it, and nothing depends on it
	ctx, cancel := context.WithTimeout(context.Background(), renewal)
	defer cancel()
	unlock, err := c.o.Lock(ctx, at.tenant, at.name)
	if err != nil {
		return
	}
	defer unlock()
	g, cred, err := c.newest(ctx, at)
	if err != nil || g.Spent || spentOf(g) != mark {
		return
	}
	next := *g
	next.Spent = true
	if value, err := next.Seal(); err == nil {
		_ = c.o.Keeper.Replace(ctx, at.tenant, at.name, cred.Value, value)
	}
}

// isSpent reports whether an API has refused the access token of a grant.
func (c *Connector) isSpent(at place, g *Grant) bool {
	if g.Spent {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	mark, ok := c.spent[at]
	return ok && mark == spentOf(g)
}

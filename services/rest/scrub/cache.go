package scrub

import (
	"sync"
	"sync/atomic"
)

// keptMatchers bounds a cache: a home has some dozens of credentials.
const keptMatchers = 256

// Cache keeps what was prepared to look for a credential, because preparing costs
// more than looking through a small answer. It holds values of credentials, as the
// vault's own cache does, until [Cache.Forget]. The zero value is empty and ready; it
// is safe for concurrent use.
type Cache struct {
	current atomic.Pointer[matcherSet]
}

type matcherSet struct {
	list sync.Map // wanted → *Matcher
	size atomic.Int32
}

// wanted is what a Matcher looks for.
type wanted struct {
	secret, basic, user string
	also                [mostAlso]string
}

// Of returns the Matcher that [New] makes of a secret, the same one each time; nil
// when the secret is too short to look for. A cache that is full begins anew.
func (c *Cache) Of(secret, basic, user string, also ...string) *Matcher {
	set := c.current.Load()
	if set == nil || set.size.Load() >= keptMatchers {
		set = &matcherSet{}
		c.current.Store(set)
	}
	key := wanted{secret: secret, basic: basic, user: user}
	copy(key.also[:], also)
	if m, ok := set.list.Load(key); ok {
		return m.(*Matcher)
	}
	m, known := set.list.LoadOrStore(key, New(secret, basic, user, also...))
	if !known {
		set.size.Add(1)
	}
	return m.(*Matcher)
}

// Forget drops what is kept. A search under way goes on with the Matcher it has.
func (c *Cache) Forget() { c.current.Store(nil) }

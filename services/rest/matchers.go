package rest

import (
	"sync"
	"sync/atomic"
)

// keptMatchers bounds the cache: a home has some dozens of credentials.
const keptMatchers = 256

// matchers keeps what was prepared to look for a credential, because preparing
// costs more than looking through a small answer. It holds values of
// credentials, as the vault's own cache does, until [Backend.Forget].
type matchers struct {
	current atomic.Pointer[matcherSet]
}

type matcherSet struct {
	list sync.Map // [3]string{secret, basic, user} → *matcher
	size atomic.Int32
}

// of returns the matcher of a secret; nil when it is too short to look for.
func (c *matchers) of(secret, basic, user string) *matcher {
	set := c.current.Load()
	if set == nil || set.size.Load() >= keptMatchers {
		set = &matcherSet{}
		c.current.Store(set)
	}
	key := [3]string{secret, basic, user}
	if m, ok := set.list.Load(key); ok {
		return m.(*matcher)
	}
	m, known := set.list.LoadOrStore(key, newMatcher(secret, basic, user))
	if !known {
		set.size.Add(1)
	}
	return m.(*matcher)
}

// Mask overwrites a secret and a user name in a text, in every form that the
// scrubber looks for, and returns how often. Other backends have no scrubber.
func (b *Backend) Mask(secret, user string, text []byte) int {
	m := b.matchers.of(secret, "", user)
	if m == nil {
		return 0
	}
	return m.mask(text)
}

// Forget drops what the backend keeps of credentials.
func (b *Backend) Forget() { b.matchers.current.Store(nil) }

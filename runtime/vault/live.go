package vault

import (
	"crypto/sha256"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/runtime"
)

// maxLive is the most values that are remembered. The oldest go first, and of all those
// that were fetched before any that is stored: a command may print another one with each
// request, while a stored one is opened once and used for months.
const maxLive = 1024

// live remembers which values were opened. Reading takes no lock.
type live struct {
	mu     sync.Mutex
	known  map[[32]byte]bool // false: fetched
	values atomic.Pointer[[]runtime.Secret]
	sums   [][32]byte // of values, in their order
}

func (l *live) add(value runtime.Secret, stored bool) {
	sum := digest(value)
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, known := l.known[sum]; known {
		l.known[sum] = was || stored
		return
	}
	if l.known == nil {
		l.known = map[[32]byte]bool{}
	}
	var next []runtime.Secret
	if p := l.values.Load(); p != nil {
		next = slices.Clone(*p)
	}
	if len(next) == maxLive {
		at := max(0, slices.IndexFunc(l.sums, func(sum [32]byte) bool { return !l.known[sum] }))
		delete(l.known, l.sums[at])
		next, l.sums = slices.Delete(next, at, at+1), slices.Delete(l.sums, at, at+1)
	}
	l.known[sum] = stored
	next, l.sums = append(next, value), append(l.sums, sum)
	l.values.Store(&next)
}

func digest(value runtime.Secret) [sha256.Size]byte {
	plain := []byte(value.Reveal())
	defer clear(plain)
	return sha256.Sum256(plain)
}

// Live returns the values that were opened since the start, 1024 at most,
// for whoever must keep them out of a log. The caller must not change the slice.
func (v *Vault) Live() []runtime.Secret {
	if p := v.live.values.Load(); p != nil {
		return *p
	}
	return nil
}

// Hide adds a value that was made of a stored one, as an access token is of a grant: there
// is another one every hour, so it makes room before one that is stored does.
func (v *Vault) Hide(value runtime.Secret) { v.live.add(value, false) }

// opens remembers a value that is opened, or each part of one that has some.
func (v *Vault) opens(value runtime.Secret) {
	parts := v.parts(value)
	for _, part := range parts {
		v.live.add(part, false)
	}
	if len(parts) == 0 {
		v.live.add(value, true)
	}
}

// parts are the secrets in a value, none for one that is a secret itself.
func (v *Vault) parts(value runtime.Secret) []runtime.Secret {
	if v.o.Parts == nil {
		return nil
	}
	return v.o.Parts(value)
}

// DropLive forgets them. Call it on a locked vault once nothing that was on its
// way with one of them can still be logged.
func (v *Vault) DropLive() {
	v.live.mu.Lock()
	defer v.live.mu.Unlock()
	clear(v.live.known)
	v.live.sums = nil
	v.live.values.Store(nil)
}

package vault

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/runtime"
)

// maxLive is the most values that are remembered; the oldest go first.
const maxLive = 1024

// live remembers which values were opened. Reading takes no lock.
type live struct {
	mu     sync.Mutex
	known  map[[32]byte]bool
	values atomic.Pointer[[]runtime.Secret]
}

func (l *live) add(value runtime.Secret) {
	sum := digest(value)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[sum] {
		return
	}
	if l.known == nil {
		l.known = map[[32]byte]bool{}
	}
	var old []runtime.Secret
	if p := l.values.Load(); p != nil {
		old = *p
	}
	if len(old) == maxLive {
		delete(l.known, digest(old[0]))
		old = old[1:]
	}
	l.known[sum] = true
	next := append(append(make([]runtime.Secret, 0, len(old)+1), old...), value)
	l.values.Store(&next)
}

func digest(value runtime.Secret) [sha256.Size]byte {
	plain := []byte(value.Reveal())
	defer clear(plain)
	return sha256.Sum256(plain)
}

// Live returns the values that were opened since the start, the newest 1024,
// for whoever must keep them out of a log. The caller must not change the slice.
func (v *Vault) Live() []runtime.Secret {
	if p := v.live.values.Load(); p != nil {
		return *p
	}
	return nil
}

// DropLive forgets them. Call it on a locked vault once nothing that was on its
// way with one of them can still be logged.
func (v *Vault) DropLive() {
	v.live.mu.Lock()
	defer v.live.mu.Unlock()
	clear(v.live.known)
	v.live.values.Store(nil)
}

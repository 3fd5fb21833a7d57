package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// How long a sign-in holds, how long a link does that nobody has used, and how many
// sessions there are, of everybody and of one: one more ends the oldest, of the same one
// first. Who signs in again and again signs out nobody else.
const (
	sessionLife = 12 * time.Hour
	inviteLife  = 10 * time.Minute
	maxSessions = 256
	ownSessions = 16
)

// key is the hash of what a browser holds: the values themselves are not kept.
type key [sha256.Size]byte

// session is one browser that has signed in. It is not changed once it is there.
type session struct {
	key    key
	caller runtime.Caller
	owner  string // whose it is, in every tenant another
	form   string // stands in every form of its pages
	born   time.Time
}

// sessions are in memory: they end with the process.
type sessions struct {
	clock func() time.Time

	mu      sync.Mutex
	have    map[key]*session
	invited key       // the only link that opens something; zero: none
	asked   time.Time // when
}

func newSessions(clock func() time.Time) *sessions {
	return &sessions{clock: clock, have: map[key]*session{}}
}

// over reports whether what began then has had its time, however much of it the machine slept.
func (s *sessions) over(began time.Time, life time.Duration) bool {
	return system.Elapsed(began, s.clock()) >= life
}

// unguessable is 256 bits for a cookie, a link or a form.
func unguessable() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// invite makes the code of a link, and ends the one before.
func (s *sessions) invite() string {
	code := unguessable()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.invited, s.asked = sha256.Sum256([]byte(code)), s.clock()
	return code
}

// redeem takes the code of a link, once.
func (s *sessions) redeem(code string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.invited == (key{}) || sha256.Sum256([]byte(code)) != s.invited || s.over(s.asked, inviteLife) {
		return false
	}
	s.invited = key{}
	return true
}

// stale reports, once, that the link that is out has become too old.
func (s *sessions) stale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.invited == (key{}) || !s.over(s.asked, inviteLife) {
		return false
	}
	s.invited = key{}
	return true
}

// begin makes a session for a caller, and returns what the browser is to hold.
func (s *sessions) begin(caller runtime.Caller, owner string) string {
	value := unguessable()
	one := &session{key: sha256.Sum256([]byte(value)), caller: caller, owner: owner, form: unguessable(), born: s.clock()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	s.makeRoom(ownSessions, func(other *session) bool { return other.owner == owner })
	s.makeRoom(maxSessions, func(*session) bool { return true })
	s.have[one.key] = one
	return value
}

// makeRoom ends the oldest of some sessions when there are as many of them as may be.
func (s *sessions) makeRoom(most int, of func(*session) bool) {
	var some []*session
	for _, one := range s.have {
		if of(one) {
			some = append(some, one)
		}
	}
	if len(some) >= most {
		oldest := slices.MinFunc(some, func(a, b *session) int { return a.born.Compare(b.born) })
		delete(s.have, oldest.key)
	}
}

// sweep forgets sessions whose time is over.
func (s *sessions) sweep() {
	for k, one := range s.have {
		if s.over(one.born, sessionLife) {
			delete(s.have, k)
		}
	}
}

// of is the session of a request; nil: it has none.
func (s *sessions) of(r *http.Request, name string) *session {
	cookie, err := r.Cookie(name)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	return s.have[sha256.Sum256([]byte(cookie.Value))]
}

// end ends a session.
func (s *sessions) end(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.have, one.key)
}

// cookieName says to the browser itself that nothing but this host, over TLS, may set the
// cookie (RFC 6265bis section 4.1.3.2).
func (c *Console) cookieName() string {
	if c.o.Secure {
		return "__Host-kimbap-console"
	}
	return "kimbap-console"
}

// cookie is what a browser is given to hold, for as long as its window is open: what it is told
// to hold for a time it writes to its disk. With an empty value it is taken from it.
func (c *Console) cookie(value string) *http.Cookie {
	k := &http.Cookie{Name: c.cookieName(), Value: value, Path: c.o.Base, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if c.o.Secure {
		k.Secure, k.Path = true, "/" // which that name demands
	}
	if value == "" {
		k.MaxAge = -1
	}
	return k
}

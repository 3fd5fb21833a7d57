package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Bounds of what is kept of requests that came with an Idempotency-Key.
const (
	keptEach = 128            // keys of one principal
	keptAll  = 2048           // keys of all
	keptBody = 64 << 10       // bytes of an answer; a longer one is told once only
	keptFor  = 24 * time.Hour // how long an answer is told again
	maxKey   = 255            // bytes of a key
)

// once answers a request that is sent again under the same Idempotency-Key as it
// was answered before, without doing it again. What it knows ends with the process.
type once struct {
	clock func() time.Time
	mu    sync.Mutex
	kept  map[keptKey]*kept
	count map[string]int // keys by principal
}

type keptKey struct{ owner, key string }

// kept is one request and its answer; done is closed when that is there.
type kept struct {
	digest [sha256.Size]byte
	since  time.Time
	done   chan struct{}
	answer recorded
}

// do runs f, or tells what it answered before.
func (o *once) do(w http.ResponseWriter, r *http.Request, a visit, body []byte, f func(http.ResponseWriter, *http.Request) error) error {
	named := r.Header.Values("Idempotency-Key")
	if len(named) == 0 {
		return f(w, r)
	}
	name := named[0]
	if name == "" || len(name) > maxKey || len(named) > 1 { // an empty one is a variable that is not set
		return invalid("send one key of 1 to 255 bytes, or none", "the Idempotency-Key cannot be used")
	}
	key := keptKey{a.who.Owner(), name}
	digest := sha256.Sum256([]byte(r.Method + " " + r.URL.Path + "\n" + string(body)))
	k, first, err := o.take(key, digest)
	if err != nil {
		return err
	}
	if !first {
		return k.again(w, r)
	}
	return o.first(w, r, key, k, f)
}

// first does the request, also when its caller leaves meanwhile: the answer is
// for whoever asks again. Neither code nor stage of an error says that nothing was
// done: the redirect of a request that was sent is refused like a request.
func (o *once) first(w http.ResponseWriter, r *http.Request, key keptKey, k *kept, f func(http.ResponseWriter, *http.Request) error) (err error) {
	ctx, cancel := detached(r.Context())
	defer cancel()
	k.answer = recorded{ResponseWriter: w, status: http.StatusOK, request: w.Header().Get(requestID)}
	defer func() {
		broken := recover()
		if err != nil || broken != nil {
			k.answer.err = err
			if broken != nil {
				k.answer.err = errPanic{}
			}
		}
		k.answer.ResponseWriter = nil
		if undone := (*Undone)(nil); errors.As(k.answer.err, &undone) {
			o.drop(key) // it can be tried again
		}
		close(k.done)
		if broken != nil {
			panic(broken)
		}
	}()
	return f(&k.answer, r.WithContext(ctx))
}

// again waits for the first answer and repeats it.
func (k *kept) again(w http.ResponseWriter, r *http.Request) error {
	select {
	case <-k.done:
	case <-r.Context().Done():
		return hasLeft(r.Context(), "under this Idempotency-Key")
	}
	w.Header().Set("Idempotent-Replayed", "true")
	w.Header().Set(requestID, k.answer.request) // under which the trail has it
	switch {
	case k.answer.err != nil:
		return k.answer.err
	case k.answer.long:
		return k.answer.tooLong()
	}
	w.Header().Set("Content-Type", k.answer.media)
	w.WriteHeader(k.answer.status)
	_, _ = w.Write(k.answer.body)
	return nil
}

// hasLeft is the error of a caller that has left while it waited.
func hasLeft(ctx context.Context, what string) error {
	return &runtime.Error{Code: runtime.CodeCanceled, Msg: "the caller went away while it waited for the answer " + what, Err: ctx.Err()}
}

// take finds the key, or makes it.
func (o *once) take(key keptKey, digest [sha256.Size]byte) (k *kept, first bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock()
	if k = o.kept[key]; k != nil && now.Sub(k.since) < keptFor {
		if k.digest != digest {
			return nil, false, &runtime.Error{
				Code: runtime.CodeInvalidInput, Reason: runtime.ReasonIdempotency, Msg: "another request was sent under this Idempotency-Key",
				Hint: "a new request needs a new key",
			}
		}
		return k, false, nil
	}
	if k != nil {
		o.forget(key)
	}
	if o.count[key.owner] >= keptEach || len(o.kept) >= keptAll {
		o.sweep(now)
	}
	if o.count[key.owner] >= keptEach {
		o.forgetOldest(key.owner)
	} else if len(o.kept) >= keptAll {
		o.forgetOldest(o.greediest(key.owner))
	}
	if o.count[key.owner] >= keptEach || len(o.kept) >= keptAll {
		return nil, false, &runtime.Error{
			Code: runtime.CodeRateLimited, Reason: runtime.ReasonTooManyRequests, Msg: "too many requests with an Idempotency-Key are not answered yet",
			Hint: "wait for answers first", RetryAfter: retrySoon,
		}
	}
	k = &kept{digest: digest, since: now, done: make(chan struct{})}
	o.kept[key] = k
	o.count[key.owner]++
	return k, true, nil
}

func (o *once) drop(key keptKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(key)
}

func (o *once) forget(key keptKey) {
	if o.kept[key] == nil {
		return
	}
	delete(o.kept, key)
	if o.count[key.owner]--; o.count[key.owner] == 0 {
		delete(o.count, key.owner)
	}
}

func (o *once) sweep(now time.Time) {
	for key, k := range o.kept {
		if now.Sub(k.since) >= keptFor && k.answered() {
			o.forget(key)
		}
	}
}

// greediest is who has the most answered keys, of the tenant that has the most of any: room
// is made there, so that what others send again is not done again for its crowd. A tenant
// that has no more than the one that asks keeps all of its own, be the other's answered or
// not; "" is nobody.
func (o *once) greediest(asks string) string {
	owners, tenants := map[string]int{}, map[string]int{}
	for key, k := range o.kept {
		tenants[tenantOf(key.owner)]++
		if k.answered() {
			owners[key.owner]++
		}
	}
	own, most := tenantOf(asks), ""
	for owner, n := range owners {
		tenant := tenantOf(owner)
		if tenant != own && tenants[tenant] <= tenants[own] {
			continue
		}
		here, there := tenants[tenant], tenants[tenantOf(most)]
		if here > there || here == there && n > owners[most] {
			most = owner
		}
	}
	return most
}

// tenantOf is the tenant of an [runtime.Principal.Owner].
func tenantOf(owner string) string {
	tenant, _, _ := strings.Cut(owner, "/")
	return tenant
}

// forgetOldest makes room among the answered ones of an owner.
func (o *once) forgetOldest(owner string) {
	var oldest *kept
	var at keptKey
	for key, k := range o.kept {
		if key.owner == owner && k.answered() && (oldest == nil || k.since.Before(oldest.since)) {
			oldest, at = k, key
		}
	}
	if oldest != nil {
		o.forget(at)
	}
}

func (k *kept) answered() bool {
	select {
	case <-k.done:
		return true
	default:
		return false
	}
}

// recorded passes an answer on and keeps it.
type recorded struct {
	http.ResponseWriter
	status  int
	media   string
	body    []byte
	long    bool
	err     error
	request string // its id
	id      string // of the execution that it is about, whose result is kept elsewhere; "": of none
}

// about says which execution an answer is about, for whoever asks for it again.
func about(w http.ResponseWriter, id string) {
	if a, again := w.(*recorded); again { // else it came without a key
		a.id = id
	}
}

// tooLong is why an answer is not told again.
func (a *recorded) tooLong() error {
	e := &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonIdempotency, Msg: "this was done, and its answer was too long to be kept",
		Hint: "read what it changed with another request",
	}
	if a.id != "" {
		e.Msg = fmt.Sprintf("this was done, and what there is to tell of the execution %s is kept, and too long to be told again here", a.id)
		e.Hint = "do not send the script again; " + askFor(a.id)
	}
	return e
}

// WriteHeader implements [http.ResponseWriter].
func (a *recorded) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *recorded) Write(p []byte) (int, error) {
	if a.media == "" {
		a.media = a.Header().Get("Content-Type")
	}
	if len(a.body)+len(p) > keptBody {
		a.long, a.body = true, nil
	} else if !a.long {
		a.body = append(a.body, p...)
	}
	return a.ResponseWriter.Write(p)
}

package app

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// KeptLock reports whether an order to lock is in force that the store does not have.
func KeptLock(a *App) bool {
	l, there := a.keptLock()
	return there && a.inForce(l)
}

// LogOf returns what the App's log writes to.
func LogOf(a *App) *LogWriter { return a.o.LogTo }

// CredentialOf is what a process that a watch keeps in step is given of a credential. Unsure says
// that the store did not answer at the last look.
func CredentialOf(a *App, ctx context.Context, name string, unsure bool) (runtime.Credential, error) {
	a.unsure.Store(unsure)
	return longLived{a}.Credential(ctx, runtime.DefaultTenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: name})
}

// slowKeys is a keeper of keys that something happens beside.
type slowKeys struct {
	vault.KeyWrapper
	meanwhile func()
}

func (s slowKeys) Keys(ctx context.Context) ([]vault.MasterKey, error) {
	s.meanwhile()
	return s.KeyWrapper.Keys(ctx)
}

// RenewKeyOvertaken is RenewKey while the key that was just read is replaced, so many times.
func RenewKeyOvertaken(a *App, ctx context.Context, times int, replace func()) error {
	a.keeps.become(&agedKeys{a.keeps.wrapper(), times, replace})
	return a.renewKey(ctx)
}

// agedKeys is a keeper whose keys are replaced as soon as they are read, so many times.
type agedKeys struct {
	vault.KeyWrapper
	times   int
	replace func()
}

func (k *agedKeys) Keys(ctx context.Context) ([]vault.MasterKey, error) {
	keys, err := k.KeyWrapper.Keys(ctx)
	if k.times--; k.times >= 0 {
		k.replace()
	}
	return keys, err
}

// WrapperOf is where a source keeps the master key.
func WrapperOf(a *App, source string) (vault.KeyWrapper, error) {
	return a.keyWrapper(a.config.Current().MasterKey, source)
}

// RenewKey is what a request does that finds a value under another master key, while meanwhile
// happens.
func RenewKey(a *App, ctx context.Context, meanwhile func()) error {
	a.keeps.become(slowKeys{a.keeps.wrapper(), meanwhile})
	return a.renewKey(ctx)
}

// Watched reports whether somebody is taken to be able to answer now.
func Watched(a *App, ctx context.Context) (bool, error) {
	now := a.o.Clock()
	return a.store.Watched(ctx, runtime.DefaultTenant, approval.Between{After: now, Until: now.Add(time.Hour)})
}

// Untold is how many open questions somebody has yet to tell people of.
func Untold(a *App, ctx context.Context) (n int, err error) {
	list, err := a.store.Approvals(ctx, runtime.DefaultTenant, "", []approval.State{approval.Pending}, 100)
	for _, one := range list {
		if one.Teller != "" {
			n++
		}
	}
	return n, err
}

// TellLeft tells of what others have left, and returns of how many questions.
func TellLeft(a *App, ctx context.Context) int {
	n, _ := a.approvals.TellLeft(ctx, runtime.DefaultTenant)
	return n
}

// SetDisk says how much room the disk of the trail has, until the next look.
func (a *App) SetDisk(free, size uint64) { a.noteSpace(free, size) }

// TellCrowds records how many refusals were left out of the trail, at once.
func (a *App) TellCrowds(ctx context.Context) error {
	a.crowded.Tell(true)
	return a.trail.Flush(ctx)
}

// Listens are the addresses that this process says are nobody's to reach.
func (a *App) Listens() (out []string) {
	for _, at := range a.listeners.All() {
		out = append(out, at.String())
	}
	return out
}

// MCPForRun serves MCP on a socket as a run does, to callers as they are.
func (a *App) MCPForRun(path string) (hangUp func(), err error) {
	return a.mcpForRun(path, func(c runtime.Caller) runtime.Caller { return c }, "test")
}

// Begun is what the runner of scripts is told of an execution's calls.
func Begun(ctx context.Context, a *App, tenant runtime.Tenant, id string) (int, error) {
	begun, err := a.begun(ctx, tenant, id)
	return len(begun), err
}

// LoseResult records that an execution's result was given up, and returns whether the
// runner of scripts is told so.
func LoseResult(ctx context.Context, a *App, who *runtime.Principal, id string) (bool, error) {
	if err := a.recordScript(ctx, sandbox.Event{Kind: "exec.lost", Principal: who, Execution: id, Durable: true}); err != nil {
		return false, err
	}
	return a.lostResult(ctx, who.Tenant, id)
}

// Waiting is how many here wait for a person.
func Waiting(a *App) int { return a.waiting.Waiting() }

// WaitAs waits for the decision on a request of the caller's own, as a command does.
func WaitAs(ctx context.Context, a *App, caller runtime.Caller, id string) error {
	_, _, err := a.waitAndCollect(ctx, caller, id, &Answer{}, nil)
	return err
}

// Identify says who a caller is by what an App remembers.
func Identify(ctx context.Context, a *App, caller runtime.Caller) (runtime.Principal, error) {
	return a.identity.Identify(ctx, caller)
}

// stuckStore answers nobody who asks for changes before it is released.
type stuckStore struct {
	store
	released chan struct{}
}

func (s stuckStore) Changes(ctx context.Context) (int64, error) {
	<-s.released
	return s.store.Changes(ctx)
}

// FollowStuck follows a store that does not answer until released is called, which returns
// when it was followed.
func FollowStuck(ctx context.Context, a *App) (released func()) {
	answer, done := make(chan struct{}), make(chan struct{})
	a.store = stuckStore{a.store, answer}
	go func() {
		defer close(done)
		a.followStore(ctx, unknownChange)
	}()
	return func() { close(answer); <-done }
}

// hungKeys is a keeper of keys that answers when it is let, or never.
type hungKeys struct {
	vault.KeyWrapper
	asked, given chan struct{}
}

func (h hungKeys) Keys(ctx context.Context) ([]vault.MasterKey, error) {
	h.asked <- struct{}{}
	select {
	case <-h.given:
		return h.KeyWrapper.Keys(ctx)
	case <-ctx.Done():
		h.asked <- struct{}{} // once more: it was given up
		return nil, ctx.Err()
	}
}

// HangKeys lets what keeps the master key hang, before anything is served. Each question and each
// one given up is in asked; what is sent to given answers one.
func HangKeys(a *App) (asked <-chan struct{}, given chan<- struct{}) {
	h := hungKeys{a.keeps.wrapper(), make(chan struct{}, 100), make(chan struct{})}
	a.keeps.become(h)
	return h.asked, h.given
}

// ProlongAtALook is [App.ProlongToken] of the watch.
func ProlongAtALook(a *App, ctx context.Context, id string, ttl time.Duration) error {
	_, _, err := a.ProlongToken(context.WithValue(ctx, looking{}, true), id, ttl)
	return err
}

// LockGrant waits until nobody renews the grant of that name.
func LockGrant(ctx context.Context, a *App, name string) (unlock func(), err error) {
	return a.neighbours.LockGrant(ctx, runtime.DefaultTenant, name)
}

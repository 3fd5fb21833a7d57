package vault_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// store is another secret store: it counts, and answers when it may.
type store struct {
	mu    sync.Mutex
	asked []vault.Reference
	value string
	err   error
	hold  chan struct{} // nil: at once
}

func (s *store) Fetch(ctx context.Context, r vault.Reference) (runtime.Secret, error) {
	s.mu.Lock()
	s.asked = append(s.asked, r)
	value, err, hold := s.value, s.err, s.hold
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return runtime.NewSecret(value), errors.Join(err, ctx.Err())
}

func (s *store) set(value string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value, s.err = value, err
}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func referenceRig(t testing.TB, s *store) rig {
	t.Helper()
	return fetcherRig(t, s)
}

func fetcherRig(t testing.TB, s vault.Fetcher) rig {
	t.Helper()
	clock := runtimetest.NewClock()
	return clockedRig(t, s, clock, clock.Now)
}

func clockedRig(t testing.TB, s vault.Fetcher, clock *runtimetest.Clock, now func() time.Time) rig {
	t.Helper()
	memory := newMemory()
	key, err := vault.ParseMasterKey(keyA)
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.New(vault.Options{Store: memory, Key: key, Clock: now, Fetch: s})
	if err == nil {
		err = v.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return rig{v, memory, clock}
}

func passShow(ttl time.Duration) vault.Reference {
	return vault.Reference{Command: []string{"/usr/bin/pass", "show", "n"}, TTL: ttl}
}

func (r rig) refer(t testing.TB, name string, ttl time.Duration) {
	t.Helper()
	if _, err := r.SetReference(t.Context(), tenant, name, passShow(ttl), []string{host}, time.Time{}); err != nil {
		t.Fatal(err)
	}
}

// A referenced value is fetched when it is needed, kept for its time to live, and
// bound to its hosts like any other.
func TestReferencesAreFetchedForTheirTimeToLive(t *testing.T) {
	s := &store{value: canary}
	r := referenceRig(t, s)
	r.refer(t, "n", time.Minute)
	if s.count() != 0 {
		t.Error("fetched before it was needed")
	}
	for range 3 {
		c, err := r.Credential(t.Context(), tenant, bearer("n"))
		if err != nil || c.Value.Reveal() != canary || !c.Allows(host) || c.Allows("evil:443") || c.Version != 1 {
			t.Fatalf("%+v %v", c, err)
		}
	}
	s.set("newer", nil)
	r.clock.Advance(time.Minute - time.Microsecond)
	r.Forget() // because something else changed: no reason to ask again
	if r.value(t, tenant, "n") != canary || s.count() != 1 {
		t.Errorf("asked %d times within the time to live", s.count())
	}
	r.clock.Advance(time.Microsecond)
	if r.value(t, tenant, "n") != "newer" || s.count() != 2 {
		t.Errorf("asked %d times after it", s.count())
	}
	r.refer(t, "n", 0)
	for range 3 {
		r.value(t, tenant, "n")
	}
	if s.count() != 5 {
		t.Errorf("asked %d times with no time to live", s.count())
	}
	if fmt.Sprint(s.asked[0]) != fmt.Sprint(passShow(time.Minute)) {
		t.Errorf("asked for %v", s.asked[0])
	}
	live := false
	for _, known := range r.Live() {
		live = live || known.Reveal() == canary
	}
	if !live {
		t.Error("the log would not hide a fetched value")
	}
}

// Neither does the time that a machine sleeps make it longer.
func TestAReferencedValueIsNotKeptForANight(t *testing.T) {
	s := &store{value: canary}
	now := time.Now()
	r := clockedRig(t, s, nil, func() time.Time { return now })
	r.refer(t, "n", time.Hour)
	for _, c := range []struct {
		slept time.Duration
		asked int
	}{{0, 1}, {59 * time.Minute, 1}, {8 * time.Hour, 2}} {
		now = runtimetest.Asleep(now, c.slept)
		if r.value(t, tenant, "n"); s.count() != c.asked {
			t.Errorf("after %s asleep it was asked for %d times", c.slept, s.count())
		}
	}
}

// A command that prints another token with every request pushes no stored value out of
// what the log hides.
func TestFetchedValuesPushOutNoStoredOne(t *testing.T) {
	s := &store{}
	r := referenceRig(t, s)
	r.set(t, tenant, "stored", canary)
	r.refer(t, "fetched", 0)
	r.value(t, tenant, "stored")
	last := ""
	for i := range 1100 {
		last = fmt.Sprint("token-of-the-moment-", i)
		s.set(last, nil)
		r.value(t, tenant, "fetched")
	}
	live := r.Live()
	for _, value := range []string{canary, last} {
		if !slices.ContainsFunc(live, func(s runtime.Secret) bool { return s.Reveal() == value }) {
			t.Errorf("of %d values, %q is none", len(live), value)
		}
	}
}

// 50 requests at once make one fetch; one that leaves takes nobody along.
func TestOneFetchForAll(t *testing.T) {
	s := &store{value: canary, hold: make(chan struct{})}
	r := referenceRig(t, s)
	r.refer(t, "n", time.Minute)
	left, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { _, err := r.Credential(left, tenant, bearer("n")); gone <- err }()
	for s.count() == 0 { // the first is on its way
		time.Sleep(time.Millisecond)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if c, err := r.Credential(context.Background(), tenant, bearer("n")); err != nil || c.Value.Reveal() != canary {
				t.Error(err)
			}
		})
	}
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	close(s.hold)
	wg.Wait()
	if s.count() != 1 {
		t.Errorf("%d fetches", s.count())
	}
}

// What comes and cannot be used says so, and what to do: another store that is closed it is
// not. None of it is shown.
func TestAFetchedValueThatCannotBeUsedSaysWhy(t *testing.T) {
	for why, value := range map[string]string{
		"a control character": "\x1b[1mhunter2\x1b[0m", "a control character ": "hunter2\x00", "is empty": "", "over 64 KiB": strings.Repeat("hunter2", 10_000),
	} {
		s := &store{value: value}
		r := referenceRig(t, s)
		r.refer(t, "n", time.Minute)
		_, err := r.Credential(t.Context(), tenant, bearer("n"))
		wants(t, err, runtime.CodeVaultLocked, runtime.ReasonReference)
		e := runtime.AsError(err)
		if !strings.Contains(e.Msg, strings.TrimSpace(why)) || !strings.Contains(e.Hint, "print the key alone") || strings.Contains(e.Hint, "signs in") {
			t.Errorf("%s: %s; %s", why, e.Msg, e.Hint)
		}
		if strings.Contains(fmt.Sprint(e.Msg, e.Hint, e.Err), "hunter2") {
			t.Errorf("%s: the value is in %v", why, err)
		}
	}
}

// What does not come denies: a stored value is no fallback, and the failure is
// not asked for again at once.
func TestReferencesThatFailDeny(t *testing.T) {
	s := &store{err: errors.New("exit status 3")}
	r := referenceRig(t, s)
	r.set(t, tenant, "n", "stored before")
	r.refer(t, "n", time.Minute)
	for _, c := range []struct {
		value string
		err   error
	}{{"", errors.New("exit status 3")}, {"", nil}, {strings.Repeat("x", 1<<16+1), nil}, {"\x1b[1mkey\x1b[0m", nil}} {
		s.set(c.value, c.err)
		before := s.count()
		for range 5 {
			got, err := r.Credential(t.Context(), tenant, bearer("n"))
			wants(t, err, runtime.CodeVaultLocked, runtime.ReasonReference)
			if got.Found() {
				t.Fatal("a credential was handed out")
			}
		}
		if s.count() != before+1 {
			t.Errorf("asked %d times for what has failed", s.count()-before)
		}
		r.clock.Advance(time.Second)
	}
	s.set(canary, nil)
	if r.value(t, tenant, "n") != canary {
		t.Error("it does not recover")
	}
	_, err := rigOver(t, r.store, keyA).Credential(t.Context(), tenant, bearer("n"))
	wants(t, err, runtime.CodeVaultLocked, runtime.ReasonReference) // a vault that fetches nothing
}

// Where a value is fetched is sealed: an edited command is not run.
func TestReferencesCannotBeEdited(t *testing.T) {
	for name, change := range map[string]func(row *vault.Sealed){
		"another command": func(row *vault.Sealed) { row.Reference = strings.Replace(row.Reference, "pass", "evil", 1) },
		"no reference":    func(row *vault.Sealed) { row.Reference = "" },
		"another host":    func(row *vault.Sealed) { row.Authorities = []string{"evil:443"} },
		"not JSON":        func(row *vault.Sealed) { row.Reference = "x" },
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{value: canary}
			r := referenceRig(t, s)
			r.refer(t, "n", time.Minute)
			r.value(t, tenant, "n")
			r.store.edit(tenant, "n", change)
			r.refused(t, "n", runtime.ReasonTampered)
			if s.count() != 1 {
				t.Error("it was run")
			}
		})
	}
	r := referenceRig(t, &store{value: canary})
	r.set(t, tenant, "n", canary)
	r.store.edit(tenant, "n", func(row *vault.Sealed) { row.Reference = `{"command":["/bin/evil"]}` })
	r.refused(t, "n", runtime.ReasonTampered) // a stored value made a reference
}

func TestReferencesSurviveRotationsAndLocks(t *testing.T) {
	s := &store{value: canary}
	r := referenceRig(t, s)
	r.refer(t, "n", time.Hour)
	r.value(t, tenant, "n")
	if _, _, err := r.RotateTenantKey(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Rebind(t.Context(), tenant, "n", []string{host, "b.example:443"}); err != nil {
		t.Fatal(err)
	}
	if r.value(t, tenant, "n") != canary {
		t.Error("lost")
	}
	asked := s.count()
	r.Lock()
	_, err := r.Credential(t.Context(), tenant, bearer("n"))
	wants(t, err, runtime.CodeVaultLocked, runtime.ReasonLocked)
	if err := r.Unlock(t.Context(), newKeeper(t, keyA).keys...); err != nil {
		t.Fatal(err)
	}
	if r.value(t, tenant, "n") != canary || s.count() != asked+1 {
		t.Error("a lock has left a fetched value in memory")
	}
	list, err := r.List(t.Context(), tenant)
	if err != nil || len(list) != 1 || list[0].Reference == nil || list[0].Reference.Command[0] != "/usr/bin/pass" {
		t.Errorf("%+v %v", list, err)
	}
}

func TestReferencesAreChecked(t *testing.T) {
	r := referenceRig(t, &store{})
	for name, ref := range map[string]vault.Reference{
		"no command": {}, "an empty one": {Command: []string{""}}, "a line end": {Command: []string{"/a", "b\nc"}},
		"too long": {Command: []string{"/a", strings.Repeat("x", 5000)}}, "a time below zero": {Command: []string{"/a"}, TTL: -1},
		"a time without end": {Command: []string{"/a"}, TTL: 25 * time.Hour},
	} {
		_, err := r.SetReference(t.Context(), tenant, "n", ref, []string{host}, time.Time{})
		wants(t, err, runtime.CodeInvalidInput, "")
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// broken is another secret store on whose way something of ours, or of a library, panics.
type broken struct{ store }

func (b *broken) Fetch(ctx context.Context, r vault.Reference) (runtime.Secret, error) {
	got, err := b.store.Fetch(ctx, r)
	if got.Empty() {
		panic("nobody thought of it")
	}
	return got, err
}

// What panics in a fetch denies the requests that wait for it, and no more: the process
// lives, and the next fetch is not kept out.
func TestAPanicInAFetchDenies(t *testing.T) {
	s := &broken{store{hold: make(chan struct{})}}
	r := fetcherRig(t, s)
	r.set(t, tenant, "n", "stored before")
	r.refer(t, "n", time.Minute)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			got, err := r.Credential(context.Background(), tenant, bearer("n"))
			wants(t, err, runtime.CodeInternal, runtime.ReasonReference)
			if got.Found() {
				t.Error("a credential was handed out")
			}
		})
	}
	close(s.hold)
	wg.Wait()
	s.set(canary, nil)
	if r.value(t, tenant, "n") != canary {
		t.Error("it does not recover")
	}
}

// turned is another secret store during whose answer something else happens.
type turned struct {
	store
	meanwhile func()
}

func (s *turned) Fetch(ctx context.Context, r vault.Reference) (runtime.Secret, error) {
	s.meanwhile()
	return s.store.Fetch(ctx, r)
}

// What comes after a lock is not handed out, nor kept for the time after it.
func TestWhatIsFetchedDuringALockIsDropped(t *testing.T) {
	s := &turned{store: store{value: canary}, meanwhile: func() {}}
	r := fetcherRig(t, s)
	r.refer(t, "n", time.Hour)
	s.meanwhile = r.Lock
	c, err := r.Credential(t.Context(), tenant, bearer("n"))
	wants(t, err, runtime.CodeVaultLocked, runtime.ReasonLocked)
	if c.Found() {
		t.Error("it was handed out")
	}
	s.meanwhile = func() {}
	if err := r.Unlock(t.Context(), newKeeper(t, keyA).keys...); err != nil || r.value(t, tenant, "n") != canary || s.count() != 2 {
		t.Errorf("%d fetches, %v", s.count(), err)
	}
}

// A lock that comes while a value is being kept forgets that value too.
func TestWhatIsKeptDuringALockIsForgotten(t *testing.T) {
	s := &store{value: canary}
	clock := runtimetest.NewClock()
	at := func() {}
	r := clockedRig(t, s, clock, func() time.Time { at(); return clock.Now() })
	r.refer(t, "n", time.Hour)
	at = func() { // the last look at the clock is that for the time to live
		if s.count() > 0 {
			r.Lock()
		}
	}
	_, err := r.Credential(t.Context(), tenant, bearer("n"))
	wants(t, err, runtime.CodeVaultLocked, runtime.ReasonLocked)
	at = func() {}
	s.set("the next one", nil)
	if err := r.Unlock(t.Context(), newKeeper(t, keyA).keys...); err != nil || r.value(t, tenant, "n") != "the next one" {
		t.Errorf("%d fetches, %v", s.count(), err)
	}
}

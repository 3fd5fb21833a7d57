package neighbours_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/neighbours"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// shared are the leases of a store in memory, of which none ends by itself.
type shared struct {
	mu    sync.Mutex
	held  map[string]string // holders, by name
	asked int               // how often one was wanted
	fault error
}

func (s *shared) Lease(_ context.Context, name, holder string, _ time.Duration) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.fault != nil {
		return false, s.fault
	}
	if by := s.held[name]; by != "" && by != holder {
		return false, nil
	}
	s.held[name] = holder
	return true, nil
}

func (s *shared) Leased(_ context.Context, name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[name] != "", s.fault
}

func (s *shared) EndLease(_ context.Context, name, holder string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[name] == holder {
		delete(s.held, name)
	}
	return s.fault
}

// fails has every question fail from now on.
func (s *shared) fails() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = errors.New("the database is away")
}

// in is a process over a home of its own; over the store, if there is one.
func in(t *testing.T, o neighbours.Options) *neighbours.Circle {
	t.Helper()
	o.Home = home.Folder{Dir: filepath.Join(t.TempDir(), "home")}
	if _, err := o.Home.Create(); err != nil {
		t.Fatal(err)
	}
	o.Self = o.Home.Self()
	t.Cleanup(o.Self.End)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Unheard == nil {
		o.Unheard = func(err error) { t.Error(err) }
	}
	c := neighbours.New(o)
	t.Cleanup(func() { c.End(context.WithoutCancel(t.Context())) })
	return c
}

func TestOtherHomesKnowWhoLives(t *testing.T) {
	s := &shared{held: map[string]string{}}
	one, other := in(t, neighbours.Options{Shared: s}), in(t, neighbours.Options{Shared: s})
	name := one.Holder()
	if !other.Alive(name) {
		t.Error("a process of another home is taken for dead")
	}
	if apart := in(t, neighbours.Options{}); apart.Alive(name) {
		t.Error("a home that shares nothing knows of it")
	}
	one.End(t.Context())
	if other.Alive(name) {
		t.Error("a process that has ended is taken to live")
	}
	one.End(t.Context())
}

// Of whom nothing can be found out, that may go on with what it holds.
func TestWhomNobodyKnowsLives(t *testing.T) {
	s := &shared{held: map[string]string{}}
	silent := in(t, neighbours.Options{Shared: s})
	s.fails()
	for name, c := range map[string]*neighbours.Circle{"a store that fails": silent, "none": in(t, neighbours.Options{Unknown: true})} {
		if !c.Alive("1:somebody") {
			t.Errorf("%s: taken for dead", name)
		}
	}
	if in(t, neighbours.Options{}).Alive("1:somebody") {
		t.Error("one that is not of the only home is taken to live")
	}
}

// What a process begins after a sleep would else be told as lost at once.
func TestWhoSleptIsHeardOfBeforeItHoldsAnything(t *testing.T) {
	s, c := &shared{held: map[string]string{}}, runtimetest.NewClock()
	var unheard sync.Map
	one := in(t, neighbours.Options{Shared: s, Clock: c.Now, Unheard: func(err error) { unheard.Store(err.Error(), true) }})
	name := one.Holder()
	if one.Holder(); s.asked != 1 {
		t.Errorf("awake it leased %d times", s.asked)
	}
	s.mu.Lock()
	delete(s.held, name) // it has run out
	s.mu.Unlock()
	c.Advance(time.Hour)
	if one.Holder(); s.held[name] != name {
		t.Error("nobody hears of it")
	}
	s.fails()
	c.Advance(time.Hour)
	one.Holder()
	if _, told := unheard.Load("the database is away"); !told {
		t.Error("nobody is told that it could not be leased")
	}
}

func TestOneRenewsAGrant(t *testing.T) {
	s := &shared{held: map[string]string{}}
	one, other := in(t, neighbours.Options{Shared: s}), in(t, neighbours.Options{Shared: s})
	unlock, err := one.LockGrant(t.Context(), "acme", "mail")
	if err != nil {
		t.Fatal(err)
	}
	free, err := other.LockGrant(t.Context(), runtime.DefaultTenant, "mail") // of the same name
	if err != nil {
		t.Fatal(err)
	}
	free()
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	before := s.count()
	go func() { _, err := other.LockGrant(ctx, "acme", "mail"); got <- err }()
	for s.count() == before { // it has asked, and was refused
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("while another home renews: %v", err)
	}
	unlock()
	again, err := other.LockGrant(t.Context(), "acme", "mail")
	if err != nil {
		t.Fatal("when the other is done:", err)
	}
	again()
}

func (s *shared) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

package approval_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// lockedStore is a store whose database somebody else has locked: no approval ends.
type lockedStore struct {
	*memory
	mu     sync.Mutex
	locked bool
	tries  int
}

func (s *lockedStore) lock(locked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locked = locked
}

func (s *lockedStore) tried() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries
}

func (s *lockedStore) Move(ctx context.Context, tenant runtime.Tenant, id string, from, to approval.State, c approval.Change) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from == approval.Executing && s.locked {
		s.tries++
		return false, &runtime.Error{Code: runtime.CodeStorageBusy, Msg: "the store did not answer in time"}
	}
	return s.memory.Move(ctx, tenant, id, from, to, c)
}

// late is a desk over a locked store, with a ticket that was handed out, and what
// it says of ends.
func late(t *testing.T, process string) (d *approval.Desk, store *lockedStore, ticket runtime.Ticket, said func() string) {
	t.Helper()
	store = &lockedStore{memory: newMemory()}
	var mu sync.Mutex
	var log []string
	d, err := approval.New(approval.Options{
		Store: store, Sealer: sealer{}, Clock: time.Now, Process: func() string { return process }, Alive: func(string) bool { return true },
		NewID: func() string { return runtime.NewID("apr", time.Now()) },
		Late: func(id string, err error) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, id+" "+string(runtime.CodeOf(err)))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.lock(false); d.Close(context.Background()) })
	call := refund(agent("token:1"), "5")
	_, err = d.Await(t.Context(), call, asked())
	id := wantCode(t, err, runtime.CodeApprovalPending).ApprovalID
	if _, err := d.Accept(t.Context(), operator("local:1000"), runtime.DefaultTenant, id, approval.Yes{}); err != nil {
		t.Fatal(err)
	}
	if ticket, err = d.Await(t.Context(), call, asked()); err != nil {
		t.Fatal(err)
	}
	store.lock(true)
	return d, store, ticket, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(log, "\n")
	}
}

// An end that the store does not take is written later, once, as of the time it
// was; until then the approval is one that executes.
func TestAnEndThatTheStoreRefusesIsWrittenLater(t *testing.T) {
	for state, cause := range map[approval.State]error{
		approval.Executed: nil,
		approval.Failed:   &runtime.Error{Code: runtime.CodeEgressDenied, Msg: "no"},
		approval.Unknown:  &runtime.Error{Code: runtime.CodeUpstream, Stage: runtime.StageExecute, Msg: "broken off"},
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			d, store, ticket, said := late(t, "me")
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if err := d.Finish(gone, ticket, cause); err != nil {
				t.Fatalf("the end was not taken: %v", err)
			}
			at := time.Now()
			if err := d.Finish(t.Context(), ticket, nil); err == nil {
				t.Error("a ticket was finished twice")
			}
			if _, err := d.Sweep(t.Context(), runtime.DefaultTenant); err != nil || store.state(ticket.ID) != approval.Executing {
				t.Errorf("swept: %v, %s", err, store.state(ticket.ID))
			}
			_, err := d.Await(t.Context(), refund(agent("token:1"), "5"), asked())
			if e := wantCode(t, err, runtime.CodeApprovalPending); e.ApprovalID == ticket.ID {
				t.Error("it is open again")
			}
			for tries := store.tried(); store.tried() == tries; { // it goes on trying
				time.Sleep(10 * time.Millisecond)
			}
			store.lock(false)
			runtimetest.Eventually(t, "it ends", func() bool { return store.state(ticket.ID) != approval.Executing })
			a, _, _ := store.Approval(t.Context(), runtime.DefaultTenant, ticket.ID)
			if a.State != state || a.Ended.After(at) || (a.Note == "") != (cause == nil) {
				t.Errorf("it is %s, ended %s (finished before %s), %q", a.State, a.Ended, at, a.Note)
			}
			if h := store.history[ticket.ID]; len(h) != 4 {
				t.Errorf("its states were %v", h)
			}
			d.Close(t.Context())
			if want := ticket.ID + " storage_busy\n" + ticket.ID + " "; said() != want {
				t.Errorf("it said %q, want %q", said(), want)
			}
		})
	}
}

// A short command does not live long enough to try again later: it does so when it
// ends, for as long as it may.
func TestWhatIsLateIsWrittenAtTheEnd(t *testing.T) {
	t.Parallel()
	d, store, ticket, _ := late(t, "me")
	if err := d.Finish(t.Context(), ticket, nil); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, func() { store.lock(false) })
	d.Close(t.Context())
	if got := store.state(ticket.ID); got != approval.Executed {
		t.Errorf("it is %s", got)
	}

	d, store, ticket, said := late(t, "me")
	if err := d.Finish(t.Context(), ticket, nil); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	d.Close(short)
	d.Close(short) // again does nothing worse
	if got := store.state(ticket.ID); got != approval.Executing || short.Err() == nil {
		t.Errorf("it is %s", got)
	}
	if !strings.Contains(said(), ticket.ID) {
		t.Errorf("nothing was said of it: %q", said())
	}
}

// Somebody else who found this process dead was first: nothing is written over it.
func TestALateEndOverwritesNothing(t *testing.T) {
	t.Parallel()
	d, store, ticket, _ := late(t, "me")
	if err := d.Finish(t.Context(), ticket, nil); err != nil {
		t.Fatal(err)
	}
	store.edit(ticket.ID, func(a *approval.Approval) { a.State = approval.Unknown })
	store.lock(false)
	d.Close(t.Context())
	if got := store.state(ticket.ID); got != approval.Unknown {
		t.Errorf("it is %s", got)
	}
}

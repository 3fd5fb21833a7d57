package approval_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// board notes what people are told of.
type board struct {
	mu  sync.Mutex
	got []approval.Notice
}

func (b *board) tell(n approval.Notice) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, n)
	return nil
}

// ids are the questions that people were told of, each as often as they were.
func (b *board) ids() (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.got {
		ids = append(ids, n.ID)
	}
	return ids
}

// telling is a desk of a process that tells people; of those in ended nobody lives.
func telling(t *testing.T, store *memory, process string, b *board, ended ...string) desk {
	t.Helper()
	c := &clock{}
	o := approval.Options{
		Store: store, Sealer: sealer{}, Clock: c.now, Process: func() string { return process }, NewID: func() string { return runtime.NewID("apr", c.now()) },
		Alive: func(holder string) bool { return !slices.Contains(ended, holder) },
	}
	if b != nil {
		o.Tell = b.tell
	}
	d, err := approval.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return desk{Desk: d, store: store, clock: c}
}

func (d desk) tellLeft(t *testing.T) int {
	t.Helper()
	n, err := d.TellLeft(t.Context(), runtime.DefaultTenant)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A process that is killed after it asked leaves a question that the next one tells of, in
// the very words; what it has told of, and what is over, nobody tells of again.
func TestWhatAProcessLeftUntoldIsTold(t *testing.T) {
	store, before, now := newMemory(), &board{}, &board{}
	killed := telling(t, store, "killed", before)
	told, answered, over, left := killed.ask(t, refund(agent("a"), "1")), killed.ask(t, refund(agent("a"), "2")), "", killed.ask(t, refund(agent("a"), "3"))
	if err := killed.Told(t.Context(), runtime.DefaultTenant, []string{told}); err != nil {
		t.Fatal(err)
	}
	killed.accept(t, answered)
	short := asked()
	short.Terms.Expires = time.Minute
	_, err := killed.Await(t.Context(), refund(agent("a"), "4"), short)
	over = wantCode(t, err, runtime.CodeApprovalPending).ApprovalID

	next := telling(t, store, "next", now, "killed")
	next.clock.turn(2 * time.Minute)
	if n := next.tellLeft(t); n != 1 || !slices.Equal(now.ids(), []string{left}) {
		t.Fatalf("told of %d, %v; want %s alone of %v", n, now.ids(), left, []string{told, answered, over, left})
	}
	first, _ := json.Marshal(before.got[2])
	if again, _ := json.Marshal(now.got[0]); string(first) != string(again) {
		t.Errorf("told otherwise:\n%s\n%s", first, again)
	}
	if n := next.tellLeft(t); n != 0 {
		t.Errorf("told of %d again", n)
	}
	third := telling(t, store, "third", now, "killed")
	third.clock.turn(2 * time.Minute)
	if n := third.tellLeft(t); n != 0 {
		t.Errorf("another process told of %d again", n)
	}
	last := telling(t, store, "last", now, "killed", "next") // before that one had
	last.clock.turn(2 * time.Minute)
	if n := last.tellLeft(t); n != 1 {
		t.Errorf("after the second kill told of %d", n)
	}
}

// Of many processes that begin at once one tells of each question.
func TestOneProcessTellsOfEachQuestion(t *testing.T) {
	store, b := newMemory(), &board{}
	killed := telling(t, store, "killed", &board{})
	for _, amount := range []string{"1", "2", "3", "4", "5"} {
		killed.ask(t, refund(agent("a"), amount))
	}
	var all sync.WaitGroup
	for _, name := range []string{"one", "two", "three", "four"} {
		next := telling(t, store, name, b, "killed")
		all.Go(func() {
			if _, err := next.TellLeft(t.Context(), runtime.DefaultTenant); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	ids := b.ids()
	slices.Sort(ids)
	if len(ids) != 5 || len(slices.Compact(ids)) != 5 {
		t.Errorf("told of %v", b.ids())
	}
}

// Where nobody is told, nothing is left for others; a process that lives tells itself, and one
// that tells nobody takes nothing from others.
func TestWhoHasYetToTell(t *testing.T) {
	store, b := newMemory(), &board{}
	mute := telling(t, store, "mute", nil)
	mute.ask(t, refund(agent("a"), "1"))
	busy := telling(t, store, "busy", &board{})
	busy.ask(t, refund(agent("a"), "2"))
	if n := telling(t, store, "next", b, "mute").tellLeft(t); n != 0 {
		t.Errorf("told of %d: %v", n, b.ids())
	}
	if n := telling(t, store, "mute", nil, "busy").tellLeft(t); n != 0 {
		t.Errorf("who tells nobody told of %d", n)
	}
	if n := telling(t, store, "busy", b, "busy").tellLeft(t); n != 0 {
		t.Errorf("who is taken for dead, as its lock was removed, told again of %d of its own", n)
	}
	if n := telling(t, store, "next", b, "busy").tellLeft(t); n != 1 {
		t.Errorf("told of %d", n)
	}
}

// While the vault is shut a question stays left, and is told of once it is open; one that
// was changed is nobody's to decide, and keeps none from being told of others.
func TestLeftQuestionsOfAShutVault(t *testing.T) {
	store, b := newMemory(), &board{}
	killed := telling(t, store, "killed", &board{})
	one, changed, two := killed.ask(t, refund(agent("a"), "1")), killed.ask(t, refund(agent("a"), "2")), killed.ask(t, refund(agent("a"), "3"))
	store.edit(changed, func(a *approval.Approval) { a.Agent = "mallory" })
	vault := &bolted{shut: true}
	next := telling(t, store, "next", b, "killed")
	var err error
	next.Desk, err = approval.New(approval.Options{
		Store: store, Sealer: vault, Clock: next.clock.now, Process: func() string { return "next" }, NewID: func() string { return "apr" },
		Alive: func(holder string) bool { return holder == "next" }, Tell: b.tell,
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := next.TellLeft(context.Background(), runtime.DefaultTenant); n != 0 || runtime.CodeOf(err) != runtime.CodeVaultLocked {
		t.Errorf("told of %d: %v", n, err)
	}
	vault.shut = false
	if n := next.tellLeft(t); n != 2 || !slices.Contains(b.ids(), one) || !slices.Contains(b.ids(), two) {
		t.Errorf("told of %d: %s", n, strings.Join(b.ids(), " "))
	}
}

// balky is a vault that cannot open the first thing it is asked for.
type balky struct {
	sealer
	asked bool
}

func (b *balky) OpenFor(ctx context.Context, tenant runtime.Tenant, purpose string, sealed, aad []byte) ([]byte, error) {
	if !b.asked {
		b.asked = true
		return nil, &runtime.Error{Code: runtime.CodeInternal, Msg: "not now"}
	}
	return b.sealer.OpenFor(ctx, tenant, purpose, sealed, aad)
}

// A question that cannot be opened now is told of later, and keeps none from being told of others.
func TestOneLeftQuestionThatCannotBeOpened(t *testing.T) {
	store, b := newMemory(), &board{}
	killed := telling(t, store, "killed", &board{})
	for _, amount := range []string{"1", "2", "3"} {
		killed.ask(t, refund(agent("a"), amount))
	}
	next := telling(t, store, "next", b, "killed")
	var err error
	next.Desk, err = approval.New(approval.Options{
		Store: store, Sealer: &balky{}, Clock: next.clock.now, Process: func() string { return "next" }, NewID: func() string { return "apr" },
		Alive: func(holder string) bool { return holder == "next" }, Tell: b.tell,
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := next.TellLeft(t.Context(), runtime.DefaultTenant); n != 2 || runtime.CodeOf(err) != runtime.CodeInternal {
		t.Errorf("told of %d: %v", n, err)
	}
	if n := next.tellLeft(t); n != 1 || len(b.ids()) != 3 {
		t.Errorf("then told of %d: %v", n, b.ids())
	}
}

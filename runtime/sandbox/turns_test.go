package sandbox

import (
	"context"
	"testing"
)

// Between owners it goes in turn, whoever came first with how many.
func TestTurnsGoFromOwnerToOwner(t *testing.T) {
	turns := newTurns(1, 8)
	enter := func(owner string, got chan<- string) {
		before := turns.count()
		go func() {
			if ok, err := turns.enter(context.Background(), owner); !ok || err != nil {
				got <- "refused"
				return
			}
			got <- owner
		}()
		for turns.count() == before {
		}
	}
	got := make(chan string, 10)
	if ok, _ := turns.enter(t.Context(), "a"); !ok {
		t.Fatal("the first one waits")
	}
	for _, owner := range []string{"a", "a", "a", "b", "a", "c"} {
		enter(owner, got)
	}
	if ok, _ := turns.enter(t.Context(), "a"); ok {
		t.Error("a has more than half of the queue")
	}
	order := ""
	for range 6 {
		turns.leave()
		order += <-got
	}
	if order != "abcaaa" {
		t.Error(order)
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	if ok, err := turns.enter(gone, "b"); ok || err == nil {
		t.Error("who has gone has a turn")
	}
	turns.leave()
	if ok, _ := turns.enter(t.Context(), "b"); !ok || turns.running != 1 {
		t.Error("a turn was lost")
	}
}

func (t *turns) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting
}

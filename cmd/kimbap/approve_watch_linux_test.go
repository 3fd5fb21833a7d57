package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// A look at what waits opens what is new to the watcher, and nothing that it has shown.
func TestAWatcherOpensOnlyWhatIsNew(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: asksWrites})
	ask := func(n int) {
		t.Helper()
		if said := invoke(t, k, "", nil, "call", "notes.create-note", "--text", fmt.Sprint("rice ", n), "--no-wait"); !strings.HasPrefix(said, "exit 6\n") {
			t.Fatal(said)
		}
	}
	owner := k.Open(t, "watcher")
	shown := map[string]bool{}
	look := func() (list []app.Approval, statements int) {
		t.Helper()
		before := len(k.Log.String())
		list, err := owner.WatchApprovals(t.Context(), time.Minute, func(id string) bool { return shown[id] })
		check(t, err)
		return list, strings.Count(k.Log.String()[before:], "SELECT sealed FROM held")
	}
	if list, opened := look(); len(list)+opened > 0 {
		t.Fatalf("nothing waits: %v, %d opened", list, opened)
	}
	for n := range 3 {
		ask(n)
	}
	list, all := look()
	if len(list) != 3 || all < 3 {
		t.Fatalf("three are new: %v, %d opened", list, all)
	}
	for _, p := range list[1:] {
		shown[p.ID] = true
	}
	if again, opened := look(); len(again) != 1 || again[0].ID != list[0].ID || !strings.HasSuffix(again[0].Summary, "text=rice 2") || opened == 0 || opened*3 != all {
		t.Errorf("one is new: %v, %d opened, and %d of three", again, opened, all)
	}
	shown[list[0].ID] = true
	if again, opened := look(); len(again)+opened > 0 {
		t.Errorf("none is new: %v, %d opened", again, opened)
	}
}

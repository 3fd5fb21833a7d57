package app_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// A database that fails one process in its writes, at one of them after another:
// no approval is executed twice, none that was accepted is lost, and the database
// is whole for everybody else. strace makes the kernel's answer.
func TestADatabaseThatFailsLosesNoApproval(t *testing.T) {
	t.Parallel()
	needsStrace(t)
	firsts := []int{2, 6}
	if rounds(t, 1) > 1 {
		firsts = []int{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20}
	}
	refused := 0
	for _, fault := range []string{"fsync,fdatasync:error=EIO", "pwrite64,write:error=ENOSPC"} {
		for _, first := range firsts {
			refused += failingDatabase(t, fault, fmt.Sprintf("%d..%d", first, first+2))
		}
	}
	if refused == 0 {
		t.Error("nothing was ever refused: the faults are not met")
	}
}

// failingDatabase returns how many requests were refused for the fault.
func failingDatabase(t *testing.T, fault, when string) (refused int) {
	t.Helper()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person := k.Open(t, "")
	address, _ := failing(t, k, fault, when, "kimbap.db", "kimbap.db-wal")
	if address == "" {
		return 1 // it could not begin, and said so
	}
	// Each on a connection of its own: a refusal for a fault ends the connection.
	send := func(proxy, body string) apptest.Answer {
		return apptest.Send(t, k.ClientOf(t, proxy, ""), write, body)
	}
	accepted := map[string]string{}
	for n := range 6 {
		body := fmt.Sprintf(`{"text":"body %d"}`, n)
		asked := send(address, body)
		if asked.Status >= http.StatusInternalServerError {
			refused++
			asked = send(k.Proxy, body)
		}
		id := asked.Problem.Approval
		if id == "" {
			t.Fatalf("%s %s: asked: %d %+v", fault, when, asked.Status, asked.Problem)
		}
		if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
			t.Fatalf("%s %s: %v", fault, when, err)
		}
		accepted[body] = id
		if a := send(address, body); a.Status != http.StatusOK {
			refused++
			_ = send(k.Proxy, body) // whoever has no trouble does it
		}
	}
	seen := map[string]int{}
	for _, r := range k.Up.Requests() {
		seen[string(r.Body)]++
	}
	states := map[string]string{}
	list, err := person.ListApprovals(t.Context(), true)
	if err != nil {
		t.Fatalf("%s %s: the database: %v", fault, when, err)
	}
	for _, a := range list {
		states[a.ID] = a.State
	}
	for body, id := range accepted {
		begun := states[id] == "executing" || states[id] == "unknown" || states[id] == "failed"
		if seen[body] > 1 || seen[body] == 0 && !begun || seen[body] == 1 && states[id] == "approved" {
			t.Errorf("%s %s: %s was executed %d times and is %s", fault, when, body, seen[body], states[id])
		}
	}
	k.Verify(t)
	return refused
}

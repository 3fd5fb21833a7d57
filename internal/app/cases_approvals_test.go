package app_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/approval"

	_ "modernc.org/sqlite" // somebody with the database open
)

// AP-001: yes and no race in processes of their own; one wins, the other is told,
// and the trail has both attempts and how the second ended.
func TestAP001BothAttemptsAreRecorded(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	ann, bob := k.Open(t, ""), k.Open(t, "")
	for i := range 20 {
		body := fmt.Sprintf(`{"text":"race %d"}`, i)
		id := k.Do(t, write, body).Problem.Approval
		var wg sync.WaitGroup
		var errs [2]error
		wg.Go(func() { _, errs[0] = ann.Accept(t.Context(), id, app.Yes{}) })
		wg.Go(func() { _, errs[1] = bob.Reject(t.Context(), id, "no") })
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("accept: %v, reject: %v", errs[0], errs[1])
		}
		if lost := errors.Join(errs[:]...); !errors.Is(lost, approval.ErrDecided) {
			t.Errorf("the loser is told %v", lost)
		}
		tried, lost := 0, 0
		for _, r := range k.Records(t) {
			if r.Kind == "event" && r.Fields["approval"] == id {
				if tried++; r.Fields["result"] != "" {
					lost++
				}
			}
		}
		if tried != 3 || lost != 1 { // two attempts, and the loser's end
			t.Errorf("%d records of the decision, %d of them an end", tried, lost)
		}
		if errs[0] == nil {
			if a := k.Do(t, write, body); a.Status != http.StatusOK {
				t.Fatalf("%d %+v", a.Status, a.Problem)
			}
		}
	}
	k.Verify(t)
}

// A hundred people decide on one held request, in several processes over one
// database: one decision, everybody else told, and one execution.
func TestAHundredDecidersOneExecution(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	var people []*app.App
	for range 4 {
		people = append(people, k.Open(t, ""))
	}
	beat(t, people[0])
	got := make(chan apptest.Answer, 1)
	client := k.Client(t, "")
	go func() { got <- apptest.Send(t, client, write, `{"text":"once"}`) }()
	id := waiting(t, people[0])
	var mu sync.Mutex
	won, told := 0, 0
	var wg sync.WaitGroup
	start := make(chan struct{})
	decide := func(i int) {
		<-start
		_, err := people[i%4].Accept(t.Context(), id, app.Yes{})
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			won++
		case errors.Is(err, approval.ErrDecided):
			told++
		default:
			t.Errorf("decider %d: %v", i, err)
		}
	}
	for i := range 100 {
		wg.Go(func() { decide(i) })
	}
	close(start)
	wg.Wait()
	if a := <-got; a.Status != http.StatusOK {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	if won != 1 || told != 99 || len(k.Up.Requests()) != 1 {
		t.Errorf("%d decisions, %d told, %d executions", won, told, len(k.Up.Requests()))
	}
}

// AP-004: what is edited in the database after the yes is refused and recorded,
// and nothing of it leaves.
func TestAP004EditedDatabase(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person := k.Open(t, "")
	const one, other = `{"text":"one"}`, `{"text":"999999"}`
	good, bad := k.Do(t, write, one).Problem.Approval, k.Do(t, write, other).Problem.Approval
	if _, err := person.Accept(t.Context(), good, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(k.Dir, "kimbap.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	edit := func(text string, args ...any) {
		t.Helper()
		if _, err := db.Exec(text, args...); err != nil {
			t.Fatal(err)
		}
	}
	// The yes to one request is put under the other.
	edit(`UPDATE approvals SET state = 'approved', decider = o.decider, presence = o.presence, proof = o.proof, decided = o.decided
		FROM approvals AS o WHERE approvals.id = ? AND o.id = ?`, bad, good)
	// And the accepted one gets the other's content, and digest.
	edit(`UPDATE held SET sealed = o.sealed FROM held AS o WHERE held.approval = ? AND o.approval = ?`, good, bad)
	for i, body := range []string{one, other} {
		a := k.Do(t, write, body)
		if a.Status != http.StatusForbidden || a.Problem.Reason != "tampered" {
			t.Errorf("%s: %d %+v", body, a.Status, a.Problem)
		}
		apptest.Eventually(t, "a record of it", func() bool {
			found := 0
			for _, r := range k.Records(t) {
				if r.Kind == "outcome" && r.Reason == "tampered" {
					found++
				}
			}
			return found == i+1
		})
	}
	if n := len(k.Up.Requests()); n != 0 {
		t.Errorf("%d requests left", n)
	}
}

// AP-007: an accepted approval is of no use to another agent's token, nor is its
// page.
func TestAP007AnotherTokenGetsNothing(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person := k.Open(t, "")
	token := func(agent string) string {
		secret, _, err := person.CreateToken(t.Context(), app.TokenGrant{Agent: agent, Scopes: []string{"*"}, TTL: 3600e9})
		if err != nil {
			t.Fatal(err)
		}
		return secret.Reveal()
	}
	mine, theirs := k.Client(t, token("claude")), k.Client(t, token("claude"))
	id := apptest.Send(t, mine, write, `{"text":"x"}`).Problem.Approval
	if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if a := apptest.Send(t, theirs, write, `{"text":"x"}`); a.Problem.Code != "approval_pending" || a.Problem.Approval == id {
		t.Errorf("another token: %d %+v", a.Status, a.Problem)
	}
	if a := apptest.Send(t, mine, write, `{"text":"x"}`); a.Status != http.StatusOK {
		t.Errorf("its own: %d %+v", a.Status, a.Problem)
	}
	if a := apptest.Send(t, mine, write, `{"text":"x"}`); !strings.HasPrefix(a.Problem.Code, "approval_") || len(k.Up.Requests()) != 1 {
		t.Errorf("used twice: %d %+v", a.Status, a.Problem)
	}
}

package app_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// acceptedWrite asks for a write, which is accepted, and returns the approval.
func acceptedWrite(t *testing.T, k *apptest.Kimbap) (person *app.App, id string) {
	t.Helper()
	a := k.Do(t, write, `{"text":"once"}`)
	person = k.Open(t, "person")
	if _, err := person.Accept(t.Context(), a.Problem.Approval, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	return person, a.Problem.Approval
}

// executedAlready reports whether somebody was told that there is nothing left to execute.
func executedAlready(err error) bool {
	e := runtime.AsError(err)
	return e != nil && e.Code == runtime.CodeInvalidInput && e.Reason == "executed_already" && e.Status() == http.StatusConflict
}

// Who asks for the result while another one collects it is told that, and afterwards that it
// was executed.
func TestWhoCollectsLateHearsWhatHappens(t *testing.T) {
	t.Parallel()
	arrived, let := make(chan struct{}), make(chan struct{})
	o := apptest.Options{Policy: askWrites}
	o.Upstream.Routes = map[string]servicestest.Behave{"/notes": func(c *servicestest.Conn, _ *servicestest.Request) bool {
		close(arrived)
		<-let
		return c.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}}
	k := apptest.New(t, o)
	_, id := acceptedWrite(t, k)
	ended := make(chan error, 1)
	first := k.Open(t, "first")
	go func() { _, _, err := first.WaitApproval(t.Context(), id, &app.Answer{}, nil); ended <- err }()
	<-arrived
	_, _, err := k.Open(t, "second").WaitApproval(t.Context(), id, &app.Answer{}, nil)
	if e := runtime.AsError(err); e == nil || e.Code != runtime.CodeInvalidInput || e.Reason != "being_executed" || e.Status() != http.StatusConflict || strings.Contains(e.Hint, "ask again") {
		t.Errorf("meanwhile: %+v", e)
	}
	close(let)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	third := k.Open(t, "third")
	apptest.Eventually(t, "the end is kept", func() bool { // which the first does not wait for
		_, _, err := third.WaitApproval(t.Context(), id, &app.Answer{}, nil)
		return executedAlready(err)
	})
}

// One yes is one execution, also where the rules have come to allow without asking.
func TestWhatIsCollectedIsDoneOnceWhateverTheRulesSay(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person, id := acceptedWrite(t, k)
	k.Write(t, "policy.yaml", "version: 1\nrules: [{name: open, match: {action: notes.create-note}, then: allow}]\n")
	for n := range 3 {
		_, _, err := k.Open(t, "other").WaitApproval(t.Context(), id, &app.Answer{}, nil)
		if n == 0 && err != nil || n > 0 && !executedAlready(err) {
			t.Errorf("collected %d times before: %v", n, err)
		}
	}
	k.Write(t, "policy.yaml", askWrites)
	if _, _, err := k.Open(t, "other").WaitApproval(t.Context(), id, &app.Answer{}, nil); !executedAlready(err) {
		t.Errorf("with the rule gone again: %v", err)
	}
	if n := len(k.Up.Requests()); n != 1 {
		t.Errorf("the upstream saw %d requests", n)
	}
	all, err := person.ListApprovals(t.Context(), true)
	if err != nil || len(all) != 1 || all[0].State != "executed" {
		t.Errorf("%+v, %v", all, err)
	}
}

// Who collects at the same time as another is told so, and asks nobody anew.
func TestCollectingAtOnceAsksNobodyAnew(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person, id := acceptedWrite(t, k)
	const collectors = 6
	var wait sync.WaitGroup
	ends := make(chan error, collectors)
	begin := make(chan struct{})
	for range collectors {
		other := k.Open(t, "other")
		wait.Go(func() {
			<-begin
			_, _, err := other.WaitApproval(t.Context(), id, &app.Answer{}, nil)
			ends <- err
		})
	}
	close(begin)
	wait.Wait()
	close(ends)
	done, late := 0, 0
	for err := range ends {
		switch {
		case err == nil:
			done++
		case executedAlready(err) || runtime.AsError(err).Reason == "being_executed":
			late++
		default:
			t.Error(err)
		}
	}
	if done != 1 || late != collectors-1 || len(k.Up.Requests()) != 1 {
		t.Errorf("%d done, %d late, the upstream saw %d requests", done, late, len(k.Up.Requests()))
	}
	if all, err := person.ListApprovals(t.Context(), true); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A yes that was given on weaker terms than the rules have now is none.
func TestWhatIsCollectedMeetsTheTermsOfToday(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	_, id := acceptedWrite(t, k)
	k.Write(t, "policy.yaml", "version: 1\nrules: [{name: ask, match: {action: notes.create-note}, then: require_approval, approval: {count: 2}}]\n")
	if _, _, err := k.Open(t, "other").WaitApproval(t.Context(), id, &app.Answer{}, nil); runtime.AsError(err) == nil || runtime.AsError(err).Reason != runtime.ReasonPolicyChanged {
		t.Errorf("collected: %v", err)
	}
	if n := len(k.Up.Requests()); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
}

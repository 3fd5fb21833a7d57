package app_test

import (
	"sync"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
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

// One yes is one execution, also where the rules have come to allow without asking.
func TestWhatIsCollectedIsDoneOnceWhateverTheRulesSay(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person, id := acceptedWrite(t, k)
	k.Write(t, "policy.yaml", "version: 1\nrules: [{name: open, match: {action: notes.create-note}, then: allow}]\n")
	for n, want := range []runtime.Code{"", runtime.CodeApprovalExpired, runtime.CodeApprovalExpired} {
		_, _, err := k.Open(t, "other").WaitApproval(t.Context(), id, &app.Answer{})
		if code := runtime.CodeOf(err); code != want {
			t.Errorf("collected %d times before: %v", n, err)
		}
	}
	k.Write(t, "policy.yaml", askWrites)
	if _, _, err := k.Open(t, "other").WaitApproval(t.Context(), id, &app.Answer{}); runtime.CodeOf(err) != runtime.CodeApprovalExpired {
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
	codes := make(chan runtime.Code, collectors)
	begin := make(chan struct{})
	for range collectors {
		other := k.Open(t, "other")
		wait.Go(func() {
			<-begin
			_, _, err := other.WaitApproval(t.Context(), id, &app.Answer{})
			codes <- runtime.CodeOf(err)
		})
	}
	close(begin)
	wait.Wait()
	close(codes)
	counts := map[runtime.Code]int{}
	for code := range codes {
		counts[code]++
	}
	if counts[""] != 1 || counts[runtime.CodeApprovalExpired] != collectors-1 || len(k.Up.Requests()) != 1 {
		t.Errorf("%v, the upstream saw %d requests", counts, len(k.Up.Requests()))
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
	if _, _, err := k.Open(t, "other").WaitApproval(t.Context(), id, &app.Answer{}); runtime.AsError(err) == nil || runtime.AsError(err).Reason != runtime.ReasonPolicyChanged {
		t.Errorf("collected: %v", err)
	}
	if n := len(k.Up.Requests()); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
}

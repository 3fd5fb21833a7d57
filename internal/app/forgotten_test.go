package app_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// With audit.retention a question that nobody answered, or looked at since, goes with the
// records of its time: what was asked does not stay for that.
func TestAQuestionThatNobodyLookedAtIsForgotten(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	k := apptest.New(t, apptest.Options{
		Policy: askWrites, Config: "audit: {retention: 1h}\n",
		Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	asked := k.Do(t, write, `{"text":"one"}`).Problem.Approval
	if asked == "" {
		t.Fatal("nobody is asked")
	}
	for range 3 { // each a segment of its own
		ahead.Add(int64(12 * time.Hour))
		if got := k.Do(t, "GET https://"+apptest.Host+"/notes/1", ""); got.Status != 200 {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		a := k.Open(t, "")
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := k.Open(t, "").ShowApproval(t.Context(), asked, false); !errors.Is(err, approval.ErrUnknown) {
		t.Errorf("it is still there: %v", err)
	}
}

// A script whose question is forgotten with the records of its time goes on as with one
// whose time is over.
func TestAScriptWhoseQuestionIsForgottenGoesOn(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	k, client := scripting(t, apptest.Options{
		Config: "audit: {retention: 1h}\n",
		Clock:  func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	got := execute(t, client, `return await tools.notes.deleteNote({id: 7}).catch(e => [e.name, e.code])`)
	if got.Paused == nil {
		t.Fatalf("%s", got.text)
	}
	for range 2 {
		ahead.Add(int64(10 * time.Hour))
		if got := k.Do(t, "GET https://"+apptest.Host+"/notes/1", ""); got.Status != 200 {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		if err := k.Open(t, "").Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := k.Open(t, "").ShowApproval(t.Context(), got.Paused.ApprovalID, false); !errors.Is(err, approval.ErrUnknown) {
		t.Fatalf("the question is still there: %v", err)
	}
	end := post(t, client, "/v1/exec/"+got.ExecutionID+"/resume", map[string]any{}, "")
	if string(end.Value) != `["ToolError","approval_expired"]` {
		t.Errorf("%d %s", end.status, end.text)
	}
}

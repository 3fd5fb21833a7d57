package runtime_test

import (
	"context"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// The answer went out whole: that its end could not be written down is no error of
// the request, which a client would send again.
func TestAnEndThatCannotBeWrittenIsNoErrorOfTheRequest(t *testing.T) {
	s, out := &runtimetest.Stages{OnDecide: ask}, &runtimetest.Responder{}
	finished := 0
	s.OnFinish = func(_ context.Context, _ runtime.Ticket, err error) error {
		if finished++; err != nil {
			t.Errorf("finished with %v", err)
		}
		return &runtime.Error{Code: runtime.CodeStorageBusy, Msg: "the store did not answer in time"}
	}
	err := pipeline(t, s).Do(t.Context(), &runtime.Request{}, out)
	o := s.Outcomes()
	if err != nil || finished != 1 || len(o) != 1 || o[0].Err != nil || o[0].ApprovalID == "" {
		t.Errorf("error %v, finished %d times, outcomes %+v", err, finished, o)
	}
	if a := out.Answer(); a.Body != "ok" || a.Aborted != nil {
		t.Errorf("answer %+v", a)
	}
}

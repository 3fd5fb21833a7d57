package rest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// misread is a body that cannot be read for what the caller sent. As net/http does, it ends
// the context of its request first.
type misread struct {
	end  func()
	told error
}

func (m misread) Read([]byte) (int, error) {
	m.end()
	return 0, m.told
}

// What was wrong with a body on its way is told, also where the end of the request's
// context comes first: its caller has not gone away.
func TestABodyThatIsRefusedOnItsWayIsToldSo(t *testing.T) {
	refusal := &runtime.Error{Code: runtime.CodeAmbiguousTarget, Msg: "not well chunked"}
	r := newRig(t, servicestest.Options{})
	for name, c := range map[string]struct {
		cause, told error
		code        runtime.Code
	}{
		"by its reader":  {nil, refusal, runtime.CodeAmbiguousTarget},
		"by its context": {refusal, errors.New("read"), runtime.CodeAmbiguousTarget},
		"by nobody":      {context.Canceled, errors.New("read"), runtime.CodeCanceled},
	} {
		for _, length := range []int64{-1, 9} {
			ctx, cancel := context.WithCancelCause(t.Context())
			end := func() {
				if c.cause != nil {
					cancel(c.cause)
				}
			}
			_, err := r.backend.Execute(ctx, body(r.call("POST", "/echo"), misread{end, c.told}, length), &runtimetest.Responder{})
			cancel(nil)
			if runtime.CodeOf(err) != c.code {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// What the caller did on its connection ends its request on the way: whether that has
// happened nobody knows then, unless nothing had left.
func TestWhatIsCutOffMayHaveHappened(t *testing.T) {
	refusal := &runtime.Error{Code: runtime.CodeAmbiguousTarget, Stage: runtime.StageSurface, Msg: "its frames are malformed"}
	r := newRig(t, servicestest.Options{})
	for _, begun := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		ended := make(chan error, 1)
		if !begun {
			cancel(refusal)
		}
		before := len(r.Requests())
		go func() {
			_, err := r.backend.Execute(ctx, r.call("POST", "/silent"), &runtimetest.Responder{})
			ended <- err
		}()
		if begun {
			r.Await(t, func(all []servicestest.Request) bool { return len(all) > before })
			cancel(refusal)
		}
		if err := <-ended; runtime.CodeOf(err) != runtime.CodeAmbiguousTarget || runtime.MayHaveHappened(err) != begun {
			t.Errorf("begun %v: %v, may have happened: %v", begun, err, runtime.MayHaveHappened(err))
		}
	}
}

package runtime_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// A contained panic is an internal error that says nothing of it to the caller; an error stays
// what it was.
func TestContain(t *testing.T) {
	run := func(f func() error) (err error) {
		defer runtime.Contain(&err)
		return f()
	}
	err := run(func() error { panic("the key is sk-1") })
	e := runtime.AsError(err)
	if e.Code != runtime.CodeInternal || strings.Contains(e.Msg+e.Hint, "sk-1") || !strings.Contains(e.Err.Error(), "contain_test.go") {
		t.Errorf("%+v", e)
	}
	other := errors.New("other")
	if err := run(func() error { return other }); !errors.Is(err, other) {
		t.Error(err)
	}
}

package vm_test

import (
	"sync"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
	"github.com/kimbap-run/kimbap/runtime/sandbox/vm"
)

// A world that was built ahead is one run's, also when it is asked for while it is
// being built: what a script does to it no other script sees.
func TestAWorldIsOneRunsOnly(t *testing.T) {
	p, refusals := gate.Check(`const before = Object.prototype.left; Object.prototype.left = 1; Array.prototype.map = null; return String(before)`)
	if p == nil {
		t.Fatal(refusals)
	}
	e := vm.New()
	var all sync.WaitGroup
	for range 8 {
		all.Go(e.Prepare)
		all.Go(func() {
			done := e.Run(t.Context(), p, frame.Run{Now: start, Limits: limits()}, newHost())
			if done.Value != `"undefined"` {
				t.Errorf("%+v: it has another script's world", done)
			}
		})
	}
	all.Wait()
}

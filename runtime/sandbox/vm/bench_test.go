package vm_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
	"github.com/kimbap-run/kimbap/runtime/sandbox/vm"
)

// BenchmarkRun is what a script costs beside its calls: the gate, and a new engine.
// The aim is less than a millisecond together.
func BenchmarkRun(b *testing.B) {
	const source = `const r = await tools.demo.echo({a: 1}); return r.a`
	b.Run("gate", func(b *testing.B) {
		for b.Loop() {
			gate.Check(source)
		}
	})
	b.Run("typescript", func(b *testing.B) {
		for b.Loop() {
			gate.Check(`const r: {a: number} = await tools.demo.echo({a: 1}); return r.a`)
		}
	})
	p, _ := gate.Check(source)
	b.Run("engine", func(b *testing.B) {
		for b.Loop() {
			vm.New().Run(b.Context(), p, frame.Run{Now: start, Limits: limits()}, &host{replies: make(chan frame.Reply, 4), now: start})
		}
	})
}

package worker

import (
	"context"
	"io"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
	"github.com/kimbap-run/kimbap/runtime/sandbox/vm"
)

// Script is the engine of script mode: the gate and the virtual machine.
func Script() Engine { return script{vm.New()} }

type script struct{ engine vm.Ahead }

// Prepare implements [Engine]. Beside the world of the script it runs one of our own in
// another world, so that the first run of code, which is slow, is not the stranger's.
func (s script) Prepare(asked func() bool) {
	s.engine.Prepare()
	if asked() {
		return
	}
	program, _ := gate.Check(`const { items } = await tools.a.b({ c: [1, "d"] }); return items.map(i => i.id)`)
	replies := make(chan frame.Reply, 1)
	replies <- frame.Reply{Seq: 1, Value: `{"items": [{"id": 1}]}`}
	say := func(m *frame.ToHost) { _ = frame.Write(io.Discard, m) }
	vm.New().Run(context.Background(), program, frame.Run{}, mouth{say, replies})
}

// Check implements [Engine].
func (s script) Check(source string) (Program, *frame.Checked) {
	program, refusals := gate.Check(source)
	if program == nil {
		return nil, &frame.Checked{Refusals: refusals}
	}
	checked := program.Checked()
	return passed{s.engine, program}, &checked
}

// passed is a script that the gate let pass.
type passed struct {
	engine  vm.Engine
	program *gate.Program
}

// Run implements [Program]. The end of a worker's patience is the end of the
// process: there is no context that could end before.
func (p passed) Run(run *frame.Run, say func(*frame.ToHost), replies <-chan frame.Reply) *frame.Done {
	done := p.engine.Run(context.Background(), p.program, *run, mouth{say, replies})
	return &done
}

// mouth speaks for the virtual machine on the pipe.
type mouth struct {
	say     func(*frame.ToHost)
	replies <-chan frame.Reply
}

func (m mouth) Call(c frame.Call)           { m.say(&frame.ToHost{Call: &c}) }
func (m mouth) Log(l frame.Log)             { m.say(&frame.ToHost{Log: &l}) }
func (m mouth) Idle(i frame.Idle)           { m.say(&frame.ToHost{Idle: &i}) }
func (m mouth) Replies() <-chan frame.Reply { return m.replies }

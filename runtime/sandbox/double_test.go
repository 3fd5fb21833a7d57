package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// machine is a worker without a process: a program in Go that speaks the frames.
// Like the real one it takes one reply at a time, and says Idle when it waits.
type machine struct {
	in      chan *frame.ToWorker
	out     chan *frame.ToHost
	gone    chan struct{}
	kill    sync.Once
	seq     int
	replied map[int]*frame.Reply
	ticks   map[int]bool // the calls that are timers
	now     int64
	seed    uint64
}

// program is what a script does.
type program func(m *machine) any

var errGone = errors.New("the machine is gone")

// start runs a program for whatever source it is given.
func start(p program) *machine {
	m := &machine{
		in: make(chan *frame.ToWorker, 100), out: make(chan *frame.ToHost), gone: make(chan struct{}), replied: map[int]*frame.Reply{},
		ticks: map[int]bool{},
	}
	go func() {
		defer func() {
			if r := recover(); r != nil && r != any(errGone) {
				panic(r)
			}
		}()
		if check := m.next(); check.Check.Source == "import x" {
			m.say(&frame.ToHost{Checked: &frame.Checked{Refusals: []frame.Refusal{{Line: 1, Column: 1, Message: "Import declarations are not allowed in sandboxed code"}}}})
			return
		}
		m.say(&frame.ToHost{Checked: &frame.Checked{Tools: []string{"notes.getNote"}}})
		run := m.next().Run
		m.now, m.seed = run.Now, run.Seed
		done := &frame.Done{}
		switch v := p(m).(type) {
		case *frame.Failure:
			done.Failure = v
		case nil:
		default:
			text, _ := json.Marshal(v)
			done.Value = string(text)
		}
		for seq := 1; seq <= m.seq; seq++ {
			if m.replied[seq] == nil {
				done.Unawaited = append(done.Unawaited, seq)
			}
		}
		m.say(&frame.ToHost{Done: done})
	}()
	return m
}

func (m *machine) next() *frame.ToWorker {
	select {
	case got := <-m.in:
		return got
	case <-m.gone:
		panic(errGone)
	}
}

func (m *machine) say(what *frame.ToHost) {
	select {
	case m.out <- what:
	case <-m.gone:
		panic(errGone)
	}
}

// call asks and goes on.
func (m *machine) call(path, args string) int {
	m.seq++
	m.say(&frame.ToHost{Call: &frame.Call{Seq: m.seq, Kind: frame.CallTool, Path: path, Args: args, Line: 1}})
	return m.seq
}

func (m *machine) timer(ms int) int {
	m.seq++
	m.ticks[m.seq] = true
	m.say(&frame.ToHost{Call: &frame.Call{Seq: m.seq, Kind: frame.CallTimer, Args: fmt.Sprint(ms)}})
	return m.seq
}

// first waits for the first reply to one of these calls.
func (m *machine) first(seqs ...int) (int, *frame.Reply) {
	for {
		for _, seq := range seqs {
			if r := m.replied[seq]; r != nil {
				return seq, r
			}
		}
		var got *frame.ToWorker
		select {
		case got = <-m.in:
		default:
			idle := &frame.Idle{Heard: len(m.replied)}
			for seq := 1; seq <= m.seq; seq++ {
				switch {
				case m.replied[seq] != nil:
				case m.ticks[seq]:
					idle.Timers = true
				default:
					idle.Waiting = append(idle.Waiting, seq)
				}
			}
			m.say(&frame.ToHost{Idle: idle})
			got = m.next()
		}
		m.now = got.Reply.Now
		m.replied[got.Reply.Seq] = got.Reply
	}
}

// await waits for one call and returns its value or its error as text.
func (m *machine) await(seq int) string {
	_, r := m.first(seq)
	if r.Error != nil {
		return r.Error.Code + ": " + r.Error.Message
	}
	return r.Value
}

// do is a call that is awaited.
func (m *machine) do(path, args string) string { return m.await(m.call(path, args)) }

func (m *machine) log(text string) {
	m.say(&frame.ToHost{Log: &frame.Log{Level: "log", Message: text}})
}

func (m *machine) Send(what *frame.ToWorker) error {
	select {
	case m.in <- what:
		return nil
	case <-m.gone:
		return errGone
	}
}

func (m *machine) Offer(what *frame.ToWorker) bool {
	select {
	case m.in <- what:
		return true
	default:
		return false
	}
}

func (m *machine) Recv() (*frame.ToHost, error) {
	select {
	case got := <-m.out:
		return got, nil
	case <-m.gone:
		return nil, errGone
	}
}

func (m *machine) Kill() { m.kill.Do(func() { close(m.gone) }) }

func (m *machine) Ended() (frame.Failure, error) {
	return frame.Failure{Kind: frame.KindMemory, Message: "the script wanted more than 96 MiB"}, nil
}

func notes() sandbox.Catalog {
	action := func(name string, risk runtime.Risk, idempotent bool, params ...runtime.Param) *runtime.Action {
		return &runtime.Action{
			Ref: runtime.Ref("notes." + name), Service: "notes", Name: name, Description: "Do " + name, Risk: risk, Idempotent: idempotent, Params: params,
		}
	}
	return sandbox.Catalog{
		Services: []sandbox.Service{{Name: "notes", Aliases: []string{"n"}, Description: "Notes, for tests", Actions: []*runtime.Action{
			action("get-note", runtime.RiskLow, true, runtime.Param{Name: "id", Type: runtime.TypeInteger, Required: true, Description: "which */ one"}),
			action("create-note", runtime.RiskMedium, false, runtime.Param{Name: "text", Type: runtime.TypeString}),
			action("delete-note", runtime.RiskHigh, true, runtime.Param{Name: "id", Type: runtime.TypeInteger, Required: true}),
			action("send-note", runtime.RiskHigh, false),
		}}, {Name: "other", Actions: []*runtime.Action{{Ref: "other.get-note", Service: "other", Name: "get-note", Risk: runtime.RiskLow}}}},
		Suggest: func(string) []string { return []string{"notes.get-note", "other.get-note"} },
	}
}

// memory is a journal and a sealer: what it seals is not what was given, and
// opens only as what it was sealed for.
type memory struct {
	mu    sync.Mutex
	rows  map[string]journal.Execution
	calls map[string]map[int]journal.Call
}

func (m *memory) WriteExecution(_ context.Context, e journal.Execution, calls []journal.Call) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, found := m.rows[e.ID]; found && (old.Holder != e.Holder || old.State == journal.Ended) {
		return false, nil
	}
	m.rows[e.ID] = e
	if m.calls[e.ID] == nil {
		m.calls[e.ID] = map[int]journal.Call{}
	}
	for _, c := range calls {
		m.calls[e.ID][c.Step] = c
	}
	return true, nil
}

func (m *memory) Execution(_ context.Context, tenant runtime.Tenant, id string) (journal.Execution, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, found := m.rows[id]
	return e, found && e.Tenant == tenant, nil
}

func (m *memory) ExecutionCalls(_ context.Context, _ runtime.Tenant, id string) ([]journal.Call, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []journal.Call
	for step := 1; step <= len(m.calls[id]); step++ {
		out = append(out, m.calls[id][step])
	}
	return out, nil
}

func (m *memory) ClaimExecution(_ context.Context, _ runtime.Tenant, id string, state journal.State, from, to string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.rows[id]
	if e.State != state || e.Holder != from {
		return false, nil
	}
	e.State, e.Holder = journal.Running, to
	m.rows[id] = e
	return true, nil
}

func (m *memory) DropExecutions(context.Context, time.Time) error { return nil }

// size is that of one execution; the lock is held.
func (m *memory) size(id string) (n int64) {
	for _, c := range m.calls[id] {
		n += int64(len(c.Sealed))
	}
	return n + int64(len(m.rows[id].Script)+len(m.rows[id].Result))
}

func (m *memory) ExecutionBytes(_ context.Context, tenant runtime.Tenant, principal string) (own, all int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, e := range m.rows {
		all += m.size(id)
		if e.Tenant == tenant && e.Principal == principal {
			own += m.size(id)
		}
	}
	return own, all, nil
}

func (m *memory) MostExecutions(context.Context) (tenant runtime.Tenant, principal string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sizes, ended, most := map[string]int64{}, map[string]bool{}, int64(0)
	for id, e := range m.rows {
		sizes[e.Principal] += m.size(id)
		ended[e.Principal] = ended[e.Principal] || e.State == journal.Ended
	}
	for who, size := range sizes {
		if ended[who] && size > most {
			tenant, principal, most = runtime.DefaultTenant, who, size
		}
	}
	return tenant, principal, nil
}

func (m *memory) ForgetEnded(_ context.Context, tenant runtime.Tenant, principal string, _ int64) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldest := ""
	for id, e := range m.rows {
		if e.Tenant == tenant && e.Principal == principal && e.State == journal.Ended && (oldest == "" || e.Expires.Before(m.rows[oldest].Expires)) {
			oldest = id
		}
	}
	freed := m.size(oldest)
	delete(m.rows, oldest)
	delete(m.calls, oldest)
	return freed, nil
}

func (m *memory) SealFor(_ context.Context, tenant runtime.Tenant, purpose string, plain, aad []byte) ([]byte, error) {
	return json.Marshal([]string{string(tenant), purpose, string(aad), string(plain)})
}

func (m *memory) OpenFor(_ context.Context, tenant runtime.Tenant, purpose string, sealed, aad []byte) ([]byte, error) {
	var parts []string
	if err := json.Unmarshal(sealed, &parts); err != nil || !slices.Equal(parts[:3], []string{string(tenant), purpose, string(aad)}) {
		return nil, errors.New("not what was sealed")
	}
	return []byte(parts[3]), nil
}

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// The purposes that seals are made for.
const (
	purposeScript = "exec.script"
	purposeCall   = "exec.call"
	purposeResult = "exec.result"
)

// lull is how long changes are gathered before they are written. What a crash
// takes of them the trail still has: no call leaves without its intent.
const lull = 250 * time.Millisecond

// diary gathers what of a session must be written into the journal. One write
// is under way at a time, so what is kept is always a beginning of what happened.
type diary struct {
	dirty   map[int]*call
	settled int // how many calls were answered
	timer   *time.Timer
	written chan error // of the write under way; nil: none is
	again   bool       // write at once after that
}

func (d *diary) changed(c *call) {
	if d.dirty == nil {
		d.dirty = map[int]*call{}
	}
	d.dirty[c.step] = c
	if d.timer == nil {
		d.timer = time.NewTimer(lull)
	}
}

// due is ready when it is time to write.
func (d *diary) due() <-chan time.Time {
	if d.timer == nil || d.written != nil {
		return nil
	}
	return d.timer.C
}

// page is a call as it shall be written, before it is sealed.
type page struct {
	step, settled int
	plain         []byte
}

func (d *diary) pages() ([]page, error) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	var out []page
	for step, c := range d.dirty {
		plain, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		out = append(out, page{step, c.Settled, plain})
	}
	d.dirty = nil
	return out, nil
}

// note begins to write what has changed; the end comes by diary.written.
func (s *session) note() {
	if s.diary.written != nil {
		s.diary.again = true
		return
	}
	pages, err := s.diary.pages()
	done := make(chan error, 1)
	s.diary.written = done
	if err != nil {
		done <- err
		return
	}
	row, r, who, due := s.row, s.r, s.who, s.due()
	plain, serr := json.Marshal(s.source)
	go func() {
		if serr == nil && due {
			serr = r.makeRoom(context.Background(), &who, 0)
		}
		if serr == nil {
			serr = r.write(context.Background(), row, plain, pages)
		}
		done <- serr
	}()
}

// noted takes the end of a write.
func (s *session) noted(err error) error {
	s.diary.written = nil
	if err != nil {
		return err
	}
	if s.diary.again {
		s.diary.again = false
		s.note()
	}
	return nil
}

// write seals and keeps.
func (r *Runner) write(ctx context.Context, row journal.Execution, script []byte, pages []page) error {
	ok, err := r.put(ctx, row, script, pages)
	if err == nil && !ok {
		err = taken(row.ID)
	}
	return err
}

// put is write that says false where the execution is another process's now, or has
// ended.
func (r *Runner) put(ctx context.Context, row journal.Execution, script []byte, pages []page) (ok bool, err error) {
	if row.Script, err = r.o.Sealer.SealFor(ctx, row.Tenant, purposeScript, script, bind(&row, 0, 0)); err != nil {
		return false, err
	}
	calls := make([]journal.Call, len(pages))
	for i, p := range pages {
		sealed, err := r.o.Sealer.SealFor(ctx, row.Tenant, purposeCall, p.plain, bind(&row, p.step, p.settled))
		if err != nil {
			return false, err
		}
		calls[i] = journal.Call{Step: p.step, Settled: p.settled, Sealed: sealed}
	}
	if row.Expires.IsZero() {
		row.Expires = r.o.Clock().Add(r.o.Keep)
	}
	return r.o.Store.WriteExecution(ctx, row, calls)
}

// bind is the additional data of a seal: which of an execution's texts it is, and
// whose.
func bind(row *journal.Execution, step, settled int) []byte {
	return fmt.Appendf(nil, "%s %d %d %s", row.ID, step, settled, row.Principal)
}

func taken(id string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("another process goes on with the execution %s", id),
		Hint: "ask for its result in a while",
	}
}

// stored is what a caller was told last, and how long the script had run.
type stored struct {
	Result Result
	Ran    time.Duration
}

func (st *stored) result() Result {
	out := st.Result
	if out.Calls == nil {
		out.Calls = []CallResult{}
	}
	return out
}

// entry is how an execution stands, as it shall be written, before it is sealed.
type entry struct {
	row    journal.Execution
	told   []byte // to the caller
	script []byte
	pages  []page
}

// entry gathers what is left to be written, with the state and what the caller is
// told. What has ended is not repeated: of that it matters no more whether the last
// of the calls were written.
func (s *session) entry(state journal.State, result Result, expires time.Time) (e entry, err error) {
	if s.diary.written != nil {
		err := <-s.diary.written
		s.diary.written, s.diary.again = nil, false
		if err != nil && state != journal.Ended {
			return e, err
		}
	}
	s.row.State, s.row.Expires = state, expires
	e.row = s.row
	if e.pages, err = s.diary.pages(); err != nil {
		return e, err
	}
	if state == journal.Ended { // nobody reads them any more, and there may be thousands
		e.pages = nil
	}
	if e.told, err = json.Marshal(stored{Result: result, Ran: s.source.Timeout - s.left}); err != nil {
		return e, err
	}
	e.script, err = json.Marshal(s.source)
	return e, err
}

// keepEntry seals and keeps an entry; false as put says it.
func (r *Runner) keepEntry(ctx context.Context, e *entry) (ok bool, err error) {
	if e.row.Result, err = r.o.Sealer.SealFor(ctx, e.row.Tenant, purposeResult, e.told, bind(&e.row, 0, 0)); err != nil {
		return false, err
	}
	return r.put(ctx, e.row, e.script, e.pages)
}

// conclude writes what is left, with the state and what the caller is told. It
// waits until that is durable.
func (s *session) conclude(ctx context.Context, state journal.State, result Result, expires time.Time) error {
	e, err := s.entry(state, result, expires)
	if err != nil {
		return err
	}
	ok, err := s.r.keepEntry(context.WithoutCancel(ctx), &e)
	s.row.Result = e.row.Result
	if err == nil && !ok {
		err = taken(s.id)
	}
	return err
}

// openResult reads what an execution's caller was told last.
func (r *Runner) openResult(ctx context.Context, row journal.Execution) (st stored, err error) {
	if len(row.Result) == 0 {
		st.Result.ExecutionID = row.ID
		return st, nil
	}
	return st, r.unseal(ctx, row, purposeResult, row.Result, bind(&row, 0, 0), &st)
}

// unseal opens one text of an execution. What does not open was edited.
func (r *Runner) unseal(ctx context.Context, row journal.Execution, purpose string, sealed, aad []byte, into any) error {
	plain, err := r.o.Sealer.OpenFor(ctx, row.Tenant, purpose, sealed, aad)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(plain))
		decoder.UseNumber()
		err = decoder.Decode(into)
	}
	if err == nil || ctx.Err() != nil || known(err) {
		return err
	}
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonTampered, Msg: "the stored execution is not what was written: somebody has edited it",
		Hint: "find out who can write to the store", Err: err,
	}
}

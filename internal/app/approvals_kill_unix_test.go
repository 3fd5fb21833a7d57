//go:build unix

package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/store/sqlite"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// Processes that ask, decide and execute are killed before and after every write
// to the store, and around the execution itself. Whatever happens, nothing is
// executed twice, and nothing is lost: what was not begun is done by whoever
// comes next, and what was begun and cut off is reported unknown.
func TestKilledAtEveryStateOfAnApproval(t *testing.T) {
	for _, kind := range []string{"one", "two people", "a while"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			kills := 0
			for step := range killSteps(kind) {
				for fault := 1; ; fault++ {
					w := newKillWorld(t, kind)
					died := w.walk(step, fault)
					w.check(step, fault)
					if !died {
						break
					}
					kills++
				}
			}
			if kills < 8 { // each write has two places, and there are four at least
				t.Errorf("%d kills only: the faults are not met", kills)
			}
		})
	}
}

// killSteps are the processes of a story, in order.
func killSteps(kind string) []string {
	steps := map[string][]string{
		"one": {"ask", "accept", "execute"}, "two people": {"ask", "accept", "second", "execute"},
		"a while": {"ask", "lasting", "execute", "again"},
	}
	return steps[kind]
}

type killWorld struct {
	t    *testing.T
	kind string
	dir  string
}

func newKillWorld(t *testing.T, kind string) *killWorld {
	t.Helper()
	w := &killWorld{t: t, kind: kind, dir: t.TempDir()}
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(w.dir, "kimbap.db"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := vault.NewMasterKeyFile(filepath.Join(w.dir, "master.key")); err != nil {
		t.Fatal(err)
	}
	return w
}

// walk runs the story, killing the process of one step at one place, and then
// that step once more. It reports whether the place was met.
func (w *killWorld) walk(step, fault int) (died bool) {
	w.t.Helper()
	for i, what := range killSteps(w.kind) {
		if i != step {
			w.run(what, 0)
			continue
		}
		if died = w.run(what, fault); died {
			w.run(what, 0)
		}
	}
	return died
}

// run starts one process and reports whether it was killed.
func (w *killWorld) run(what string, fault int) bool {
	w.t.Helper()
	cmd, said := start(w.t, "approvals", w.dir, what, strconv.Itoa(fault), w.kind)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return true
		}
	}
	if err != nil {
		w.t.Fatalf("%s, fault %d: %v\n%s%s", what, fault, err, out, said)
	}
	return false
}

// check looks at what became of it all.
func (w *killWorld) check(step, fault int) {
	w.t.Helper()
	db, desk, err := killDesk(w.t.Context(), w.dir, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := desk.Sweep(w.t.Context(), runtime.DefaultTenant); err != nil {
		w.t.Fatal(err)
	}
	list, err := desk.List(w.t.Context(), killOperator(), runtime.DefaultTenant, nil, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	if held, err := db.Unreleased(w.t.Context(), runtime.DefaultTenant, 100); err != nil || len(held) > 0 {
		w.t.Errorf("step %d, fault %d: requests of %v are still held: %v", step, fault, held, err)
	}
	states := map[approval.State]int{}
	for _, a := range list {
		if v, err := desk.Show(w.t.Context(), killOperator(), runtime.DefaultTenant, a.ID, false); err != nil || !strings.Contains(v.Text, "https://api.notes.test:443/notes") {
			w.t.Errorf("step %d, fault %d: %s is shown as %q: %v", step, fault, a.ID, v.Text, err)
		}
		states[a.State]++
		if a.State == approval.Executing || a.State == approval.Approved {
			w.t.Errorf("step %d, fault %d: %s is still %s", step, fault, a.ID, a.State)
		}
	}
	effects, err := os.ReadFile(filepath.Join(w.dir, "effects"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	seen := map[string]int{}
	for _, id := range strings.Fields(string(effects)) {
		if seen[id]++; seen[id] > 1 {
			w.t.Errorf("step %d, fault %d: %s was executed twice", step, fault, id)
		}
	}
	done, unknown := states[approval.Executed], states[approval.Unknown]
	if done == 0 && unknown == 0 || len(seen) < done || len(seen) > done+unknown {
		w.t.Errorf("step %d, fault %d: %d effects, states %v", step, fault, len(seen), states)
	}
}

// A process that asks is killed before and after each thing it does. People are told of each
// question that it left, if by another process.
func TestKilledBeforeAnybodyIsTold(t *testing.T) {
	asked := 0
	for fault := 1; ; fault++ {
		w := newKillWorld(t, "one")
		died := w.run("ask", fault)
		db, desk, err := killDesk(t.Context(), w.dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := desk.TellLeft(t.Context(), runtime.DefaultTenant); err != nil {
			t.Error(err)
		}
		list, err := desk.List(t.Context(), killOperator(), runtime.DefaultTenant, nil, 100)
		if err != nil {
			t.Fatal(err)
		}
		told, err := os.ReadFile(filepath.Join(w.dir, "told"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, a := range list {
			if asked++; !strings.Contains(string(told), a.ID) {
				t.Errorf("fault %d: nobody was told of %s", fault, a.ID)
			}
		}
		_ = db.Close()
		if !died {
			break
		}
	}
	if asked < 3 { // after it was stored, after it was told, and without a kill
		t.Errorf("%d questions only: the faults are not met", asked)
	}
}

// approvalsChild is one process of the story: args are the folder, the step, the
// place of the fault (0: none) and the kind of story.
func approvalsChild(args []string) int {
	fault, err := strconv.Atoi(args[2])
	if err == nil {
		err = killStep(context.Background(), args[0], args[1], fault, args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// killDesk opens the desk over a store that dies at a place.
func killDesk(ctx context.Context, dir string, fault int) (*mortal, *approval.Desk, error) {
	db, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "kimbap.db")})
	if err != nil {
		return nil, nil, err
	}
	key, err := vault.LoadMasterKey(filepath.Join(dir, "master.key"))
	if err != nil {
		return nil, nil, err
	}
	v, err := vault.New(vault.Options{Store: db, Key: key, Clock: time.Now})
	if err == nil {
		err = v.Open(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	m := &mortal{DB: db, fault: fault}
	desk, err := approval.New(approval.Options{
		Store: m, Sealer: v, Clock: time.Now, Process: func() string { return strconv.Itoa(os.Getpid()) }, PinMemory: 64,
		NewID: func() string { return runtime.NewID("apr", time.Now()) },
		Tell:  func(n approval.Notice) <-chan struct{} { m.tell(dir, n.ID); return nil },
		Alive: func(holder string) bool {
			pid, err := strconv.Atoi(holder)
			return err == nil && syscall.Kill(pid, 0) == nil
		},
	})
	return m, desk, err
}

func killOperator() runtime.Principal {
	return runtime.Principal{ID: "local:1", Kind: runtime.KindOperator, Tenant: runtime.DefaultTenant}
}

func killStep(ctx context.Context, dir, what string, fault int, kind string) error {
	m, desk, err := killDesk(ctx, dir, fault)
	if err != nil {
		return err
	}
	defer func() { _ = m.Close() }()
	verdict := runtime.Verdict{Effect: runtime.EffectAsk, Rule: "ask"}
	if kind == "two people" {
		verdict.Terms.Count = 2
	}
	switch what {
	case "ask":
		_, err := desk.Await(ctx, killCall("x"), verdict)
		if runtime.CodeOf(err) != runtime.CodeApprovalPending {
			return fmt.Errorf("asked: %w", err)
		}
		return nil
	case "execute":
		return m.execute(ctx, desk, dir, "x", verdict)
	case "again":
		return m.execute(ctx, desk, dir, "y", verdict)
	}
	by := killOperator()
	yes := approval.Yes{}
	switch what {
	case "second":
		by.ID = "local:2"
	case "lasting":
		yes.For = time.Hour
	}
	return accept(ctx, desk, by, yes)
}

// accept says yes to what waits; nothing does when the process before died after
// it had.
func accept(ctx context.Context, desk *approval.Desk, by runtime.Principal, yes approval.Yes) error {
	list, err := desk.List(ctx, by, runtime.DefaultTenant, []approval.State{approval.Pending}, 10)
	if err != nil || len(list) == 0 {
		return err
	}
	_, err = desk.Accept(ctx, by, runtime.DefaultTenant, list[0].ID, yes)
	if errors.Is(err, approval.ErrDecided) || errors.Is(err, approval.ErrVoted) {
		return nil // this person's yes is there already
	}
	return err
}

// execute uses the yes, if there is one, and has the effect.
func (m *mortal) execute(ctx context.Context, desk *approval.Desk, dir, text string, verdict runtime.Verdict) error {
	if _, err := desk.Sweep(ctx, runtime.DefaultTenant); err != nil {
		return err
	}
	ticket, err := desk.Await(ctx, killCall(text), verdict)
	if runtime.CodeOf(err) == runtime.CodeApprovalPending {
		return nil // it was used by the process that died, or no longer allows this
	}
	if err != nil {
		return err
	}
	m.at()
	f, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, ticket.ID); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	m.at()
	return desk.Finish(ctx, ticket, nil)
}

// killCall is the request of the story; its text is in the body.
func killCall(text string) *runtime.Call {
	call := &runtime.Call{
		Principal: &runtime.Principal{ID: "token:1", Kind: runtime.KindAgent, Tenant: runtime.DefaultTenant, Agent: "a"},
		Action:    &runtime.Action{Ref: "notes.create", Risk: runtime.RiskHigh, Digest: "d", Auth: &runtime.Auth{}},
		Request: &runtime.Request{Surface: runtime.SurfaceProxy, Action: "notes.create", Target: runtime.Target{
			Scheme: "https", Authority: "api.notes.test:443", Method: "POST", Path: "/notes",
		}},
	}
	call.Request.Raw = &runtime.Raw{Proto: "HTTP/1.1", ContentLength: int64(len(text)), Body: bytes.NewReader([]byte(text))}
	_, _ = call.Request.Raw.Buffer(100)
	return call
}

// mortal is a store that kills the process at a place: each write has one before
// it and one after.
type mortal struct {
	*sqlite.DB
	fault, passed int
}

func (m *mortal) at() {
	if m.passed++; m.passed == m.fault {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// tell is what tells people: a file that they read.
func (m *mortal) tell(dir, id string) {
	f, err := os.OpenFile(filepath.Join(dir, "told"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, id)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
	m.at()
}

func (m *mortal) AddApproval(ctx context.Context, a approval.Approval) error {
	m.at()
	defer m.at()
	return m.DB.AddApproval(ctx, a)
}

func (m *mortal) Ask(ctx context.Context, a approval.Approval, refused approval.Between, most int) (approval.Approval, bool, error) {
	m.at()
	defer m.at()
	return m.DB.Ask(ctx, a, refused, most)
}

func (m *mortal) Move(ctx context.Context, tenant runtime.Tenant, id string, from, to approval.State, c approval.Change) (bool, error) {
	m.at()
	defer m.at()
	return m.DB.Move(ctx, tenant, id, from, to, c)
}

func (m *mortal) Release(ctx context.Context, tenant runtime.Tenant, id string, kept []byte) (bool, error) {
	m.at()
	defer m.at()
	return m.DB.Release(ctx, tenant, id, kept)
}

func (m *mortal) AddVote(ctx context.Context, v approval.Vote) (bool, error) {
	m.at()
	defer m.at()
	return m.DB.AddVote(ctx, v)
}

func (m *mortal) AddGrant(ctx context.Context, g approval.Grant) error {
	m.at()
	defer m.at()
	return m.DB.AddGrant(ctx, g)
}

//go:build unix

package postgres_test

import (
	"context"
	"crypto/rand"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
)

// unsealed seals nothing.
type unsealed struct{}

func (unsealed) SealFor(_ context.Context, _ runtime.Tenant, _ string, plain, _ []byte) ([]byte, error) {
	return plain, nil
}

func (unsealed) OpenFor(_ context.Context, _ runtime.Tenant, _ string, sealed, _ []byte) ([]byte, error) {
	return sealed, nil
}

// CR-011: the line to the database is cut at each statement of an approval's life, before
// the statement arrives or before its answer does. Everybody tries again, as people and
// programs do. What was approved is executed once, or not and then known as such.
func TestACutLineExecutesNothingTwice_CR011(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	for _, kind := range []string{"before it arrives", "before its answer does"} {
		for at := 1; ; at++ {
			s := &story{t: t, line: server.Line(t), at: at, before: kind == "before it arrives"}
			s.open(server.Database(t))
			s.tell()
			if !s.cut.Load() {
				if at < 5 {
					t.Errorf("cut %s: %d statements only", kind, at-1)
				}
				break
			}
			if s.executed > 1 {
				t.Errorf("cut %s, statement %d: executed %d times", kind, at, s.executed)
			}
			if state := s.state(); s.executed == 1 != (state == approval.Executed) && state != approval.Executing {
				t.Errorf("cut %s, statement %d: executed %d times, and %s", kind, at, s.executed, state)
			}
		}
	}
}

// story is one approval's life, whose line is cut at one statement.
type story struct {
	t        *testing.T
	line     *postgrestest.Line
	db       *postgres.DB
	desk     *approval.Desk
	at       int  // the statement
	before   bool // it arrives
	cut      atomic.Bool
	executed int
}

func (s *story) open(database string) {
	s.t.Helper()
	var count atomic.Int64
	var err error
	s.db, err = postgres.Open(s.t.Context(), postgres.Options{DSN: s.line.DSN(database), Create: true, Told: func(string) {
		if s.desk == nil {
			return // it is being opened
		}
		if count.Add(1) != int64(s.at) {
			return
		}
		s.cut.Store(true)
		if s.before {
			s.line.Cut()
		} else {
			s.line.LoseReply()
		}
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = s.db.Close() })
	s.desk, err = approval.New(approval.Options{
		Store: s.db, Sealer: unsealed{}, Clock: time.Now, Process: func() string { return "me" }, Alive: func(string) bool { return true },
		NewID: func() string { return "apr_" + rand.Text() }, Poll: 10 * time.Millisecond,
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// tell asks, says yes and executes. What fails is tried again on a line that is whole.
func (s *story) tell() {
	me := runtime.Principal{ID: "token:tok_1", Kind: runtime.KindAgent, Tenant: runtime.DefaultTenant}
	person := runtime.Principal{ID: "local:1", Kind: runtime.KindOperator, Tenant: runtime.DefaultTenant}
	verdict := runtime.Verdict{Effect: runtime.EffectAsk, Rule: "writes"}
	id := ""
	s.again(func() error {
		_, err := s.desk.Await(s.t.Context(), asking(me), verdict)
		if e := runtime.AsError(err); e.Code == runtime.CodeApprovalPending {
			id = e.ApprovalID
			return nil
		}
		return err
	})
	s.again(func() error {
		_, err := s.desk.Accept(s.t.Context(), person, me.Tenant, id, approval.Yes{})
		if err != nil && strings.Contains(err.Error(), string(approval.Approved)) {
			return nil // the yes was kept, and only that was lost
		}
		return err
	})
	for range 2 { // the requester comes again, whatever it was told
		ticket, err := s.desk.Await(s.t.Context(), asking(me), verdict)
		if err == nil {
			s.executed++
			err = s.desk.Finish(s.t.Context(), ticket, nil)
		}
		if err != nil {
			s.line.Cut()
			s.line.Mend()
		}
	}
}

func (s *story) again(do func() error) {
	s.t.Helper()
	var err error
	for range 3 {
		if err = do(); err == nil {
			return
		}
		s.line.Cut()
		s.line.Mend()
	}
	s.t.Fatalf("statement %d: %v", s.at, err)
}

// state is where the oldest approval stands: a requester who is not told of its own
// execution asks anew.
func (s *story) state() approval.State {
	s.t.Helper()
	s.line.Mend()
	list, err := s.db.Approvals(s.t.Context(), runtime.DefaultTenant, "", nil, 10)
	if err != nil || len(list) == 0 {
		s.t.Fatalf("%d approvals: %v", len(list), err)
	}
	return list[len(list)-1].State
}

func asking(who runtime.Principal) *runtime.Call {
	req := &runtime.Request{
		Surface: runtime.SurfaceProxy, Action: "files.write",
		Target: runtime.Target{Scheme: "https", Authority: "files.test:443", Method: "POST", Path: "/"},
		Raw:    &runtime.Raw{Proto: "HTTP/1.1", ContentLength: 2, Body: strings.NewReader("{}")},
	}
	if _, err := req.Raw.Buffer(1 << 20); err != nil {
		panic(err)
	}
	action := &runtime.Action{Ref: "files.write", Service: "files", Risk: runtime.RiskHigh, Digest: "d", Auth: &runtime.Auth{}}
	return &runtime.Call{Principal: &who, Action: action, Request: req}
}

package sqlite_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// plainly is a sealer that seals nothing: what is held keeps its size.
type plainly struct{}

func (plainly) SealFor(_ context.Context, _ runtime.Tenant, _ string, plain, _ []byte) ([]byte, error) {
	return plain, nil
}

func (plainly) OpenFor(_ context.Context, _ runtime.Tenant, _ string, sealed, _ []byte) ([]byte, error) {
	return sealed, nil
}

// upload is a request with a body of that size, asked about.
func upload(who runtime.Principal, n, size int) *runtime.Call {
	body := strings.Repeat("x", size-1) + fmt.Sprint(n)
	req := &runtime.Request{
		Surface: runtime.SurfaceProxy, Action: "files.upload",
		Target: runtime.Target{Scheme: "https", Authority: "files.test:443", Method: "POST", Path: fmt.Sprint("/", n)},
		Raw:    &runtime.Raw{Proto: "HTTP/1.1", ContentLength: int64(len(body)), Body: strings.NewReader(body)},
	}
	if _, err := req.Raw.Buffer(1 << 24); err != nil {
		panic(err)
	}
	action := &runtime.Action{Ref: "files.upload", Service: "files", Risk: runtime.RiskHigh, Digest: "d", Auth: &runtime.Auth{}}
	return &runtime.Call{Principal: &who, Action: action, Request: req}
}

// Who only looks at where approvals stand does not read the requests that are held:
// each may be megabytes, and who waits looks several times a second.
func TestLookingAtApprovalsDoesNotReadWhatIsHeld(t *testing.T) {
	const size, held = 2 << 20, 8
	d, err := approval.New(approval.Options{
		Store: opened(t, filepath.Join(t.TempDir(), "kimbap.db"), true), Sealer: plainly{}, Clock: time.Now, Process: func() string { return "me" }, Poll: 10 * time.Millisecond,
		NewID: func() string { return "apr_" + rand.Text() }, Alive: func(string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	me := runtime.Principal{ID: "token:tok_1", Kind: runtime.KindAgent, Tenant: runtime.DefaultTenant}
	person := runtime.Principal{ID: "local:1", Kind: runtime.KindOperator, Tenant: runtime.DefaultTenant}
	verdict := runtime.Verdict{Effect: runtime.EffectAsk, Rule: "uploads"}
	var id string
	for n := range held {
		_, err := d.Await(t.Context(), upload(me, n, size), verdict)
		if id = runtime.AsError(err).ApprovalID; id == "" {
			t.Fatal(err)
		}
	}
	waiting := upload(me, held-1, size)
	for name, look := range map[string]func() error{
		"list": func() error { _, err := d.List(t.Context(), person, me.Tenant, nil, 100); return err },
		"the requester's own": func() error {
			_, err := d.Asked(t.Context(), me, nil, 100)
			return err
		},
		"sweep":  func() error { _, err := d.Sweep(t.Context(), me.Tenant); return err },
		"status": func() error { _, err := d.Status(t.Context(), me, id); return err },
		"wait": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := d.Wait(ctx, me, id); !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("waited: %w", err)
			}
			return nil
		},
	} {
		if got := allocated(t, look); got > size/2 {
			t.Errorf("%s: allocated %d KiB", name, got>>10)
		}
	}
	// Held, the digest and the seal of a request cost some copies; its polls none.
	hold := func(lasting time.Duration) func() error {
		return func() error {
			waiting.Request.Hold = lasting
			if _, err := d.Await(t.Context(), waiting, verdict); runtime.CodeOf(err) != runtime.CodeApprovalPending {
				return fmt.Errorf("held: %w", err)
			}
			return nil
		}
	}
	short, long := allocated(t, hold(time.Nanosecond)), allocated(t, hold(500*time.Millisecond))
	if long > short+size {
		t.Errorf("held: allocated %d KiB, and %d KiB when it does not wait", long>>10, short>>10)
	}
}

// allocated is how many bytes something allocates.
func allocated(t *testing.T, act func() error) uint64 {
	t.Helper()
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	if err := act(); err != nil {
		t.Fatal(err)
	}
	goruntime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// cutChain breaks the list of pages that a blob of x lies in, in the middle: whoever
// reads on finds the file damaged.
func cutChain(t *testing.T, path string) {
	t.Helper()
	const page = 4096
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var chain []int
	for at := 0; at+page <= len(file); at += page {
		if bytes.Count(file[at+4:at+page], []byte("x")) == page-4 { // after the number of the next page
			chain = append(chain, at)
		}
	}
	if len(chain) < 100 {
		t.Fatalf("only %d pages hold the blob", len(chain))
	}
	copy(file[chain[len(chain)/2]:], []byte{0xff, 0xff, 0xff, 0xff})
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Where an approval stands lies before what is held of it and not behind: looking there,
// and deciding, goes through none of its pages. Where they are damaged the whole cannot be
// read, and only that.
func TestWhereAnApprovalStandsIsReadWithoutGoingThroughWhatIsHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := approval.Approval{
		ID: "apr_1", Tenant: runtime.DefaultTenant, State: approval.Pending, Principal: "token:tok_1", Action: "files.upload", Digest: "d",
		Sealed: bytes.Repeat([]byte("x"), 4<<20), Created: at, Expires: at.Add(time.Hour),
	}
	db := opened(t, path, true)
	if err := db.AddApproval(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if got, found, err := db.Approval(t.Context(), want.Tenant, want.ID); err != nil || !found || !bytes.Equal(got.Sealed, want.Sealed) {
		t.Fatalf("%v %v, %d bytes", found, err, len(got.Sealed))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	cutChain(t, path)
	db = opened(t, path, false)
	got, found, err := db.Glance(t.Context(), want.Tenant, want.ID)
	if err != nil || !found || !got.Created.Equal(at) || got.Principal != want.Principal {
		t.Errorf("at a glance: %v %v %+v", found, err, got)
	}
	if _, found, err := db.OpenApproval(t.Context(), want.Tenant, want.Principal, "d", approval.Between{After: at, Until: at}); err != nil || !found {
		t.Errorf("what is open: %v %v", found, err)
	}
	moved, err := db.Move(t.Context(), want.Tenant, want.ID, approval.Pending, approval.Rejected, approval.Change{At: at})
	if err != nil || !moved {
		t.Errorf("rejected: %v %v", moved, err)
	}
	if _, _, err := db.Approval(t.Context(), want.Tenant, want.ID); err == nil {
		t.Error("what is damaged was read")
	}
}

// older makes a database as the version of the schema before made it, with an approval.
func older(t *testing.T, path string, version int) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db := raw(t, path)
	for n := 1; n <= version; n++ {
		text, err := os.ReadFile(filepath.Join("schema", fmt.Sprintf("%04d.sql", n)))
		if err != nil {
			t.Fatal(err)
		}
		statement(t, db, string(text))
	}
	statement(t, db, fmt.Sprintf("PRAGMA application_id = %d", 0x6b6d6231))
	statement(t, db, fmt.Sprintf("PRAGMA user_version = %d", version))
	statement(t, db, `INSERT INTO approvals (tenant, id, state, principal, agent, run, surface, action, risk, rule, reason, method, authority,
		path, digest, sealed, created, expires, decided, decider, presence, note, holder, proof, ended)
		VALUES ('default', 'apr_1', 'approved', 'token:a', 'claude', 'run', 'proxy', 'files.upload', 'high', 'r', 'why', 'POST', 'files.test:443',
		'/x', 'd', x'0102', 1000, 2000, 1500, 'ann', 'pin', 'n', 'h', x'03', 0)`)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// What was held in the row of its approval has come along.
func TestAnOlderDatabaseKeepsWhatItHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	older(t, path, 7)
	for range 2 {
		db := opened(t, path, false)
		got, found, err := db.Approval(t.Context(), runtime.DefaultTenant, "apr_1")
		want := "apr_1 approved token:a ann pin n h [1 2] [3] 1500"
		if is := fmt.Sprint(got.ID, got.State, got.Principal, got.By, got.Presence, got.Note, got.Holder, got.Sealed, got.Proof, got.Decided.UnixMicro()); err != nil || !found ||
			strings.ReplaceAll(is, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%v %v: %s", found, err, is)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What was kept of scripts before it was counted counts.
func TestAnOlderDatabaseKnowsHowMuchOfScriptsItKeeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	older(t, path, 7)
	before := raw(t, path)
	for id, who := range map[string]string{"exe_1": "token:a", "exe_2": "token:a", "exe_3": "token:b"} {
		statement(t, before, fmt.Sprintf(`INSERT INTO executions (id, tenant, principal, state, holder, script, result, created, expires)
			VALUES ('%s', 'default', '%s', 'ended', '1:a', zeroblob(1000), NULL, 1, 2)`, id, who))
		statement(t, before, fmt.Sprintf("INSERT INTO execution_calls (execution, step, settled, sealed) VALUES ('%s', 1, 1, zeroblob(100000))", id))
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	db := opened(t, path, false)
	own, all, err := db.ExecutionBytes(t.Context(), runtime.DefaultTenant, "token:a")
	if err != nil || own < 202_000 || own > 220_000 || all != own*3/2 {
		t.Errorf("%d of %d bytes are its own: %v", own, all, err)
	}
	if err := db.DropExecutions(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, all, err := db.ExecutionBytes(t.Context(), runtime.DefaultTenant, "token:a"); err != nil || all != 0 {
		t.Errorf("%d bytes of nothing: %v", all, err)
	}
}

// Of a request that was answered for good nothing is left in the file but what is shown of
// it: not its tail, which nobody is shown without asking.
func TestWhatIsHeldGoesOnceItIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	db := opened(t, path, true)
	turn := time.Duration(0)
	d, err := approval.New(approval.Options{
		Store: db, Sealer: plainly{}, Clock: func() time.Time { return time.Now().Add(turn) }, Process: func() string { return "me" }, PendingCap: 100,
		NewID: func() string { return "apr_" + rand.Text() }, Alive: func(string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	me := runtime.Principal{ID: "token:tok_1", Kind: runtime.KindAgent, Tenant: runtime.DefaultTenant}
	person := runtime.Principal{ID: "local:1", Kind: runtime.KindOperator, Tenant: runtime.DefaultTenant}
	verdict := runtime.Verdict{Effect: runtime.EffectAsk, Rule: "uploads"}
	ask := func(n int) string {
		_, err := d.Await(t.Context(), marked(me, n), verdict)
		return runtime.AsError(err).ApprovalID
	}
	use := func(n int, end error) {
		t.Helper()
		if _, err := d.Accept(t.Context(), person, me.Tenant, ask(n), approval.Yes{Full: true}); err != nil {
			t.Fatal(err)
		}
		ticket, err := d.Await(t.Context(), marked(me, n), verdict)
		if err == nil {
			err = d.Finish(t.Context(), ticket, end)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]approval.State{ask(1): approval.Rejected}
	if _, err := d.Reject(t.Context(), person, me.Tenant, ask(1), "no"); err != nil {
		t.Fatal(err)
	}
	use(2, nil)
	use(3, &runtime.Error{Code: runtime.CodeForbidden, Stage: runtime.StageExecute})
	want[ask(4)] = approval.Expired
	turn = 24 * time.Hour
	if _, err := d.Sweep(t.Context(), me.Tenant); err != nil {
		t.Fatal(err)
	}
	pending := ask(5)
	list, err := d.List(t.Context(), person, me.Tenant, nil, 10)
	if err != nil || len(list) != 5 {
		t.Fatalf("%d, %v", len(list), err)
	}
	for _, a := range list {
		v, err := d.Show(t.Context(), person, me.Tenant, a.ID, true)
		if state := want[a.ID]; err != nil || state != "" && a.State != state || !strings.Contains(v.Text, "POST https://files.test:443/") {
			t.Errorf("%s: %v\n%s", a.State, err, v.Text)
		}
		if strings.Contains(v.Text, "the end of") != (a.ID == pending) {
			t.Errorf("%s is shown so:\n%s", a.State, v.Text[:min(len(v.Text), 2000)])
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 5; n++ {
		mark := []byte(base64.StdEncoding.EncodeToString([]byte(markOf(n)))) // as JSON holds bytes
		if held := bytes.Contains(file, mark); held != (n == 5) {
			t.Errorf("the end of request %d is in the file: %v", n, held)
		}
	}
}

// markOf is the end of a body: of 24 bytes, so that base64 has one form of it.
func markOf(n int) string { return fmt.Sprintf("the end of request %5d", n) }

// marked is a request with a long body that ends in a mark.
func marked(who runtime.Principal, n int) *runtime.Call {
	call := upload(who, n, 9000)
	body := strings.Repeat("x", 9000) + markOf(n)
	call.Request.Raw = &runtime.Raw{Proto: "HTTP/1.1", ContentLength: int64(len(body)), Body: strings.NewReader(body)}
	if _, err := call.Request.Raw.Buffer(1 << 24); err != nil {
		panic(err)
	}
	return call
}

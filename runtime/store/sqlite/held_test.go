package sqlite_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
		Store: opened(t, filepath.Join(t.TempDir(), "kimbap.db"), true), Sealer: plainly{}, Clock: time.Now, Process: "me", Poll: 10 * time.Millisecond,
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

package approval_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// slow is a vault that says when it opens something, and opens it when it may.
type slow struct {
	sealer
	opens, may chan struct{}
}

// Where one caller's questions are over, their requests are put away while others ask: each
// may take a second.
func TestPuttingRequestsAwayKeepsNobodyFromAsking(t *testing.T) {
	d, vault := newDesk(t), slow{opens: make(chan struct{}, 100), may: make(chan struct{})}
	var err error
	d.Desk, err = approval.New(approval.Options{
		Store: d.store, Sealer: vault, Clock: d.clock.now, Process: func() string { return "me" }, NewID: func() string { return runtime.NewID("apr", time.Now()) },
		Alive: func(string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	var first string
	for n := range 20 {
		if id := d.ask(t, refund(agent("a"), fmt.Sprint(n))); n == 0 {
			first = id
		}
	}
	d.clock.turn(9 * time.Hour)
	both := make(chan error, 2)
	ask := func(who string) {
		_, err := d.Await(t.Context(), refund(agent(who), "20"), asked())
		both <- err
	}
	go ask("a")
	<-vault.opens
	go ask("b")
	select {
	case err = <-both:
	case <-time.After(10 * time.Second):
		t.Error("nobody else can ask")
	}
	close(vault.may)
	if err == nil {
		err = <-both
	}
	if runtime.CodeOf(err) != runtime.CodeApprovalPending {
		t.Error(err)
	}
	runtimetest.Eventually(t, "the first is held no more", func() bool { return !d.held(t, first) })
}

// crowd is a vault that counts how many requests are put away at the same time.
type crowd struct {
	sealer
	mu        sync.Mutex
	now, most int
}

// What is read to be shown of a long body, or of one that becomes long when it is unpacked,
// takes many times its length: those of questions that end together are put away one by one.
func TestLongRequestsArePutAwayOneByOne(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, `{"n":[`+strings.Repeat("0,", 1000)+`0]}`)
	_ = w.Close()
	for name, body := range map[string]string{"long": `{"n":"` + strings.Repeat("x", 2<<20) + `"}`, "packed": packed.String()} {
		t.Run(name, func(t *testing.T) {
			d, vault := newDesk(t), &crowd{}
			var err error
			d.Desk, err = approval.New(approval.Options{
				Store: d.store, Sealer: vault, Clock: d.clock.now, Process: func() string { return "me" }, NewID: func() string { return runtime.NewID("apr", time.Now()) },
				Alive: func(string) bool { return true },
			})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			var over sync.WaitGroup
			for n := range 6 {
				call := posted(agent("a"), "application/json", body)
				call.Request.Target.Path, call.Request.Hold = fmt.Sprint("/v1/refunds/", n), time.Hour
				if name == "packed" {
					call.Request.Raw.Header.Set("Content-Encoding", "gzip")
				}
				open := make(chan string, 1)
				call.Request.OnPending = func(id string, _ time.Time) { open <- id }
				over.Go(func() {
					_, err := d.Await(t.Context(), call, asked())
					if runtime.CodeOf(err) != runtime.CodeApprovalExpired {
						t.Error(err)
					}
				})
				ids = append(ids, <-open)
			}
			d.clock.turn(9 * time.Hour)
			over.Wait()
			if vault.most != 1 {
				t.Errorf("%d at a time", vault.most)
			}
			for _, id := range ids {
				if d.held(t, id) {
					t.Errorf("%s is held still", id)
				}
			}
		})
	}
}

// So it is where a caller asks again what nobody has answered in its time.
func TestPuttingAwayWhatIsAskedAgainKeepsNobodyFromAsking(t *testing.T) {
	d, vault := newDesk(t), slow{opens: make(chan struct{}, 100), may: make(chan struct{})}
	var err error
	d.Desk, err = approval.New(approval.Options{
		Store: d.store, Sealer: vault, Clock: d.clock.now, Process: func() string { return "me" }, NewID: func() string { return runtime.NewID("apr", time.Now()) },
		Alive: func(string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	first := d.ask(t, refund(agent("a"), "1"))
	d.clock.turn(9 * time.Hour)
	again, other := make(chan error, 1), make(chan error, 1)
	ask := func(who string, told chan error) {
		_, err := d.Await(t.Context(), refund(agent(who), "1"), asked())
		told <- err
	}
	go ask("a", again)
	<-vault.opens
	go ask("b", other)
	select {
	case err = <-other:
	case <-time.After(30 * time.Second):
		t.Error("nobody else can ask")
	}
	close(vault.may)
	if e := wantCode(t, <-again, runtime.CodeApprovalPending); e.ApprovalID == first {
		t.Error("it is the old question")
	}
	if err != nil {
		wantCode(t, err, runtime.CodeApprovalPending)
	}
	if d.held(t, first) {
		t.Error("the first is held still")
	}
}

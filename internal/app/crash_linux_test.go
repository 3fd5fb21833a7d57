package app_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// Round after round a proxy is killed at any moment of its work. No request is
// seen by the upstream without a durable intent, the chain holds, every approval
// can be read and none was executed, and the next proxy is ready at once.
func TestKilledOverAndOver_CR001(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	slowest := time.Duration(0)
	for round := range kills {
		start := time.Now()
		cmd, address := startProxy(t, k)
		probe := k.ClientOf(t, address, "")
		get := func(id int) error {
			resp, err := probe.Get(fmt.Sprintf("https://%s/notes/%d", apptest.Host, id))
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			return err
		}
		if err := get(round*1_000_000 + 999_999); err != nil {
			t.Fatalf("round %d: not ready: %v", round, err)
		}
		slowest = max(slowest, time.Since(start))

		var clients sync.WaitGroup
		for i := range 4 {
			clients.Go(func() { keepAsking(k, address, t, round*1_000_000+i*100_000+1, i == 0) })
		}
		seen := len(k.Up.Requests())
		apptest.Eventually(t, "load", func() bool { return len(k.Up.Requests()) > seen+20 })
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // anywhere; nothing is proved by it
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		clients.Wait()
	}
	t.Logf("%d kills, %d requests, ready after at most %v", kills, len(k.Up.Requests()), slowest)
	if slowest > 20*time.Second { // ten times the figure
		t.Errorf("ready after %v", slowest)
	}
	intents := map[string]int{}
	for _, r := range k.Records(t) {
		if r.Kind == "intent" {
			intents[r.Path]++
		}
	}
	for _, r := range k.Up.Requests() {
		path, _, _ := strings.Cut(r.Target, "?")
		if intents[path]--; intents[path] < 0 {
			t.Errorf("the upstream saw %s, the trail did not", r.Target)
		}
		if r.Method == http.MethodDelete {
			t.Errorf("%s left without a person's yes", r.Line)
		}
	}
	k.Verify(t)
	all := []approval.State{approval.Pending, approval.Approved, approval.Rejected, approval.Expired, approval.Executing, approval.Executed, approval.Failed, approval.Unknown}
	asked, err := k.App.Approvals().List(t.Context(), k.App.Operator(), runtime.DefaultTenant, all, 1000)
	if err != nil || len(asked) == 0 {
		t.Errorf("%d approvals, %v", len(asked), err)
	}
	for _, a := range asked {
		if a.State != approval.Pending {
			t.Errorf("%s is %s, and nobody decided", a.ID, a.State)
		}
	}
}

// keepAsking sends one request after the other until the proxy is gone: reads, or
// with asking now and then one that a person must decide.
func keepAsking(k *apptest.Kimbap, address string, t *testing.T, id int, asking bool) {
	client := k.ClientOf(t, address, "")
	for ; ; id++ {
		method := http.MethodGet
		if asking && id%10 == 1 {
			method = http.MethodDelete
		}
		r, err := http.NewRequest(method, fmt.Sprintf("https://%s/notes/%d", apptest.Host, id), nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := client.Do(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

// CR-013: with a low descriptor limit tunnels take only their share: the one
// that is used stays, the database can be written, and when the others end
// there is room again.
func TestFewDescriptors_CR013(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	cmd, said := start(t, "proxy", k.Dir)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -n 256 && exec "$0" "$@"`}, cmd.Args...)
	k.Proxy = listening(t, cmd, said)
	live := k.Tunnel(t, apptest.Authority)
	_ = live.SetDeadline(time.Now().Add(5 * time.Minute))
	var (
		mu      sync.Mutex
		open    []*apptest.Wire
		refused int
	)
	use := func(id int) {
		t.Helper()
		if a := live.Ask(askNote); a.Status != http.StatusOK {
			t.Fatalf("the tunnel in use: %d %+v %v", a.Status, a.Problem, a.Err)
		}
		a := live.Ask(fmt.Sprintf("DELETE /notes/%d HTTP/1.1\r\nHost: %s\r\n\r\n", id, apptest.Host))
		if a.Problem.Code != string(runtime.CodeApprovalPending) && a.Problem.Reason != string(runtime.ReasonTooManyPending) {
			t.Errorf("the database: %d %+v", a.Status, a.Problem)
		}
	}
	flood := func(int) {
		w := k.Dial(t)
		a := w.Ask("CONNECT " + apptest.Authority + " HTTP/1.1\r\nHost: " + apptest.Authority + "\r\n\r\n")
		mu.Lock()
		defer mu.Unlock()
		if a.Status != http.StatusOK {
			refused++
			_ = w.Close()
			return
		}
		open = append(open, w)
	}
	flooded := make(chan struct{})
	go func() { defer close(flooded); many(300, 50, flood) }()
	for id, flooding := 1, true; flooding; id++ {
		use(id)
		select {
		case <-flooded:
			flooding = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	if refused == 0 || len(open) < 50 {
		t.Errorf("%d tunnels, %d refused", len(open), refused)
	}
	if n := files(t, cmd); n > 220 {
		t.Errorf("%d of 256 descriptors are taken", n)
	}
	use(1000)
	for _, w := range open {
		_ = w.Close()
	}
	client := k.Client(t, "")
	apptest.Within(t, time.Minute, "room", func() bool {
		resp, err := client.Get("https://" + apptest.Host + "/notes/3")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// place is where a sink posts to: it keeps the lines, and can be told to fail.
type place struct {
	*httptest.Server
	failing atomic.Bool

	mu    sync.Mutex
	lines strings.Builder
}

func newPlace(t *testing.T) *place {
	p := &place{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || p.failing.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lines.Write(body)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *place) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines.String()
}

// AU-001: without a sink that is required nothing leaves and no credential is
// opened, and when it is back so is kimbap; nothing is missing from it then.
func TestARequiredSinkThatFailsStopsRequests(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	k := apptest.New(t, apptest.Options{Config: "audit: {sinks: [{type: webhook, url: \"" + p.URL + "\", mode: required}]}\n"})
	const get = "GET https://" + apptest.Host + "/notes/7"
	if a := k.Do(t, get, ""); a.Status != 200 || !strings.Contains(p.text(), `"kind":"intent"`) {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	seen := k.Up.Received()
	p.failing.Store(true)
	for range 3 {
		if a := k.Do(t, get, ""); a.Status != 503 || a.Problem.Code != "audit_unavailable" {
			t.Errorf("%d %+v", a.Status, a.Problem)
		}
	}
	if n := k.Up.Received() - seen; n != 0 {
		t.Errorf("the upstream got %d bytes", n)
	}
	apptest.Within(t, 20*time.Second, "the state file to say what the sink lacks", func() bool {
		sink := k.App.Proxies()[0].Sinks[0]
		said := sink.Said()
		return sink.Queue > 0 && strings.Contains(said, "lacks ") && strings.Contains(said, "status 503") && !strings.Contains(said, "webhook:")
	})
	p.failing.Store(false)
	apptest.Within(t, time.Minute, "recovery by itself", func() bool { return k.Do(t, get, "").Status == 200 })
	apptest.Eventually(t, "all lines in the sink", func() bool {
		text := p.text()
		return !slices.ContainsFunc(k.Records(t), func(r apptest.Record) bool { return !strings.Contains(text, r.Line) })
	})
	k.Verify(t)
}

// Status says what a required sink lacks of a process that has ended, also beside one of its
// kind that runs.
func TestStatusSaysWhatASinkLacksOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	k := apptest.New(t, apptest.Options{Config: "audit: {sinks: [{type: webhook, url: \"" + p.URL + "\", mode: required}]}\n"})
	running := k.App.Proxies()[0].Slot
	ended := k.Open(t, running)
	if err := ended.Trail().Event(t.Context(), record.Event{Kind: "test.had"}); err != nil {
		t.Fatal(err)
	}
	p.failing.Store(true)
	if err := ended.Trail().Event(t.Context(), record.Event{Kind: "test.lacked"}); err == nil {
		t.Error("an event that the sink did not take")
	}
	slot := ended.Trail().Slot()
	_ = ended.Close()
	person := k.Open(t, "")
	s, err := person.Status(t.Context())
	_ = person.Close()
	p.failing.Store(false) // what runs has something to record at its end
	if err != nil || slot == running || len(s.Lacks) != 1 || s.Lacks[0].Slot != slot || s.Lacks[0].Records != 1 {
		t.Errorf("%q beside %q: %+v, %v", slot, running, s.Lacks, err)
	}
}

// A best-effort sink holds nobody up; that it fails shows where status looks.
func TestABestEffortSinkThatFailsShowsInStatus(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.failing.Store(true)
	k := apptest.New(t, apptest.Options{Config: "audit: {sinks: [{type: otlp, url: \"" + p.URL + "/v1/logs\"}]}\n"})
	if a := k.Do(t, "GET https://"+apptest.Host+"/notes/7", ""); a.Status != 200 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	apptest.Within(t, 20*time.Second, "the state file to say it", func() bool {
		running := k.App.Proxies()
		return len(running) == 1 && len(running[0].Sinks) == 1 && strings.Contains(running[0].Sinks[0].LastError, "status 503")
	})
	p.failing.Store(false)
	apptest.Within(t, time.Minute, "the lines", func() bool { return strings.Contains(p.text(), "notes.get-note") })
	apptest.Within(t, 20*time.Second, "the state file to say that it is well", func() bool {
		sink := k.App.Proxies()[0].Sinks[0]
		return sink.LastError == "" && sink.Lost == 0
	})
}

// AU-010: health says so before the disk of the trail is full.
func TestANearlyFullDiskShowsInHealth(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	apptest.Within(t, soon, "health to say it", func() bool { // the next look finds the disk as it is
		k.App.SetDisk(10<<20, 10<<30)
		err := k.App.Health(t.Context())
		return err != nil && strings.Contains(err.Error(), "nearly full") && strings.Contains(k.App.Proxies()[0].Disk, "10 MiB")
	})
	k.App.SetDisk(10<<30, 300<<30) // a thirtieth, and plenty
	if err := k.App.Health(t.Context()); err != nil {
		t.Error(err)
	}
}

// A process that serves starts while a required sink fails, and refuses requests until it is
// back: nobody has to start it again then.
func TestWhatServesStartsWithoutARequiredSink(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	k := apptest.New(t, apptest.Options{Config: "audit: {sinks: [{type: webhook, url: \"" + p.URL + "\", mode: required}]}\n"})
	p.failing.Store(true)
	second := k.Open(t, k.App.Proxies()[0].Slot)
	at := k.Serve(t, second, app.ServeOptions{Listen: "127.0.0.1:0"})
	const get = "GET https://" + apptest.Host + "/notes/7"
	ask := func() apptest.Answer { return apptest.Send(t, k.ClientOf(t, at, ""), get, "") }
	if a := ask(); a.Status != 503 || a.Problem.Code != "audit_unavailable" {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	if !strings.Contains(ledger(t, k), `"event":"proxy.start"`) || strings.Contains(p.text(), at) {
		t.Errorf("the trail has\n%s", ledger(t, k))
	}
	p.failing.Store(false)
	apptest.Within(t, time.Minute, "its turn", func() bool { return ask().Status == 200 })
	k.Verify(t)
}

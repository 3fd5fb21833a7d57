package remote

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// asking is a server where a person decides after so many waits.
type asking struct {
	undecided int
	interim   bool // it says at once that a person is asked

	mu    sync.Mutex
	waits []string
	asked []string
}

func (a *asking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, r.Method+" "+r.URL.Path)
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, `{"id":"apr_1","expires":"2026-11-29T12:00:00Z"}`)
		return
	}
	var body struct{ Wait string }
	_ = json.NewDecoder(r.Body).Decode(&body)
	a.waits = append(a.waits, body.Wait)
	if a.interim && r.Header.Get("Kimbap-Interim") == "1" && strings.HasSuffix(r.URL.Path, ":execute") {
		w.Header().Set("Kimbap-Approval", "apr_1")
		w.Header().Set("Kimbap-Approval-Until", "2026-11-29T12:00:00Z")
		w.WriteHeader(http.StatusProcessing)
	}
	if len(a.waits) > a.undecided {
		_, _ = io.WriteString(w, "done")
		return
	}
	w.Header().Set("Content-Type", runtime.ProblemType)
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `{"code":"approval_pending","approval_id":"apr_1","detail":"nobody has decided"}`)
}

// onSocket is a client of a server on a socket.
func onSocket(t *testing.T, answer http.Handler) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(answer)
	_ = s.Listener.Close()
	s.Listener = ln
	s.Start()
	t.Cleanup(s.Close)
	c, err := New(Options{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// atOnce lets a client not sleep between two requests, and counts how often it would have.
func atOnce(c *Client) *int {
	slept := new(int)
	c.after = func(time.Duration) <-chan time.Time {
		*slept++
		over := make(chan time.Time)
		close(over)
		return over
	}
	return slept
}

// Proxies before a server end a request that is silent for long, and some take an interim
// answer for the answer. So none waits long for a person, or may have such an answer, and the
// question is told once, however it was heard of. Nobody stands before a socket; and pages are of
// one request.
func TestAWaitForAPersonIsInTurns(t *testing.T) {
	for name, c := range map[string]struct {
		interim, socket bool
		call            Call
		undecided       int
		want            []string
		looks           bool
	}{
		"nobody is asked":   {undecided: 0, want: []string{""}},
		"soon":              {undecided: 1, want: []string{"", "10s"}, looks: true},
		"late":              {undecided: 3, want: []string{"", "10s", "10s", "10s"}, looks: true},
		"on a socket":       {socket: true, interim: true, undecided: 0, want: []string{"1h0m0s"}},
		"late, on a socket": {socket: true, undecided: 1, want: []string{"1h0m0s", "1h0m0s"}, looks: true},
		"late, and told":    {socket: true, interim: true, undecided: 1, want: []string{"1h0m0s", "1h0m0s"}},
		"all pages":         {call: Call{All: true}, interim: true, undecided: 0, want: []string{"1h0m0s"}},
		"some pages":        {call: Call{Max: 3}, interim: true, undecided: 0, want: []string{"1h0m0s"}},
		"a preview":         {call: Call{DryRun: true}, undecided: 0, want: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			server := &asking{undecided: c.undecided, interim: c.interim}
			var there *Client
			if c.socket {
				there = onSocket(t, server)
			} else {
				there = client(t, served(t, server.ServeHTTP).URL, nil)
			}
			slept := atOnce(there)
			var mu sync.Mutex
			var told []string
			ctx := Waiting(t.Context(), func(id string, until time.Time) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, id+" "+until.Format(time.TimeOnly))
			})
			body, err := there.Execute(ctx, "notes.create-note", c.call, true)
			if err != nil || string(body) != "done" {
				t.Fatalf("%s, %v", body, err)
			}
			if !slices.Equal(server.waits, c.want) {
				t.Errorf("waited %v, want %v", server.waits, c.want)
			}
			if collected := len(c.want) - 1; *slept != max(collected-1, 0) {
				t.Errorf("slept %d times in %d waits", *slept, collected)
			}
			if looks := slices.Contains(server.asked, "GET /v1/approvals/apr_1"); looks != c.looks {
				t.Errorf("asked %v", server.asked)
			}
			mu.Lock()
			defer mu.Unlock()
			if want := c.interim || c.undecided > 0; want != slices.Equal(told, []string{"apr_1 12:00:00"}) || !want && len(told) > 0 {
				t.Errorf("told %v", told)
			}
		})
	}
}

// A script waits in turns as well, for each question as long as was asked for.
func TestAScriptWaitsInTurns(t *testing.T) {
	paused := func(question string) string {
		return `{"success":false,"paused":{"executionId":"exe_1","approvalId":"` + question + `"}}`
	}
	const done = `{"success":true}`
	for name, c := range map[string]struct {
		wait    time.Duration
		socket  bool
		answers []string
		waits   []string
		end     string
		told    int
	}{
		"no wait":       {0, false, []string{paused("a")}, []string{"0s"}, paused("a"), 0},
		"not asked":     {time.Minute, false, []string{done}, []string{"0s"}, done, 0},
		"one turn":      {5 * time.Second, false, []string{paused("a"), paused("a")}, []string{"0s", "5s"}, paused("a"), 1},
		"decided":       {time.Minute, false, []string{paused("a"), paused("a"), done}, []string{"0s", "10s", "10s"}, done, 2},
		"not decided":   {25 * time.Second, false, []string{paused("a"), paused("a"), paused("a"), paused("a")}, []string{"0s", "10s", "10s", "5s"}, paused("a"), 3},
		"two questions": {15 * time.Second, false, []string{paused("a"), paused("b"), paused("b"), paused("b")}, []string{"0s", "10s", "10s", "5s"}, paused("b"), 3},
		"on a socket":   {time.Minute, true, []string{paused("a")}, []string{"1m0s"}, paused("a"), 0},
		"negative":      {-time.Second, false, []string{done}, []string{"-1s"}, done, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var waits, paths []string
			answer := func(w http.ResponseWriter, r *http.Request) {
				var body struct{ Wait, Code string }
				_ = json.NewDecoder(r.Body).Decode(&body)
				if first := len(waits) == 0; first != (body.Code == "return 1") {
					t.Errorf("the %d. request has the code %q", len(waits)+1, body.Code)
				}
				paths = append(paths, r.URL.Path)
				waits = append(waits, body.Wait)
				_, _ = io.WriteString(w, c.answers[len(waits)-1])
			}
			there := client(t, served(t, answer).URL, nil)
			if c.socket {
				there = onSocket(t, http.HandlerFunc(answer))
			}
			slept := atOnce(there)
			told := 0
			data, err := there.Script(Pausing(t.Context(), func(string) { told++ }), "", map[string]any{"code": "return 1"}, c.wait)
			if err != nil || string(data) != c.end || told != c.told || !slices.Equal(waits, c.waits) {
				t.Errorf("%s, %v; told %d times; waited %v, want %v", data, err, told, waits, c.waits)
			}
			if want := max(len(waits)-2, 0); *slept != want { // not after the first, which had no wait, nor after the last
				t.Errorf("slept %d times, want %d", *slept, want)
			}
			for i, path := range paths {
				if want := "/v1/exec"; i > 0 && path != want+"/exe_1/resume" || i == 0 && path != want {
					t.Errorf("the %d. request went to %s", i+1, path)
				}
			}
		})
	}
}

// Where nobody knows what came of a request, one is told how to find out, and of a proxy that
// may stand before the server.
func TestWhatBecameOfARequestIsToLookFor(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		_ = conn.Close()
	}
	of := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", status) }
	}
	for name, c := range map[string]struct {
		answer    http.HandlerFunc
		socket    bool
		msg, hint string
	}{
		"cut":             {cut, false, "did not answer", "a proxy before the server"},
		"cut on a socket": {cut, true, "did not answer", "kimbap audit tail"},
		"504":             {of(504), false, "a proxy before the server answered 504", "see whether it was done"},
		"503":             {of(503), false, "a proxy before the server answered 503", "kimbap audit tail; see that the server runs"},
		"500":             {of(500), false, "answered 500, and is perhaps no kimbap", "look at the URL"},
	} {
		t.Run(name, func(t *testing.T) {
			there := client(t, served(t, c.answer).URL, nil)
			if c.socket {
				there = onSocket(t, c.answer)
			}
			_, err := there.Execute(t.Context(), "notes.create-note", Call{}, true)
			e := runtime.AsError(err)
			if Uncertain(err) == strings.Contains(c.msg, "no kimbap") {
				t.Errorf("uncertain: %v", Uncertain(err))
			}
			if _, err := there.Do(t.Context(), http.MethodGet, "/v1/services", nil); Uncertain(err) || strings.Contains(runtime.AsError(err).Hint, "audit") {
				t.Errorf("where nothing can have been done: %v", runtime.AsError(err).Hint)
			}
			if e.Code != runtime.CodeUpstream || !strings.Contains(e.Msg, c.msg) || !strings.Contains(e.Hint, c.hint) || c.socket && strings.Contains(e.Hint, "proxy") {
				t.Errorf("%s: %s (%s)", e.Code, e.Msg, e.Hint)
			}
		})
	}
}

// Who cannot be told until when a question is open hears of it all the same.
func TestAQuestionIsToldWithoutItsEnd(t *testing.T) {
	server := &asking{undecided: 1}
	there := client(t, served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		server.ServeHTTP(w, r)
	}).URL, nil)
	told := ""
	ctx := Waiting(t.Context(), func(id string, until time.Time) {
		if told = id; !until.IsZero() {
			t.Error(until)
		}
	})
	if _, err := there.Execute(ctx, "notes.create-note", Call{}, true); err != nil || told != "apr_1" {
		t.Errorf("told of %q, %v", told, err)
	}
}

package mcp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/socket"
)

// One caller whose messages never become whole has three quarters of the connections, and
// is refused on the others before anything is read of it.
func TestOneCallerLeavesConnectionsToOthers(t *testing.T) {
	s, ln := byToken(t)
	defer s.Close()
	const most = 4
	web, done := s.HTTP(), make(chan error, 1)
	go func() {
		done <- web.Serve(socket.Bounded(ln, socket.Bounds{Most: most, Patience: time.Minute, Clock: time.Now}))
	}()
	defer func() {
		if err := web.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	for range most * 3 / 4 {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer greedy\r\nContent-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		// The body is asked for when the caller is known: then the connection counts as its own.
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
			t.Fatalf("%q %v", line, err)
		}
		if _, err := io.WriteString(conn, "{"); err != nil {
			t.Fatal(err)
		}
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func(token string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+ln.Addr().String()+"/mcp", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		return answer
	}
	refused := ask("greedy")
	if refused.StatusCode != 429 || refused.Header.Get("Retry-After") != "1" {
		t.Errorf("one more: %d %v", refused.StatusCode, refused.Header)
	}
	if other := ask("other"); other.StatusCode == 429 {
		t.Error("another is kept out")
	}
}

// slow takes an answer when it is looked at.
type slow struct {
	http.ResponseWriter
	look func()
}

func (s slow) Write(p []byte) (int, error) {
	s.look()
	return s.ResponseWriter.Write(p)
}

// A call has its place until its answer is read, since that is in memory until then.
func TestAnAnswerKeepsItsPlace(t *testing.T) {
	o := whole()
	o.RequireToken = true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	taken := func() int {
		s.places.mu.Lock()
		defer s.places.mu.Unlock()
		return s.places.all
	}
	const one = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","arguments":{}}}`
	for body, calls := range map[string]int{fmt.Sprintf(one, 1): 1, "[" + fmt.Sprintf(one, 1) + "," + fmt.Sprintf(one, 2) + "]": 2} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/mcp", strings.NewReader(body))
		for name, value := range map[string]string{"Authorization": "Bearer x", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			r.Header.Set(name, value)
		}
		answer, looked := httptest.NewRecorder(), false
		s.Handler().ServeHTTP(slow{answer, func() {
			looked = true
			if n := taken(); n != calls {
				t.Errorf("%d calls have places while their answer is read, want %d", n, calls)
			}
		}}, r)
		if !looked || answer.Code != 200 || !strings.Contains(answer.Body.String(), `"structuredContent"`) {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
		if n := taken(); n != 0 {
			t.Errorf("%d places are not given back", n)
		}
	}
}

// A batch over HTTP has as many messages as one on stdin: its answers are all kept until the
// last one is there.
func TestABatchOverHTTPIsBounded(t *testing.T) {
	o := whole()
	o.RequireToken = true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n, want := range map[int]int{1: 200, maxBatch: 200, maxBatch + 1: 400} {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, i)
		}
		r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/mcp", strings.NewReader(" ["+strings.Join(all, ",")+"]"))
		for name, value := range map[string]string{"Authorization": "Bearer x", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			r.Header.Set(name, value)
		}
		answer := httptest.NewRecorder()
		s.Handler().ServeHTTP(answer, r)
		text := answer.Body.String()
		if answer.Code != want || strings.Contains(text, `"code":-32600`) != (want == 400) || strings.Count(text, `"inputSchema"`) != n*len(s.tools())*(400-want)/200 {
			t.Errorf("%d messages: %d %.300s", n, answer.Code, text)
		}
	}
}

// The scheme is a word in any case; and what is no token is said to be none.
func TestTheTokenOverHTTP(t *testing.T) {
	s, ln := byToken(t)
	defer s.Close()
	_ = ln.Close()
	for shown, want := range map[string]int{"Bearer x": 200, "bearer x": 200, "Token x": 401, "Bearer ": 401} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		for name, value := range map[string]string{"Authorization": shown, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			r.Header.Set(name, value)
		}
		answer := httptest.NewRecorder()
		s.Handler().ServeHTTP(answer, r)
		if answer.Code != want || want == 401 && !strings.Contains(answer.Body.String(), "the Authorization") {
			t.Errorf("%q: %d %s, want %d", shown, answer.Code, answer.Body, want)
		}
	}
}

package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// Long messages that never become whole are of a bounded length, of one caller and of all;
// short ones and other callers' come through meanwhile, and a message gives back its room.
func TestLongMessagesAreBounded(t *testing.T) {
	s, ln := byToken(t)
	defer s.Close()
	web, done := s.HTTP(), make(chan error, 1)
	go func() { done <- web.Serve(ln) }()
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
		if err := web.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-done
	}()
	held := func() int64 {
		s.long.mu.Lock()
		defer s.long.mu.Unlock()
		return s.long.all
	}
	until := func(want int64) {
		t.Helper()
		runtimetest.Eventually(t, fmt.Sprintf("messages of %d bytes are held", want), func() bool { return held() == want })
	}
	half := func(token, length string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		if _, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%s\r\n\r\n1\r\n[", token, length); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	list := func(token string, blanks int, sized bool) (int, string) {
		t.Helper()
		var body io.Reader = bytes.NewReader([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + strings.Repeat(" ", blanks)))
		if !sized {
			body = io.MultiReader(body)
		}
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+ln.Addr().String()+"/mcp", body)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			r.Header.Set(name, value)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, answer.Header.Get("Retry-After")
	}

	// One caller has a quarter.
	sized, unsized := fmt.Sprintf("Content-Length: %d", maxMessage), "Transfer-Encoding: chunked"
	first := half("greedy", sized)
	half("greedy", unsized)
	until(2 * maxMessage)
	for _, sized := range []bool{true, false} { // what has been read whole takes what it is
		if status, _ := list("greedy", longMessage, sized); status != 200 {
			t.Errorf("with room for it: %d", status)
		}
	}
	until(2 * maxMessage)
	half("greedy", sized)
	half("greedy", sized)
	until(longOfOne)
	if status, after := list("greedy", longMessage, true); status != 429 || after != "1" {
		t.Errorf("over its share: %d, after %q", status, after)
	}
	if status, _ := list("greedy", 0, true); status != 200 {
		t.Errorf("a short one: %d", status)
	}
	if status, _ := list("other", longMessage, true); status != 200 {
		t.Errorf("another caller's: %d", status)
	}
	if status, _ := list("other", maxMessage, true); status != 413 {
		t.Errorf("a longer one than may be: %d", status)
	}

	// All have what there is.
	for n := range 3 {
		for range 4 {
			half(fmt.Sprint("more", n), sized)
		}
	}
	until(longMessages)
	if status, after := list("other", longMessage, true); status != 429 || after != "1" {
		t.Errorf("where there is no room: %d, after %q", status, after)
	}
	_ = first.Close()
	until(longMessages - maxMessage)
	if status, _ := list("other", longMessage, true); status != 200 {
		t.Errorf("after one is gone: %d", status)
	}
}

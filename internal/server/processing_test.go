package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Only who asks for interim answers gets one: Python's http.client takes 102 for the answer, and
// the answer for that of its next request. Nor does who speaks HTTP/1.0, as nginx does to what
// it stands before.
func TestInterimAnswersAreForThoseWhoAskForThem(t *testing.T) {
	_, base := serve(t, true, Options{Agent: asker{}, Execute: func(_ context.Context, s Script) (Answer, error) {
		s.Waits("exe_1")
		return Answer{Body: "x"}, nil
	}}, func(*Server) {})
	for _, page := range []struct{ path, body, field string }{
		{"/v1/exec", `{"code":"x"}`, "Kimbap-Execution: exe_1\r\n"},
		{"/v1/actions/notes/add:execute", `{"wait":4}`, "Kimbap-Approval: apr_1\r\n"},
	} {
		for _, c := range []struct{ version, fields, want string }{
			{"1.0", "", "HTTP/1.0 200"},
			{"1.0", "Kimbap-Interim: 1\r\n", "HTTP/1.0 200"},
			{"1.1", "", "HTTP/1.1 200"},
			{"1.1", "Kimbap-Interim: 0\r\n", "HTTP/1.1 200"},
			{"1.1", "Kimbap-Interim: 1\r\n", "HTTP/1.1 102"},
		} {
			text := said(t, base, fmt.Sprintf("POST %s HTTP/%s\r\nHost: localhost\r\nAuthorization: Bearer a\r\nContent-Type: application/json\r\n"+
				"%sConnection: close\r\nContent-Length: %d\r\n\r\n%s", page.path, c.version, c.fields, len(page.body), page.body))
			interim := strings.HasSuffix(c.want, "102")
			if !strings.HasPrefix(text, c.want) || strings.Contains(text, page.field) != interim || !strings.HasSuffix(strings.TrimSpace(text), `"x"`) && !strings.HasSuffix(strings.TrimSpace(text), `{"result":"x"}`) {
				t.Errorf("%s, HTTP/%s with %q:\n%s", page.path, c.version, c.fields, text)
			}
		}
	}
}

// Whoever needs too long for a request hears so, as RFC 9110 section 15.5.9 has it: the caller
// has not left.
func TestARequestThatDoesNotArriveIsToldSo(t *testing.T) {
	_, base := serve(t, true, Options{Agent: nobody{}, Operator: nobody{}}, func(s *Server) { s.http.ReadTimeout = 200 * time.Millisecond })
	for _, head := range []string{"POST /v1/exec HTTP/1.1\r\nContent-Type: application/json", "POST /v1/actions/a/b:execute HTTP/1.1\r\nContent-Type: application/json"} {
		text := said(t, base, head+"\r\nHost: localhost\r\nAuthorization: Bearer a\r\nContent-Length: 400000\r\n\r\n"+`{"code":`)
		if !strings.HasPrefix(text, "HTTP/1.1 408 Request Timeout\r\n") || !strings.Contains(text, "\r\nConnection: close\r\n") ||
			!strings.Contains(text, `"code":"timeout","reason":"request_timeout"`) || !strings.Contains(text, "did not arrive within 30s") {
			t.Errorf("%s:\n%s", head, text)
		}
	}
}

// asker has a person asked for each action.
type asker struct{ nobody }

func (asker) Call(_ context.Context, c Call) (Result, error) {
	if c.Pending != nil {
		c.Pending("apr_1", time.Unix(0, 0))
	}
	return Result{Body: []byte("x")}, nil
}

// said is all that a server answers to bytes on a connection of their own.
func said(t *testing.T, base, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

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

// Who speaks HTTP/1.0, as nginx does to what it stands before, would take an interim answer
// for the answer.
func TestInterimAnswersAreForThoseWhoKnowThem(t *testing.T) {
	_, base := serve(t, true, Options{Agent: nobody{}, Execute: func(_ context.Context, s Script) (Answer, error) {
		s.Waits("exe_1")
		return Answer{Body: "x"}, nil
	}}, func(*Server) {})
	for version, want := range map[string]string{"1.0": "HTTP/1.0 200", "1.1": "HTTP/1.1 102"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = fmt.Fprintf(conn, "POST /v1/exec HTTP/%s\r\nHost: localhost\r\nAuthorization: Bearer a\r\nContent-Type: application/json\r\n"+
			"Connection: close\r\nContent-Length: 12\r\n\r\n"+`{"code":"x"}`, version)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		_ = conn.Close()
		if err != nil || !strings.HasPrefix(string(text), want) || !strings.HasSuffix(string(text), `"x"`+"\n") && !strings.HasSuffix(string(text), `"x"`) {
			t.Errorf("%s: %v\n%s", version, err, text)
		}
	}
}

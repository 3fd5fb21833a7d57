package server

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// There is room for one caller. One that asks and never reads loses its place to the
// next, and a script that runs for longer than anybody may dawdle is answered.
func TestACallerThatStopsReadingLosesItsPlace(t *testing.T) {
	const patience = 30 * time.Millisecond
	client, base := serve(t, true, Options{Execute: func(_ context.Context, s Script) (Answer, error) {
		if s.Code == "slow" {
			time.Sleep(10 * patience)
			return Answer{Body: "slow"}, nil
		}
		return Answer{Body: strings.Repeat("x", 32<<20)}, nil // more than the kernel keeps for both ends
	}}, func(s *Server) { s.room, s.patience = 1, patience })
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST /v1/exec HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer kmb_x\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n"+
		`{"code":"mute"}`); err != nil {
		t.Fatal(err)
	}
	if status, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"slow"}`, "Authorization", "Bearer kmb_x"); status != 200 || text != "\"slow\"\n" {
		t.Errorf("%d %.100s", status, text)
	}
}

// Where there is no room, who is not known gives way to who comes: one that is silent, one
// whose request never becomes whole, one that was answered and stays. A request of who is
// known stays, however long it takes.
func TestWhoIsNotKnownGivesWay(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	var now atomic.Int64
	o := Options{
		Clock: func() time.Time { return time.Unix(now.Add(1), 0) }, // each look is a second later
		Execute: func(_ context.Context, s Script) (Answer, error) {
			if s.Code == "slow" {
				close(began)
				<-end
			}
			return Answer{Body: s.Code}, nil
		},
	}
	client, base := serve(t, true, o, func(s *Server) { s.room = 4 })
	slow := make(chan string, 1)
	go func() {
		_, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"slow"}`, "Authorization", "Bearer kmb_x")
		slow <- text
	}()
	<-began
	for range 2 {
		for _, said := range []string{
			"", "GET /heal", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
			"POST /v1/exec HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{",
		} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, said) // it may have given way already
		}
	}
	if status, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"x"}`, "Authorization", "Bearer kmb_x"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	close(end)
	if text := <-slow; text != "\"slow\"\n" {
		t.Errorf("what was under way: %s", text)
	}
}

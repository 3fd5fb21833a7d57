package server

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// One caller whose requests all wait leaves a quarter of the connections to others, and its
// next one is refused before anything of it is done.
func TestRequestsInFlightAreBoundedByPrincipal(t *testing.T) {
	const room, share = 8, 6
	began, end := make(chan struct{}, room), make(chan struct{})
	client, base := serve(t, true, Options{Execute: func(_ context.Context, s Script) (Answer, error) {
		if s.Code == "wait" {
			began <- struct{}{}
			<-end
		}
		return Answer{Body: s.Code}, nil
	}}, func(s *Server) { s.room = room })
	var wg sync.WaitGroup
	for range share {
		wg.Go(func() {
			if status, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"wait"}`, "Authorization", "Bearer greedy"); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		})
		<-began
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", base+"/v1/exec", strings.NewReader(`{"code":"one more"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer greedy")
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || answer.StatusCode != 429 || answer.Header.Get("Retry-After") != "1" || !strings.Contains(string(text), `"too_many_requests"`) {
		t.Errorf("one more: %d %v %s %v", answer.StatusCode, answer.Header, text, err)
	}
	if status, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"x"}`, "Authorization", "Bearer other"); status != 200 {
		t.Errorf("another is kept out: %d %s", status, text)
	}
	close(end)
	wg.Wait()
	if status, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"x"}`, "Authorization", "Bearer greedy"); status != 200 {
		t.Errorf("with all answered: %d %s", status, text)
	}
}

// A daemon can be ended while all that its one caller may ask at a time waits.
func TestADaemonEndsWithAllItsRequestsInFlight(t *testing.T) {
	const room, share = 8, 6
	began, end, told := make(chan struct{}, room), make(chan struct{}), make(chan struct{}, 1)
	client, base := serve(t, false, Options{Agent: nobody{}, Shutdown: func() { told <- struct{}{} }, Execute: func(context.Context, Script) (Answer, error) {
		began <- struct{}{}
		<-end
		return Answer{Body: "x"}, nil
	}}, func(s *Server) { s.room = room })
	var wg sync.WaitGroup
	for range share {
		wg.Go(func() { ask(t, client, "POST", base+"/exec", `{"code":"wait"}`) })
		<-began
	}
	if status, text := ask(t, client, "POST", base+"/shutdown", ""); status >= 300 || len(told) != 1 {
		t.Errorf("%d %s", status, text)
	}
	close(end)
	wg.Wait()
}

package server

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

// open starts a server on a socket, or on TCP with a token, and returns a client
// of it and its address.
func open(t *testing.T, tcp bool, o Options) (*http.Client, string) {
	t.Helper()
	return serve(t, tcp, o, func(*Server) {})
}

// serve is open with something about the server changed.
func serve(t *testing.T, tcp bool, o Options, change func(*Server)) (*http.Client, string) {
	t.Helper()
	fill(&o)
	o.RequireToken = tcp
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	change(s)
	network, address := "unix", filepath.Join(t.TempDir(), "s")
	if tcp {
		network, address = "tcp", "127.0.0.1:0"
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, ln.Addr().String())
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	base := "http://localhost"
	if tcp {
		base = "http://" + ln.Addr().String()
	}
	return &http.Client{Transport: transport, Timeout: 2 * time.Minute}, base
}

// fill makes what a test does not look at: a script's answer is what was asked.
func fill(o *Options) {
	known := func(c runtime.Caller) error {
		if c.Token.Empty() && (c.RequireToken || !c.Peer.Owner) {
			return &runtime.Error{Code: runtime.CodeUnauthenticated, Msg: "who are you?"}
		}
		return nil
	}
	o.Identify = func(_ context.Context, c runtime.Caller) (runtime.Principal, error) {
		return runtime.Principal{ID: c.Token.Reveal(), Tenant: "default"}, known(c)
	}
	if o.Execute == nil {
		o.Execute = func(_ context.Context, s Script) (Answer, error) {
			return Answer{Body: map[string]any{"code": s.Code, "wait": s.Wait.String(), "timeout": s.Timeout.String()}}, known(s.Caller)
		}
	}
	o.Status = func(_ context.Context, c runtime.Caller, id string) (Answer, error) {
		if id != "exe_1" {
			return Answer{}, &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "there is none"}
		}
		return Answer{Body: id, Open: true}, known(c)
	}
	o.Resume = func(_ context.Context, c runtime.Caller, id string, wait time.Duration) (Answer, error) {
		return Answer{Body: id + wait.String()}, known(c)
	}
	o.Health = func(context.Context) error { return nil }
}

// ask sends one request and returns status and body.
func ask(t *testing.T, client *http.Client, method, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode >= 400 && answer.Header.Get("Content-Type") != runtime.ProblemType {
		t.Errorf("%s %s: %d is a %s", method, url, answer.StatusCode, answer.Header.Get("Content-Type"))
	}
	return answer.StatusCode, string(text)
}

func TestScriptsAreServedToTheOwnerOnASocket(t *testing.T) {
	client, base := open(t, false, Options{})
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/v1/exec", `{"code":"return '<'"}`, 200, `{"code":"return '<'","timeout":"0s","wait":"0s"}`},
		{"POST", "/v1/exec", `{"code":"x","timeoutMs":1500,"wait":"30s"}`, 200, `"timeout":"1.5s","wait":"30s"`},
		{"POST", "/v1/exec", `{"code":"x","wait":2}`, 200, `"wait":"2s"`},
		{"POST", "/v1/exec", `{"code":"x","timeoutMs":1500.0}`, 200, `"timeout":"1.5s"`},
		{"GET", "/v1/exec/exe_1", "", 202, `"exe_1"`},
		{"GET", "/v1/exec/exe_2", "", 404, `"code":"invalid_input"`},
		{"POST", "/v1/exec/exe_1/resume", "", 200, `"exe_10s"`},
		{"POST", "/v1/exec/exe_1/resume", `{"wait":"1m"}`, 200, `"exe_11m0s"`},
		{"POST", "/v1/exec", `{"code":""}`, 400, "no script"},
		{"POST", "/v1/exec", `{"code":"x","allow":[]}`, 400, "allow is empty"}, // nobody means everything by it
		{"POST", "/v1/exec", `{"code":"x","wait":"2h"}`, 400, "wait"},
		{"POST", "/v1/exec", `{"code":"x","wait":-1}`, 400, "wait"},
		{"POST", "/v1/exec", `{"code":"x","other":1}`, 400, `there is no member \"other\"`},
		{"POST", "/v1/exec", `{"code":"x"} {}`, 400, "trailing_data"},
		{"POST", "/v1/exec", `{"code":"` + strings.Repeat("x", maxBody) + `"}`, 413, "body_too_large"},
		{"GET", "/v1/exec", "", 405, "method_not_allowed"},
		{"PURGE", "/v1/exec", "", 405, "method_not_allowed"},
		{"PURGE", "/nothing", "", 404, "not_found"},
		{"GET", "/", "", 404, "no such page"},
		{"GET", "/healthz", "", 200, "ok"},
		{"GET", "/v1/openapi.json", "", 200, `"openapi":"3.1.0"`},
	} {
		status, text := ask(t, client, c.method, base+c.path, c.body)
		if status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s %.60s: %d %.300s, want %d %s", c.method, c.path, c.body, status, text, c.status, c.want)
		}
	}
}

func TestOnTCPATokenIsNeeded(t *testing.T) {
	client, base := open(t, true, Options{})
	if status, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"x"}`); status != 401 || !strings.Contains(text, "unauthenticated") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"x"}`, "Authorization", "Bearer kmb_x"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

// Who shows something in place of a token has meant to be somebody, and is not the owner for
// it, who needs none on a socket.
func TestWhatIsNoTokenIsRefusedEverywhere(t *testing.T) {
	for _, tcp := range []bool{false, true} {
		client, base := open(t, tcp, Options{})
		for shown, want := range map[string]int{
			"bearer kmb_x": 200, "BEARER kmb_x": 200, "Bearer ": 401, "Bearer": 401, "Token kmb_x": 401, "kmb_x": 401, "Basic a21iX3g6": 401,
		} {
			status, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"x"}`, "Authorization", shown)
			if status != want || want == 401 && (!strings.Contains(text, `"no_token"`) || !strings.Contains(text, "Authorization")) {
				t.Errorf("tcp %v, %q: %d %s, want %d", tcp, shown, status, text, want)
			}
		}
	}
}

// A page of a browser can send what it likes to this machine, under its own name
// or one that its own DNS has pointed here.
func TestBrowsersAreRefused(t *testing.T) {
	for _, tcp := range []bool{false, true} {
		client, base := open(t, tcp, Options{})
		for _, header := range [][]string{
			{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Content-Type", "text/plain"},
		} {
			header = append(header, "Authorization", "Bearer kmb_x")
			if status, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"x"}`, header...); status != 403 && status != 415 {
				t.Errorf("%v: %d %s", header, status, text)
			}
		}
		if !tcp {
			continue
		}
		for host, want := range map[string]int{"evil.example": 421, "127.0.0.1.evil.example:80": 421, "[::1]:5": 200, "localhost": 200} {
			if status, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"x"}`, "Host", host, "Authorization", "Bearer kmb_x"); status != want || want == 421 && !strings.Contains(text, "serve.hosts") {
				t.Errorf("Host %s: %d %s, want %d", host, status, text, want)
			}
		}
	}
}

// Where no setting adds a name, none is named.
func TestASettingThatDoesNotHoldIsNotNamed(t *testing.T) {
	client, base := open(t, true, Options{Nameless: true})
	status, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"x"}`, "Host", "evil.example", "Authorization", "Bearer kmb_x")
	if status != 421 || strings.Contains(text, "serve.hosts") || !strings.Contains(text, "address that kimbap printed") {
		t.Errorf("%d %s", status, text)
	}
}

// What was too long is not said to be a script where it is none, and the operator's listener
// names the pages that it has.
func TestHintsAreOfThePage(t *testing.T) {
	client, base := open(t, true, Options{})
	long := `{"code":"` + strings.Repeat("x", maxBody) + `"}`
	for path, want := range map[string]string{execPath: "a script has at most 64 KiB", "/v1/exec/exe_1/resume": `"send less"`} {
		if status, text := ask(t, client, "POST", base+path, long, "Authorization", "Bearer kmb_x"); status != 413 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	metrics, err := NewMetrics(Gauges{AuditLag: func() float64 { return 0 }, VaultLocked: func() bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := NewAdmin(Options{Health: func(context.Context) error { return nil }, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"GET /nowhere", "POST /readyz"} {
		method, path, _ := strings.Cut(page, " ")
		answer := httptest.NewRecorder()
		admin.router.ServeHTTP(answer, httptest.NewRequest(method, "http://localhost"+path, nil))
		if text := answer.Body.String(); strings.Contains(text, "openapi") || !strings.Contains(text, "/metrics") {
			t.Errorf("%s: %d %s", page, answer.Code, text)
		}
	}
}

func TestAPanicIsAnAnswer(t *testing.T) {
	client, base := open(t, false, Options{Execute: func(context.Context, Script) (Answer, error) { panic("secret-in-panic") }})
	if status, text := ask(t, client, "POST", base+"/v1/exec", `{"code":"x"}`); status != 500 || strings.Contains(text, "secret") {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := ask(t, client, "GET", base+"/healthz", ""); status != 200 {
		t.Error("it does not live any more")
	}
}

func TestACallerWhoLeavesIsNoticed(t *testing.T) {
	left := make(chan struct{})
	began := make(chan struct{})
	client, base := open(t, false, Options{Execute: func(ctx context.Context, _ Script) (Answer, error) {
		close(began)
		<-ctx.Done()
		close(left)
		return Answer{}, ctx.Err()
	}})
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", base+"/v1/exec", strings.NewReader(`{"code":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	go func() { <-began; leave() }()
	if answer, err := client.Do(r); err == nil {
		_ = answer.Body.Close()
		t.Error("it was answered")
	}
	<-left
}

// What the description says of requests and results is what is read and written.
func TestTheDescriptionIsJSON(t *testing.T) {
	var d struct {
		Paths      map[string]map[string]any
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(openapi, &d); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/exec", "/v1/exec/{id}", "/v1/exec/{id}/resume", "/healthz"} {
		if d.Paths[path] == nil {
			t.Errorf("%s is not described", path)
		}
	}
	for _, name := range []string{"code", "timeoutMs", "wait", "allow"} {
		if d.Components.Schemas["Script"].Properties[name] == nil {
			t.Errorf("%s is not described", name)
		}
	}
}

// Who waits for the requests that run goes on when the last has ended, and is not in the
// way of one that begins meanwhile or after.
func TestRunningRequestsAreWaitedFor(t *testing.T) {
	var r running
	over := func() bool {
		select {
		case <-r.none():
			return true
		default:
			return false
		}
	}
	if !over() {
		t.Error("there is none, and it waits")
	}
	r.add(1)
	none := r.none()
	r.add(1)
	r.add(-1)
	if over() {
		t.Error("one runs still")
	}
	r.add(-1)
	<-none
	r.add(1)
	if <-none; over() {
		t.Error("the next one is not seen")
	}
}

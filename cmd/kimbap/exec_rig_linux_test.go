package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// scriptRig is a home and an API on loopback, and the proxy that serves scripts there:
// a program as it is shipped, which can be killed and started again.
type scriptRig struct {
	t                  *testing.T
	dir, home, program string
	api                *countingAPI

	proxy  *exec.Cmd
	where  string // the proxy's word for where scripts are served
	token  string // of the caller; empty: the socket says who it is
	client *http.Client
}

// killPolicy asks a person before a note is deleted; what is asked for "brief" is not
// asked for long.
const killPolicy = `version: 1
rules:
  - {name: brief, match: {action: notes.delete-note}, when: 'args.id == "brief"', then: require_approval, approval: {expires: 1s}}
  - {name: ask, match: {action: notes.delete-note}, then: require_approval}
  - {name: rest, match: {action: "notes.*"}, then: allow}
`

func newScriptRig(t *testing.T) *scriptRig {
	t.Helper()
	program, err := workerBuilt()
	check(t, err)
	dir, err := os.MkdirTemp("", "kimbap-*") // the path of a socket must be short
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &scriptRig{t: t, dir: dir, home: filepath.Join(dir, "h"), program: program, api: newCountingAPI()}
	server := httptest.NewUnstartedServer(r.api)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that were killed
	server.StartTLS()                                   // its certificate is for example.com
	t.Cleanup(func() { r.api.end(); server.Close() })
	roots := filepath.Join(dir, "roots.pem")
	check(t, os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	service, err := filepath.Abs("testdata/notes.yaml")
	check(t, err)
	r.kimbap("", "init", "-q")
	config := fmt.Sprintf("upstream:\n  ca_file: %s\n  resolve: {\"example.com:443\": %q}\n", roots, server.Listener.Addr())
	check(t, os.WriteFile(filepath.Join(r.home, "config.yaml"), []byte(config), 0o600))
	check(t, os.WriteFile(filepath.Join(r.home, "policy.yaml"), []byte(killPolicy), 0o600))
	r.kimbap("", "service", "install", service)
	r.kimbap(canary+"\n", "link", "notes", "--no-check")
	return r
}

// command is the program, in the rig's home, with nothing of the test's environment.
func (r *scriptRig) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.program, args...)
	cmd.Dir, cmd.Env = r.dir, []string{"HOME=" + r.dir, "KIMBAP_HOME=" + r.home, "PATH=" + os.Getenv("PATH"), "NO_COLOR=1"}
	return cmd
}

// kimbap runs one command that must end well, as the person of the home.
func (r *scriptRig) kimbap(stdin string, args ...string) string {
	r.t.Helper()
	cmd := r.command(args...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &said
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("kimbap %s: %v\n%s%s", strings.Join(args, " "), err, out, said.String())
	}
	return strings.TrimSpace(string(out))
}

// serve starts the proxy, and returns when it says that it listens.
func (r *scriptRig) serve(args ...string) {
	r.t.Helper()
	cmd := r.command(append([]string{"proxy", "--listen", "127.0.0.1:0"}, args...)...)
	said, err := cmd.StderrPipe()
	check(r.t, err)
	check(r.t, cmd.Start())
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(said)
	r.proxy, r.where = cmd, ""
	var heard []string
	for lines.Scan() {
		heard = append(heard, lines.Text())
		if where, ok := strings.CutPrefix(lines.Text(), "scripts on "); ok {
			r.where = where
		}
		if strings.HasPrefix(lines.Text(), "listening on http://") && r.where != "" {
			break
		}
	}
	if r.where == "" {
		r.t.Fatalf("it serves no scripts: %q", heard)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	transport := &http.Transport{}
	if socket, unix := strings.CutPrefix(r.where, "unix:"); unix {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}
	}
	r.t.Cleanup(transport.CloseIdleConnections)
	r.client = &http.Client{Transport: transport, Timeout: deadline}
}

// kill ends the proxy as kill -9 does, and waits until it is gone.
func (r *scriptRig) kill() {
	r.t.Helper()
	check(r.t, r.proxy.Process.Kill())
	_ = r.proxy.Wait()
	r.client.CloseIdleConnections()
}

// told is what the sidecar answers, as far as it matters here.
type told struct {
	Success     bool
	Value       json.RawMessage
	Kind, Error string
	ExecutionID string
	Calls       []struct{ Path, Status string }
	Logs        []struct{ Message string }
	Paused      *struct{ ApprovalID, ToolPath string }

	status int
	text   string
}

// ask sends a request of the API of scripts.
func (r *scriptRig) ask(method, path string, body any) (told, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return told{}, err
	}
	base := r.where
	if strings.HasPrefix(base, "unix:") {
		base = "http://localhost"
	}
	q, err := http.NewRequest(method, base+path, bytes.NewReader(text))
	if err != nil {
		return told{}, err
	}
	q.Header.Set("Content-Type", "application/json")
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	answer, err := r.client.Do(q)
	if err != nil {
		return told{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	out := told{status: answer.StatusCode, text: string(data)}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if strings.Contains(out.text, canary) {
		r.t.Error("the stored credential was told")
	}
	return out, err
}

// must is ask with an answer of a status.
func (r *scriptRig) must(status int, method, path string, body any) told {
	r.t.Helper()
	got, err := r.ask(method, path, body)
	if err != nil || got.status != status {
		r.t.Fatalf("%s %s: %d %v, want %d: %s", method, path, got.status, err, status, got.text)
	}
	return got
}

// countingAPI is the API of notes.yaml. It counts what it is asked; a note whose id
// begins with "held" is not answered while it holds, and "slow" not before "after" came.
type countingAPI struct {
	mu      sync.Mutex
	counts  map[string]int
	holds   bool
	arrived chan string   // what is held
	after   chan struct{} // closed when "after" came
	ended   chan struct{}
	once    sync.Once
}

func newCountingAPI() *countingAPI {
	return &countingAPI{counts: map[string]int{}, arrived: make(chan string, 16), after: make(chan struct{}), ended: make(chan struct{})}
}

// end lets go of all that waits.
func (a *countingAPI) end() { close(a.ended) }

func (a *countingAPI) hold(yes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holds = yes
}

// forget begins to count anew.
func (a *countingAPI) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts = map[string]int{}
}

// seen is how often each request came: "2 GET /notes/a".
func (a *countingAPI) seen() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]int{}
	for what, n := range a.counts {
		out[what] = n
	}
	return out
}

func (a *countingAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var note struct{ Title string }
	_ = json.Unmarshal(body, &note)
	what := strings.TrimSpace(r.Method + " " + r.URL.Path + " " + note.Title)
	a.mu.Lock()
	a.counts[what]++
	holds := a.holds && strings.Contains(what, "held")
	a.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+canary {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch id := strings.TrimPrefix(r.URL.Path, "/notes/"); {
	case holds:
		a.arrived <- what
		select {
		case <-r.Context().Done():
		case <-a.ended:
		}
		return
	case id == "after":
		a.once.Do(func() { close(a.after) })
	case id == "slow":
		select {
		case <-a.after:
		case <-a.ended:
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"did": what})
}

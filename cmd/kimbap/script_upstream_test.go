package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// notesAPI is the API of testdata/notes.yaml: it wants the credential, remembers
// what it was asked, and answers.
type notesAPI struct {
	dir string // of the script: /files/NAME is a file of it
	mu  sync.Mutex
	got strings.Builder
}

// apis are the running ones, by script.
var apis sync.Map

func startUpstream(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: upstream")
	}
	api := &notesAPI{dir: ts.MkAbs(".")}
	server := httptest.NewTLSServer(api)
	ts.Defer(server.Close)
	apis.Store(ts, api)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	ts.Check(os.WriteFile(ts.MkAbs("upstream.pem"), cert, 0o644))
	service, err := os.ReadFile(filepath.Join(ts.Getenv("TESTDATA"), "notes.yaml"))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("notes.yaml"), service, 0o644))
	home := ts.Getenv("KIMBAP_HOME")
	ts.Check(os.MkdirAll(home, 0o700))
	ts.Check(os.WriteFile(filepath.Join(home, "config.yaml"), fmt.Appendf(nil, "upstream:\n  resolve: {\"example.com:443\": \"%s\"}\n  ca_file: %s\n",
		strings.TrimPrefix(server.URL, "https://"), ts.MkAbs("upstream.pem")), 0o600))
}

// received writes one line for each request: method, target, credential
// (masked) and body.
func received(ts *testscript.TestScript, neg bool, args []string) {
	api, ok := apis.Load(ts)
	if neg || len(args) != 1 || !ok {
		ts.Fatalf("usage: received FILE, after upstream")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(api.(*notesAPI).take()), 0o644))
}

func (n *notesAPI) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.got.Reset()
	return n.got.String()
}

func (n *notesAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name, ok := strings.CutPrefix(r.URL.Path, "/files/"); ok {
		http.ServeFile(w, r, filepath.Join(n.dir, filepath.Base(name)))
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, "/redirect/"); ok {
		http.Redirect(w, r, strings.ReplaceAll(name, "!", "/"), http.StatusFound)
		return
	}
	body, _ := io.ReadAll(r.Body)
	key := "no key"
	switch r.Header.Get("Authorization") {
	case "":
	case "Bearer " + canary:
		key = "the key"
	default:
		key = "another key"
	}
	n.mu.Lock()
	fmt.Fprintln(&n.got, strings.TrimSpace(fmt.Sprintf("%s %s (%s) %s", r.Method, r.RequestURI, key, body)))
	n.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if key != "the key" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"message":"bad credentials"}`)
		return
	}
	n.answer(w, r, body)
}

func (n *notesAPI) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	switch path := r.URL.Path; {
	case path == "/sleep":
		<-r.Context().Done()
	case strings.HasPrefix(path, "/status/"):
		status, _ := strconv.Atoi(strings.TrimPrefix(path, "/status/"))
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"message":"the API said %d"}`, status)
	case path == "/notes/missing":
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"message":"not found"}`)
	case path == "/notes/mirror":
		// An API that shows the caller its own credential.
		_ = json.NewEncoder(w).Encode(map[string]string{"you_sent": r.Header.Get("Authorization")})
	case r.Method == http.MethodPost:
		_, _ = w.Write(body)
	case strings.HasPrefix(path, "/notes/"):
		fmt.Fprintf(w, `{"id":%q,"title":"one note"}`, strings.TrimPrefix(path, "/notes/"))
	default:
		fmt.Fprint(w, `[{"id":"1","title":"rice"},{"id":"2","title":"seaweed"}]`)
	}
}

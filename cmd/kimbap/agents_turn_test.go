//go:build agents

package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// `make agents`: real coding agents, as npm installs them, do a session behind
// `kimbap run`. What answers is a stub of the vendor's API over TLS, under the
// vendor's own name; it wants the real key, and the agent has a placeholder. Its
// model asks for a command first, and gets from the agent what that said.

// spoken is what the stub's model says, and what the agent must print.
const spoken = "kimbap-heard-you-7431"

// agent is one, its vendor and how a turn is asked for.
type agent struct {
	name    string   // of its program
	service string   // of the catalogue
	host    string   // where it sends the turn
	field   string   // with the key
	prefix  string   // before it
	script  string   // run by sh behind kimbap run
	env     []string // beside that of the test
	files   map[string]string
}

// key is the real one, which the agent never sees.
func (a agent) key() string { return "real-key-of-" + a.service }

func agents() []agent {
	return []agent{
		{
			name: "claude", service: "anthropic", host: "api.anthropic.com", field: "X-Api-Key",
			script: `claude -p 'Say hello' --output-format text --allowedTools Bash </dev/null`,
			env:    []string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"},
		},
		{
			name: "codex", service: "openai", host: "api.openai.com", field: "Authorization", prefix: "Bearer ",
			script: `CODEX_API_KEY=$OPENAI_API_KEY codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox 'Say hello' </dev/null`,
		},
		{
			name: "gemini", service: "gemini", host: "generativelanguage.googleapis.com", field: "X-Goog-Api-Key",
			script: `gemini --skip-trust --yolo -m gemini-2.5-flash -p 'Say hello' </dev/null`,
			files:  map[string]string{".gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"disableAutoUpdate": true}, "privacy": {"usageStatisticsEnabled": false}}`},
		},
	}
}

// vendors answers for all vendors, and notes which key came with each turn.
type vendors struct {
	mu    sync.Mutex
	turns map[string][]string // by host: the keys of turns
	heard map[string]string   // by host: the turn in which the agent said what its command had said
	other []string            // what else was asked
}

func (v *vendors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	host, _, _ := strings.Cut(r.Host, ":")
	if host == codeHost && r.Header.Get("Authorization") == "Bearer "+codeKey {
		_, _ = io.WriteString(w, `{"login":"octo-4471"}`)
		return
	}
	events := map[string]func(string) []string{
		"api.anthropic.com": anthropicTurn, "api.openai.com": openaiTurn, "generativelanguage.googleapis.com": geminiTurn,
	}[host]
	turn := r.Method == http.MethodPost && (strings.HasSuffix(r.URL.Path, "/messages") || strings.HasSuffix(r.URL.Path, "/responses") ||
		strings.Contains(r.URL.Path, "enerateContent"))
	v.mu.Lock()
	if turn && events != nil {
		v.turns[host] = append(v.turns[host], r.Header.Get("X-Api-Key")+r.Header.Get("Authorization")+r.Header.Get("X-Goog-Api-Key"))
		if turnWants(string(body)) == wantsAnswer {
			v.heard[host] = string(body)
		}
	} else {
		v.other = append(v.other, r.Method+" "+r.Host+r.URL.Path)
	}
	v.mu.Unlock()
	if !turn || events == nil {
		http.Error(w, `{"error":{"message":"there is no such page"}}`, http.StatusNotFound)
		return
	}
	var asked struct{ Stream bool }
	_ = json.Unmarshal(body, &asked)
	if !asked.Stream && !strings.Contains(r.URL.Path, "streamGenerate") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, wholeTurn(host))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, data := range events(string(body)) {
		var kind struct{ Type string }
		_ = json.Unmarshal([]byte(data), &kind)
		if kind.Type != "" {
			fmt.Fprintf(w, "event: %s\n", kind.Type)
		}
		fmt.Fprintf(w, "data: %s\n\n", data)
	}
}

// open serves the vendors' names on loopback until the test ends, and writes the root
// that certifies them to a file.
func (v *vendors) open(t *testing.T, file string) (address string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "vendors"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	template.DNSNames = append(template.DNSNames, codeHost)
	for _, a := range agents() {
		template.DNSNames = append(template.DNSNames, a.host)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	check(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	server := &http.Server{
		Handler: v, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12},
	}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(ln, "", "") }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return ln.Addr().String()
}

// turnTime is how long an agent may take for one turn.
const turnTime = 3 * time.Minute

func TestAgentsDoATurnWithAPlaceholder(t *testing.T) {
	programs := os.Getenv("AGENTS_BIN")
	if programs == "" {
		t.Fatal("AGENTS_BIN is not set: run this through `make agents`")
	}
	v := &vendors{turns: map[string][]string{}, heard: map[string]string{}}
	root := filepath.Join(t.TempDir(), "vendors.pem")
	address := v.open(t, root)
	for _, a := range agents() {
		t.Run(a.name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(programs, a.name)); err != nil {
				t.Fatalf("npm did not install it: %v", err)
			}
			r := newDaemonRig(t)
			resolve, err := json.Marshal(map[string]string{a.host + ":443": address, codeHost + ":443": address})
			check(t, err)
			check(t, os.WriteFile(filepath.Join(r.home, "config.yaml"), fmt.Appendf(nil, "upstream: {ca_file: %q, resolve: %s}\n", root, resolve), 0o600))
			for name, text := range a.files {
				check(t, os.MkdirAll(filepath.Dir(filepath.Join(r.dir, name)), 0o700))
				check(t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
			}
			for service, key := range map[string]string{a.service: a.key(), "github": codeKey} {
				link := r.command("", "link", service, "--no-check")
				link.Stdin = strings.NewReader(key + "\n")
				if out, err := link.CombinedOutput(); err != nil {
					t.Fatalf("link: %v\n%s", err, out)
				}
			}
			said := r.turn(t, a, programs)
			if !strings.Contains(said, spoken) {
				t.Errorf("it does not say what the model said")
			}
			if strings.Contains(said, a.key()) {
				t.Errorf("it has seen the key")
			}
			v.mu.Lock()
			defer v.mu.Unlock()
			for _, want := range []string{"octo-4471", "policy denies this action", "do not send it again", "ghp_kimbap"} {
				if !strings.Contains(v.heard[a.host], want) {
					t.Errorf("its model was not told %q, which the command it asked for had said: %.4000s", want, v.heard[a.host])
				}
			}
			if strings.Contains(v.heard[a.host], codeKey) {
				t.Error("its model was told the key")
			}
			for _, key := range v.turns[a.host] {
				if key != a.prefix+a.key() {
					t.Errorf("%s saw the key %q", a.host, key)
				}
			}
			if len(v.turns[a.host]) == 0 {
				t.Errorf("%s saw no turn; what was asked: %q", a.host, v.other)
			}
			t.Logf("%d requests of the model, each with the real key; besides: %q", len(v.turns[a.host]), v.other)
			v.other = nil
		})
	}
}

// turn runs an agent behind kimbap run and returns what it printed.
func (r daemonRig) turn(t *testing.T, a agent, programs string) string {
	t.Helper()
	work := filepath.Join(r.dir, "work")
	check(t, os.Mkdir(work, 0o700))
	cmd := r.command("", "run", "--", "sh", "-c", "env >env; "+a.script)
	cmd.Env = append(cmd.Env, "PATH="+programs+":"+os.Getenv("PATH"), "TMPDIR="+t.TempDir(), "NO_COLOR=1", "TERM=dumb")
	cmd.Env = append(cmd.Env, a.env...)
	cmd.Dir = work
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	check(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-time.After(turnTime):
		_ = cmd.Process.Kill()
		err = fmt.Errorf("%w, after %s", <-ended, turnTime)
	}
	t.Logf("%s\n%s%s", a.script, &out, &errs)
	if err != nil {
		t.Errorf("%s: %v", a.name, err)
	}
	env, err := os.ReadFile(filepath.Join(work, "env"))
	check(t, err)
	if strings.Contains(string(env), a.key()) || !strings.Contains(string(env), "_API_KEY=") {
		t.Errorf("its environment has the key, or no placeholder:\n%s", env)
	}
	return out.String()
}

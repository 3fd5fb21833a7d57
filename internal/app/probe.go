package app

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/runtime"
)

const (
	probeHost    = "probe.kimbap.example" // which no resolver knows: who goes around the proxy finds nothing
	probePath    = "/v1/hello"
	probeTimeout = 30 * time.Second // of one client, which gives up before
)

const probeService = `name: probe
version: 1.0.0
description: What kimbap doctor lets clients fetch
base_url: https://` + probeHost + `
auth: {type: bearer, credential_ref: probe.token}
actions:
  fetch: {description: Fetch, method: [GET, HEAD, POST], path: /**, risk: {level: low}}
`

// Probed is how one client got on.
type Probed struct {
	Client string `json:"client"`
	State  string `json:"state"` // ok | missing | around | untrusted | failed
	Said   string `json:"said"`
	Fix    string `json:"fix,omitempty"`
}

// ProbeNames are the clients that ProbeClients knows.
func ProbeNames() []string {
	var out []string
	for _, p := range runner.Probes() {
		out = append(out, p.Name)
	}
	return out
}

// Probing is what ProbeClients needs of the process.
type Probing struct {
	Options          // of which the home is not used
	Names   []string // clients; empty: all
	Fetch   []string // command that leads to FetchOnce, for Go
	Tell    func(Probed)
}

// ProbeClients starts each client behind a proxy of its own, over a home that is
// made for it and removed, and lets it fetch from a local upstream that wants a
// key. The client is the user's own, with their settings; it learns nothing but a
// made-up key's absence.
func ProbeClients(ctx context.Context, o Probing) (err error) {
	dir, err := os.MkdirTemp("", "kimbap-doctor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	upstream, err := newProbeUpstream()
	if err != nil {
		return err
	}
	defer upstream.close()
	a, err := probeHome(ctx, o.Options, dir, upstream)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	for _, p := range runner.Probes() {
		if !wantsProbe(o.Names, p.Name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.Argv == nil {
			p.Argv = func(url, _ string) []string { return append(append([]string{}, o.Fetch...), url) }
		}
		got, err := a.probe(ctx, p, upstream)
		if err != nil {
			return err
		}
		o.Tell(got)
	}
	return nil
}

func wantsProbe(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return len(names) == 0
}

// probeHome opens a home with one service, whose host is the upstream, and its key.
func probeHome(ctx context.Context, o Options, dir string, upstream *probeUpstream) (*App, error) {
	home := filepath.Join(dir, "home")
	files := map[string]string{
		"upstream.pem": string(upstream.root), "probe.yaml": probeService,
		"home/config.yaml": fmt.Sprintf("upstream:\n  ca_file: %q\n  resolve: {%q: %q}\nmaster_key: {source: file}\n",
			filepath.Join(dir, "upstream.pem"), probeHost+":443", upstream.ln.Addr().String()),
	}
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	env := []string{"KIMBAP_HOME=" + home}
	for _, pair := range o.Env {
		if !strings.HasPrefix(pair, "KIMBAP_") {
			env = append(env, pair)
		}
	}
	o.Home, o.Env, o.Flags, o.Create, o.Slot, o.Tenant = home, env, nil, true, "run", ""
	a, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := a.Open(ctx); err != nil {
		return nil, err
	}
	_, err = a.InstallService(ctx, filepath.Join(dir, "probe.yaml"), nil)
	if err == nil {
		_, _, err = a.SetSecret(ctx, "probe.token", runtime.NewSecret(upstream.key), SecretOptions{})
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// probe runs one client and says how it got on.
func (a *App) probe(ctx context.Context, p runner.Probe, upstream *probeUpstream) (Probed, error) {
	out := Probed{Client: p.Name}
	if p.Needs != "" {
		if _, err := exec.LookPath(p.Needs); err != nil {
			out.State, out.Said = "missing", "there is no "+p.Needs+" here"
			return out, nil
		}
	}
	dir, err := os.MkdirTemp("", "kimbap-probe-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(dir)
	for name, text := range p.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return out, err
		}
	}
	upstream.hits.Store(0)
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var said bytes.Buffer
	code, err := a.Run(ctx, RunOptions{
		Command: p.Argv("https://"+probeHost+probePath, dir), Agent: "doctor", Unattended: true, NoCover: true, Stop: ctx.Done(),
		Stdin: strings.NewReader(""), Stdout: &said, Stderr: &said, Say: func(string) {},
	})
	if err != nil {
		return out, err
	}
	judge(&out, p, code, upstream.hits.Load() > 0, a.run.tally, said.String())
	return out, nil
}

// judge says what the outcome of a probe means.
func judge(out *Probed, p runner.Probe, code int, arrived bool, tally *Tally, said string) {
	last := complaint(said)
	switch {
	case arrived:
		out.State, out.Said = "ok", "goes through the proxy, trusts the CA, and its requests get the key"
	case code == runner.NotHere:
		out.State, out.Said = "missing", "not installed"
	case tally.shown.Load() == 0 && tally.requests.Load() == 0:
		out.State, out.Said, out.Fix = "around", "went around the proxy, without a key: "+last, p.Around
	case tally.requests.Load() == tally.rejected.Load():
		out.State, out.Said, out.Fix = "untrusted", "reached the proxy and did not trust its CA: "+last, p.CA
	default:
		out.State, out.Said, out.Fix = "failed", "its request came to the proxy, and went no further: "+last, "kimbap -v run -- "+p.Name+" …, which shows requests"
	}
}

// complaint is the line of a program's output that says most likely what went wrong.
func complaint(said string) string {
	const most = 200
	line := ""
	for l := range strings.Lines(said) {
		if l = strings.TrimSpace(l); l != "" {
			line = l
		}
		if strings.Contains(strings.ToLower(l), "error") || strings.Contains(strings.ToLower(l), "certificate") {
			break
		}
	}
	return strings.ToValidUTF8(line[:min(len(line), most)], "")
}

// FetchOnce prints what is at a URL, as any program in Go would get it: that is
// what doctor tries for Go.
func FetchOnce(ctx context.Context, url string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(out, answer.Body)
	return err
}

// probeUpstream is an API on loopback that wants a key.
type probeUpstream struct {
	ln     net.Listener
	server *http.Server
	root   []byte // PEM
	key    string
	hits   atomic.Int64 // requests that had the key
	done   chan struct{}
}

func newProbeUpstream() (*probeUpstream, error) {
	cert, root, err := probeCertificate()
	if err != nil {
		return nil, err
	}
	u := &probeUpstream{root: root, key: rand.Text(), done: make(chan struct{})}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u.ln = ln
	u.server = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+u.key {
				http.Error(w, "no key", http.StatusUnauthorized)
				return
			}
			u.hits.Add(1)
			_, _ = io.WriteString(w, "hello\n")
		}),
	}
	go func() {
		defer close(u.done)
		_ = u.server.Serve(tls.NewListener(ln, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}))
	}()
	return u, nil
}

func (u *probeUpstream) close() {
	_ = u.server.Close()
	<-u.done
}

// probeCertificate is one for the upstream's host, valid for an hour, and itself as
// PEM: who trusts it trusts that host alone.
func probeCertificate() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{probeHost}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

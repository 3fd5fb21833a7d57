package probe

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
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/runtime"
)

const (
	host    = "probe.kimbap.example" // which no resolver knows: who goes around the proxy finds nothing
	path    = "/v1/hello"
	timeout = 30 * time.Second // of one client, which gives up before
)

const service = `name: probe
version: 1.0.0
description: What kimbap doctor lets clients fetch
base_url: https://` + host + `
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

// Names are the clients that [Clients] knows.
func Names() []string {
	var out []string
	for _, p := range runner.Probes() {
		out = append(out, p.Name)
	}
	return out
}

// Options are what [Clients] needs; all but Names are required.
type Options struct {
	Names []string // clients; empty: all
	Fetch []string // command that leads to [Fetch], for Go
	Tell  func(Probed)
	Open  func(ctx context.Context, s Setup) (Kimbap, error)
}

// Setup is what the kimbap that clients are tried with is made of.
type Setup struct {
	Home    string // folder, with a config.yaml and nothing else; removed in the end
	Service string // file of the one service
	Secret  string // under which its key is stored
	Key     runtime.Secret
}

// Kimbap runs clients.
type Kimbap interface {
	// Run starts a command behind a proxy of its own, without input and with what it
	// says written to said, and returns its exit code and what that proxy saw of it.
	Run(ctx context.Context, command []string, said io.Writer) (code int, saw Saw, err error)
	Close() error
}

// Saw is what a proxy saw of one client.
type Saw struct {
	Shown    int64 // how often it showed a certificate
	Requests int64 // that came to it
	Rejected int64 // of those: what the client ended, not trusting the certificate
}

// tried are the files of a kimbap and of the clients that are tried with it.
const tried = "the files to try clients with"

// Clients starts each client behind a proxy of its own, over a home that is
// made for it and removed, and lets it fetch from a local upstream that wants a
// key. The client is the user's own, with their settings; it learns nothing but a
// made-up key's absence.
func Clients(ctx context.Context, o Options) (err error) {
	dir, err := os.MkdirTemp(runner.Temporary(), "kimbap-doctor-")
	if err != nil {
		return runner.Unplaced(tried, err)
	}
	defer os.RemoveAll(dir)
	up, err := newUpstream()
	if err != nil {
		return err
	}
	defer up.close()
	k, err := open(ctx, o, dir, up)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	for _, p := range runner.Probes() {
		if len(o.Names) > 0 && !slices.Contains(o.Names, p.Name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.Argv == nil {
			p.Argv = func(url, _ string) []string { return append(append([]string{}, o.Fetch...), url) }
		}
		got, err := try(ctx, k, p, up)
		if err != nil {
			return err
		}
		o.Tell(got)
	}
	return nil
}

// open opens a kimbap with one service, whose host is the upstream, and its key.
func open(ctx context.Context, o Options, dir string, up *upstream) (Kimbap, error) {
	s := Setup{Home: filepath.Join(dir, "home"), Service: filepath.Join(dir, "probe.yaml"), Secret: "probe.token", Key: runtime.NewSecret(up.key)}
	files := map[string]string{
		"upstream.pem": string(up.root), "probe.yaml": service,
		"home/config.yaml": fmt.Sprintf("upstream:\n  ca_file: %q\n  resolve: {%q: %q}\nmaster_key: {source: file}\n",
			filepath.Join(dir, "upstream.pem"), host+":443", up.ln.Addr().String()),
	}
	if err := os.Mkdir(s.Home, 0o700); err != nil {
		return nil, runner.Unplaced(tried, err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, runner.Unplaced(tried, err)
		}
	}
	return o.Open(ctx, s)
}

// try runs one client and says how it got on.
func try(ctx context.Context, k Kimbap, p runner.Probe, up *upstream) (Probed, error) {
	out := Probed{Client: p.Name}
	if p.Needs != "" {
		if _, err := exec.LookPath(p.Needs); err != nil {
			out.State, out.Said = "missing", "there is no "+p.Needs+" here"
			return out, nil
		}
	}
	dir, err := os.MkdirTemp(runner.Temporary(), "kimbap-probe-")
	if err != nil {
		return out, runner.Unplaced(tried, err)
	}
	defer os.RemoveAll(dir)
	for name, text := range p.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return out, runner.Unplaced(tried, err)
		}
	}
	up.hits.Store(0)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var said bytes.Buffer
	code, saw, err := k.Run(ctx, p.Argv("https://"+host+path, dir), &said)
	if err != nil {
		return out, err
	}
	judge(&out, p, code, up.hits.Load() > 0, saw, said.String())
	if out.State == "around" && p.Needs != "" {
		err = starts(ctx, k, p.Needs, &out)
	}
	return out, err
}

// starts corrects what is said of a client that showed itself nowhere: a program in
// the PATH may stand for one that is not installed, as rustup's cargo without a
// toolchain does, and has gone around nothing.
func starts(ctx context.Context, k Kimbap, program string, out *Probed) error {
	version := "--version"
	if program == "javac" {
		version = "-version" // which Java 8 knows too
	}
	var said bytes.Buffer
	code, _, err := k.Run(ctx, []string{program, version}, &said)
	if err == nil && code != 0 {
		out.State, out.Said, out.Fix = "missing", program+" does not start here: "+complaint(said.String()), ""
	}
	return err
}

// judge says what the outcome of a probe means.
func judge(out *Probed, p runner.Probe, code int, arrived bool, saw Saw, said string) {
	last := complaint(said)
	switch {
	case arrived:
		out.State, out.Said = "ok", "goes through the proxy, trusts the CA, and its requests get the key"
	case code == runner.NotHere:
		out.State, out.Said = "missing", "not installed"
	case saw.Shown == 0 && saw.Requests == 0:
		out.State, out.Said, out.Fix = "around", "went around the proxy, without a key: "+last, p.Around
	case saw.Requests == saw.Rejected:
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

// Fetch prints what is at a URL, as any program in Go would get it: that is
// what doctor tries for Go.
func Fetch(ctx context.Context, url string, out io.Writer) error {
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

// upstream is an API on loopback that wants a key.
type upstream struct {
	ln     net.Listener
	server *http.Server
	root   []byte // PEM
	key    string
	hits   atomic.Int64 // requests that had the key
	done   chan struct{}
}

func newUpstream() (*upstream, error) {
	cert, root, err := certificate()
	if err != nil {
		return nil, err
	}
	u := &upstream{root: root, key: rand.Text(), done: make(chan struct{})}
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

func (u *upstream) close() {
	_ = u.server.Close()
	<-u.done
}

// certificate is one for the upstream's host, valid for an hour, and itself as
// PEM: who trusts it trusts that host alone.
func certificate() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

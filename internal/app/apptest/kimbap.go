// Package apptest is a whole kimbap for tests: a home in a folder of the test,
// a proxy on a port of its own, an upstream from servicestest behind it, and a
// client that trusts the certificates. Nothing in it is simulated: sockets, TLS,
// SQLite and the ledger are the real ones.
//
// It is imported by tests only and reaches nothing but loopback. Start reading
// at [New].
package apptest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// The one service that a kimbap of this package has when a test names no other.
const (
	Host      = "api.notes.test"
	Authority = Host + ":443"
	Secret    = "notes.token"
	Key       = "sk-live-stored-5f1b8f0e6f6c4a50" // what is stored under Secret
	Fake      = "notes_kimbap"                    // its placeholder
)

// Notes is that service: every risk, and no catch-all, so that something is
// left unmatched.
const Notes = `name: notes
version: 1.0.0
description: Notes, for tests
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
placeholders: {NOTES_TOKEN: notes_kimbap}
actions:
  get-note: {description: Read one note, method: [GET, HEAD], path: "/notes/{id:int}", idempotent: true, risk: {level: low}, args: [{name: id, type: integer, required: true}]}
  read-as: {description: Read as the upstream likes it, method: GET, path: "/{how}", idempotent: true, websocket: true, risk: {level: low}, args: [{name: how, type: string, required: true}]}
  create-note: {description: Write a note, method: POST, path: /notes, risk: {level: medium}, args: [{name: text, type: string, required: true}]}
  delete-note: {description: Delete a note, method: DELETE, path: "/notes/{id:int}", risk: {level: high}, args: [{name: id, type: integer, required: true}]}
  create-key: {description: Make a key, method: POST, path: /keys, risk: {level: critical, grants_access: true}, args: [{name: fields, type: object, rest: true}]}
`

// Options are what differs between one kimbap and another. The zero Options
// are a good one.
type Options struct {
	Services []string         // YAML texts; none: Notes
	Policy   string           // policy.yaml; "": what init writes
	Config   string           // further sections of config.yaml, behind upstream: indented lines are of that
	Engine   string           // proxy.engine, instead of a proxy section in Config; "": the default
	Resolve  []string         // further authorities that lead to the upstream
	Unlinked bool             // store no credential
	Scripts  string           // a kimbap without cgo, see [Worker]: it runs scripts
	Joins    *Kimbap          // whose store in PostgreSQL it shares, and so its master key; nil: nobody's
	Locked   bool             // start without the master key, until [Kimbap.PutKeyBack]
	Nameless bool             // the kernel says of no connection whose it is
	Clock    func() time.Time // of its Apps; nil: time.Now
	Version  string           // of its Apps' program
	Bare     bool             // compare no message with its declared changes, as in a home of users
	Upstream servicestest.Options
	Serve    app.ServeOptions
	Prepare  func(k *Kimbap) // when the home is whole, before the proxy starts; may be nil
}

// Kimbap is a running one.
type Kimbap struct {
	App   *app.App // the proxy's own
	Dir   string   // the home
	Proxy string   // host:port
	Up    *servicestest.Upstream
	Log   *Buffer // every line logged by any App of this home, at trace level

	roots    []byte
	scripts  string
	nameless bool
	clock    func() time.Time
	version  string
	read     *reading // nil: what is read is not kept
}

// New starts a kimbap that ends with the test.
func New(t testing.TB, o Options) *Kimbap {
	t.Helper()
	if len(o.Services) == 0 {
		o.Services = []string{Notes}
	}
	o.Upstream.Hosts = append(o.Upstream.Hosts, Host, "*.test", "*.notes.test")
	k := &Kimbap{Dir: filepath.Join(t.TempDir(), "home"), Up: servicestest.New(t, o.Upstream), Log: &Buffer{}, scripts: o.Scripts, nameless: o.Nameless, clock: o.Clock, version: o.Version, read: &reading{}}
	k.Furnish(t, o)
	if o.Locked {
		if err := os.Rename(filepath.Join(k.Dir, "master.key"), filepath.Join(k.Dir, "aside.key")); err != nil {
			t.Fatal(err)
		}
	}
	k.App = k.Open(t, "proxy")
	if o.Prepare != nil {
		o.Prepare(k)
	}
	if o.Serve.Listen == "" {
		o.Serve.Listen = "127.0.0.1:0"
	}
	o.Serve.State = true
	k.Proxy = k.Serve(t, k.App, o.Serve)
	return k
}

// Make makes a bare home, with nothing behind it, and returns an App over it,
// which the caller closes.
func (k *Kimbap) Make(t testing.TB) *app.App {
	t.Helper()
	a, err := k.open("", "", true)
	if err != nil {
		t.Fatalf("open a new home: %v", err)
	}
	return a
}

// Furnish makes the home: configuration, policy, services, credential.
func (k *Kimbap) Furnish(t testing.TB, o Options) {
	t.Helper()
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	k.Write(t, "upstream-ca.pem", string(k.Up.CAPEM()))
	resolve := ""
	for _, authority := range append([]string{Authority}, o.Resolve...) {
		resolve += fmt.Sprintf("    %q: %q\n", authority, k.Up.Authority)
	}
	if o.Engine != "" {
		o.Config += "proxy: {engine: " + o.Engine + "}\n"
	}
	if !o.Bare {
		o.Config += "debug: {mutations: verify}\n"
	}
	k.Write(t, "config.yaml", fmt.Sprintf("upstream:\n  ca_file: %s\n  resolve:\n%s%s", filepath.Join(k.Dir, "upstream-ca.pem"), resolve, o.Config))
	if o.Policy != "" {
		k.Write(t, "policy.yaml", o.Policy)
	}
	if o.Joins != nil {
		key, err := os.ReadFile(filepath.Join(o.Joins.Dir, "master.key"))
		if err != nil {
			t.Fatal(err)
		}
		k.Write(t, "master.key", string(key))
	}
	a, err := k.open("", "", true)
	if err != nil {
		t.Fatalf("open a new home: %v", err)
	}
	for i, text := range o.Services {
		file := filepath.Join(t.TempDir(), fmt.Sprintf("service-%d.yaml", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := a.InstallService(t.Context(), file, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !o.Unlinked {
		if _, _, err := a.SetSecret(t.Context(), Secret, runtime.NewSecret(Key), app.SecretOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ca, err := a.CA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k.roots = ca.RootPEM()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

// Write puts a file into the home, whole at every moment.
func (k *Kimbap) Write(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(k.Dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// PutKeyBack gives a home that was made Locked its master key.
func (k *Kimbap) PutKeyBack(t testing.TB) {
	t.Helper()
	if err := os.Rename(filepath.Join(k.Dir, "aside.key"), filepath.Join(k.Dir, "master.key")); err != nil {
		t.Fatal(err)
	}
}

// Open opens one more App over the home, as another process would: slot "" is
// that of the short commands. It is closed at the end of the test.
func (k *Kimbap) Open(t testing.TB, slot string) *app.App {
	t.Helper()
	return k.opened(t, slot, "")
}

// OpenAs opens one more App over the home for the operator of a tenant.
func (k *Kimbap) OpenAs(t testing.TB, tenant runtime.Tenant) *app.App {
	t.Helper()
	return k.opened(t, "", tenant)
}

// OpenWith opens an App with options, as of [OptionsOver]. It is closed at the end of the test.
func OpenWith(t testing.TB, o app.Options) *app.App {
	t.Helper()
	a, err := app.New(o)
	if err == nil {
		err = a.Open(context.Background())
	}
	if err != nil {
		t.Fatalf("open the home: %v", err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func (k *Kimbap) opened(t testing.TB, slot string, tenant runtime.Tenant) *app.App {
	t.Helper()
	a, err := k.open(slot, tenant, false)
	if err != nil {
		t.Fatalf("open the home: %v", err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("close the home: %v", err)
		}
	})
	return a
}

func (k *Kimbap) open(slot string, tenant runtime.Tenant, create bool) (*app.App, error) {
	o := OptionsOver(k.Dir, slot, k.Log, create)
	o.StartLocked = slot != "" // what serves
	o.Tenant = tenant
	o.Executable, o.Nameless, o.Version = k.scripts, k.nameless, k.version
	if k.clock != nil {
		o.Clock = k.clock
	}
	a, err := app.New(o)
	if err != nil {
		return nil, err
	}
	return a, a.Open(context.Background())
}

// OptionsOver are the options of an App over a home, for processes that a test
// starts as well.
func OptionsOver(home, slot string, log *Buffer, create bool) app.Options {
	to := app.NewLogWriter(log)
	return app.Options{
		Home: home, Slot: slot, Create: create, UID: os.Getuid(), Clock: time.Now,
		LogTo: to, Log: zerolog.New(to).Level(zerolog.TraceLevel),
	}
}

// Serve runs a proxy until the test ends, and returns its address.
func (k *Kimbap) Serve(t testing.TB, a *app.App, o app.ServeOptions) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan net.Addr, 1), make(chan error, 1)
	o.Ready = func(addr net.Addr) { ready <- addr }
	go func() { done <- a.Serve(ctx, o) }()
	select {
	case addr := <-ready:
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Errorf("serve: %v", err)
			}
		})
		return addr.String()
	case err := <-done:
		stop()
		t.Fatalf("serve: %v", err)
	}
	return ""
}

// ServeAPI runs the REST API until the test ends, and returns its URL.
func (k *Kimbap) ServeAPI(t testing.TB, o app.APIOptions) string {
	t.Helper()
	a := k.opened(t, "serve", "")
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	o.Ready = func(url, _ string) { ready <- url }
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	go func() { done <- a.ServeAPI(ctx, o) }()
	select {
	case url := <-ready:
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Errorf("serve: %v", err)
			}
		})
		return url
	case err := <-done:
		stop()
		t.Fatalf("serve: %v", err)
	}
	return ""
}

// Buffer keeps what is written to it. It is safe for concurrent use.
type Buffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

// String returns what was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Clone(b.data.String())
}

// Eventually asks ok until it is true, and fails the test after ten seconds
// with what was waited for.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Within(t, 30*time.Second, what, ok)
}

// Followed waits until all that runs over a home works with what is there now. [app.App.Reach]
// waits for two seconds and says then who does not yet, which a busy machine makes true.
func Followed(t testing.TB, a *app.App) {
	t.Helper()
	Within(t, 20*time.Second, "all that runs works with what is there now", func() bool { return len(a.Reach(t.Context())) == 0 })
}

// Within is Eventually with a limit of its own.
func Within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	runtimetest.Within(t, limit, what, ok)
}

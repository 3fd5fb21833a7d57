package app_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// serving is what serves until it is stopped, and says where.
type serving func(ctx context.Context, a *app.App, ready func(network, address string)) error

// begun starts one; stop tells it to stop, and done how it ended.
func begun(t *testing.T, a *app.App, serve serving) (network, address string, stop func(), done <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended, gone := make(chan [2]string, 1), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		ended <- serve(ctx, a, func(network, address string) { ready <- [2]string{network, address} })
	}()
	t.Cleanup(func() { cancel(); <-gone })
	select {
	case at := <-ready:
		return at[0], at[1], cancel, ended
	case err := <-ended:
		t.Fatalf("it ended by itself: %v", err)
	}
	return "", "", nil, nil
}

// halfAsked is a connection with a request that lacks a byte of its body, which what serves waits
// for: for one without its head net/http waits for five seconds only. It has been accepted: one
// that came after it was answered.
func halfAsked(t *testing.T, network, address string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial(network, address)
	}}
	_ = apptest.Send(t, &http.Client{Transport: transport}, "GET http://localhost/healthz", "")
	return c
}

// accepts reports whether anybody listens there.
func accepts(network, address string) bool {
	c, err := net.Dial(network, address)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// A token that is revoked while a server ends what has begun is good no longer there either.
func TestWhatIsStoppedStillFollowsTheStore(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]serving{
		"api": func(ctx context.Context, a *app.App, ready func(network, address string)) error {
			return a.ServeAPI(ctx, app.APIOptions{Listen: "127.0.0.1:0", Ready: func(base, _ string) { ready("tcp", strings.TrimPrefix(base, "http://")) }})
		},
		"daemon": func(ctx context.Context, a *app.App, ready func(network, address string)) error {
			return a.ServeDaemon(ctx, app.DaemonOptions{Ready: func(socket string) { ready("unix", socket) }})
		},
		"mcp": func(ctx context.Context, a *app.App, ready func(network, address string)) error {
			return a.ServeMCP(ctx, app.MCPOptions{Listen: "127.0.0.1:0", Version: "test", Ready: func(at net.Addr) { ready("tcp", at.String()) }})
		},
		"console": func(ctx context.Context, a *app.App, ready func(network, address string)) error {
			return a.ServeConsole(ctx, app.ConsoleOptions{Listen: "127.0.0.1:0", Link: func(link, _ string) {
				at, err := url.Parse(link)
				if err != nil {
					t.Error(err)
				}
				ready("tcp", at.Host)
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "kimbap-drain-") // the path of a socket is short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			home := filepath.Join(dir, "home")
			a := apptest.OpenWith(t, apptest.OptionsOver(home, "serve", &apptest.Buffer{}, true))
			owner := apptest.OpenWith(t, apptest.OptionsOver(home, "", &apptest.Buffer{}, false))
			_, id := mcpToken(t, owner, "a", "*")
			network, address, stop, done := begun(t, a, serve)
			apptest.Followed(t, owner)
			before := app.RunningOver(home)[0].Seen
			waitedFor := halfAsked(t, network, address)
			stop()
			if revoked, err := owner.RevokeToken(t.Context(), id); err != nil || !revoked {
				t.Fatal(revoked, err)
			}
			apptest.Within(t, soon, "the revocation", func() bool {
				running := app.RunningOver(home)
				return len(running) == 1 && running[0].Seen > before
			})
			_ = waitedFor.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// drainingProxy is one whose stop waits for an answer that flows.
type drainingProxy struct {
	k       *apptest.Kimbap
	owner   *app.App
	token   string // id of the one whose answer flows
	flowing *apptest.Wire
	sidecar string
	stop    func()
	done    <-chan error
}

func newDrainingProxy(t *testing.T) *drainingProxy {
	t.Helper()
	k := apptest.New(t, apptest.Options{Config: "admin: {listen: \"127.0.0.1:0\"}\n"})
	p := &drainingProxy{k: k, owner: k.Open(t, "")}
	o := apptest.OptionsOver(k.Dir, "stopped", k.Log, false)
	o.Executable = os.Args[0]
	a := apptest.OpenWith(t, o)
	said := make(chan string, 1)
	var at string
	_, at, p.stop, p.done = begun(t, a, func(ctx context.Context, a *app.App, ready func(network, address string)) error {
		return a.Serve(ctx, app.ServeOptions{
			Listen: "127.0.0.1:0", State: true, RequireToken: true,
			Sidecar: "127.0.0.1:0", SidecarSay: func(where string, _ error) { said <- strings.TrimPrefix(where, "http://") },
			Ready: func(at net.Addr) { ready("tcp", at.String()) },
		})
	})
	p.sidecar, k.Proxy, k.App = <-said, at, a
	token, id := mcpToken(t, p.owner, "a", "notes.*")
	p.token, p.flowing = id, k.Tunnel(t, apptest.Authority, "Proxy-Authorization: Bearer "+token)
	if _, err := p.flowing.Write([]byte("GET /stall HTTP/1.1\r\nHost: " + apptest.Host + "\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.flowing.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return p
}

// What flows ends with its token while the proxy is being stopped too, and not with the ten
// seconds that a stop has.
func TestWhatFlowsEndsWithItsTokenInADrain(t *testing.T) {
	t.Parallel()
	p := newDrainingProxy(t)
	p.stop()
	apptest.Within(t, soon, "the proxy accepts nobody", func() bool { return !accepts("tcp", p.k.Proxy) })
	if revoked, err := p.owner.RevokeToken(t.Context(), p.token); err != nil || !revoked {
		t.Fatal(revoked, err)
	}
	_ = p.flowing.SetReadDeadline(time.Now().Add(soon / 2)) // before the stop would cut it
	var err error
	for err == nil {
		_, err = p.flowing.Read(make([]byte, 64))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the answer goes on")
	}
	if err := <-p.done; err != nil {
		t.Error(err)
	}
}

// What listens beside a proxy or an API accepts nobody either once they are to stop.
func TestWhatListensBesideStopsWithIt(t *testing.T) {
	t.Parallel()
	p := newDrainingProxy(t)
	admin := p.k.App.AdminAddress()
	if !accepts("tcp", p.sidecar) || !accepts("tcp", admin) {
		t.Fatal("they do not listen")
	}
	p.stop()
	apptest.Within(t, soon/2, "nobody is accepted", func() bool { return !accepts("tcp", p.sidecar) && !accepts("tcp", admin) })
	select {
	case err := <-p.done:
		t.Errorf("it did not wait for what flows: %v", err)
	default:
	}
	_ = p.flowing.Close()
	if err := <-p.done; err != nil {
		t.Error(err)
	}
}

// The last record of what stops comes after what was under way beside it.
func TestTheLastRecordWaitsForWhatListensBeside(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]serving{
		"proxy.stop": func(ctx context.Context, a *app.App, ready func(network, address string)) error {
			return a.Serve(ctx, app.ServeOptions{Listen: "127.0.0.1:0", State: true, Ready: func(net.Addr) { ready("tcp", a.AdminAddress()) }})
		},
		"serve.stop": func(ctx context.Context, a *app.App, ready func(network, address string)) error {
			return a.ServeAPI(ctx, app.APIOptions{Listen: "127.0.0.1:0", Ready: func(string, string) { ready("tcp", a.AdminAddress()) }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := apptest.New(t, apptest.Options{Config: "admin: {listen: \"127.0.0.1:0\"}\n"})
			stopped := func() bool {
				return slices.ContainsFunc(k.Records(t), func(r apptest.Record) bool { return r.Slot == "stopped" && r.Event == name })
			}
			_, admin, stop, done := begun(t, k.Open(t, "stopped"), serve)
			waitedFor := halfAsked(t, "tcp", admin)
			stop()
			apptest.Within(t, soon/2, "nobody is accepted", func() bool { return !accepts("tcp", admin) })
			if stopped() {
				t.Error("it said its last word before")
			}
			_ = waitedFor.Close()
			if err := <-done; err != nil || !stopped() {
				t.Errorf("%v, recorded: %t", err, stopped())
			}
		})
	}
}

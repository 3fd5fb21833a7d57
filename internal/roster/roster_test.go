package roster_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/roster"
)

// put lets a living process say that it listens.
func put(t *testing.T, f roster.Folder, kind roster.Kind, pid int, listen string, started time.Time) *roster.Running {
	t.Helper()
	r := &roster.Running{Kind: kind, PID: pid, Holder: home.Holder(pid), Listen: listen, Started: started}
	if err := f.Put(r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOnlyTheLivingServe(t *testing.T) {
	f := roster.Folder(t.TempDir())
	proxy := put(t, f, roster.Proxy, os.Getpid(), "127.0.0.1:1", time.Unix(1, 0))
	put(t, f, roster.API, os.Getppid(), "127.0.0.1:2", time.Unix(2, 0))
	dead := &roster.Running{Kind: roster.Proxy, PID: os.Getpid() + 1, Holder: home.Holder(os.Getpid()) + "0", Listen: "127.0.0.1:3"}
	if err := f.Put(dead); err != nil {
		t.Fatal(err)
	}
	if got := f.Serving(roster.Proxy); len(got) != 1 || got[0].Listen != proxy.Listen || !got[0].Started.Equal(proxy.Started) {
		t.Errorf("proxies %+v", got)
	}
	if files, _ := filepath.Glob(filepath.Join(string(f), "*")); len(files) != 2 {
		t.Errorf("the file of a dead process stays: %v", files)
	}
	if got := f.Serving(roster.Any); len(got) != 2 {
		t.Errorf("all %+v", got)
	}
	f.Drop(proxy)
	if got := f.Serving(roster.Proxy); len(got) != 0 {
		t.Errorf("proxies after the end %+v", got)
	}
}

// A bracket in the path of the home is no pattern, and what is not one of its files stays.
func TestTheLivingServeOverAHomeWithABracketInItsPath(t *testing.T) {
	f := roster.Folder(filepath.Join(t.TempDir(), "a[1]"))
	other := filepath.Join(string(f), "other.json")
	if err := errors.Join(os.Mkdir(string(f), 0o700), os.WriteFile(other, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	put(t, f, roster.Proxy, os.Getpid(), "127.0.0.1:1", time.Unix(1, 0))
	for _, kind := range []roster.Kind{roster.Proxy, roster.Any} {
		if got := f.Serving(kind); len(got) != 1 || got[0].Kind != roster.Proxy {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// Of two containers each may have a process of the same number: both serve, and each knows
// where the other one listens.
func TestTheSameNumberTwiceIsTwo(t *testing.T) {
	folder := home.Folder{Dir: t.TempDir()}
	f := roster.Folder(folder.State())
	if err := os.Mkdir(string(f), 0o700); err != nil {
		t.Fatal(err)
	}
	l := roster.Listeners{Folder: f}
	l.Add(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
	for _, at := range []string{"127.0.0.1:1", "127.0.0.1:2"} {
		self := folder.Self()
		defer self.End()
		if err := f.Put(&roster.Running{Kind: roster.Proxy, PID: os.Getpid(), Holder: self.Name(), Listen: at}); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.Serving(roster.Proxy); len(got) != 2 {
		t.Errorf("two serve: %+v", got)
	}
	want := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")}
	if got := l.All(); !same(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Who takes the first takes the same one as long as it runs, whatever its number is.
func TestTheOldestIsFirst(t *testing.T) {
	for _, older := range []int{os.Getpid(), os.Getppid()} {
		f := roster.Folder(t.TempDir())
		for _, pid := range []int{os.Getpid(), os.Getppid()} {
			started := time.Unix(2, 0)
			if pid == older {
				started = time.Unix(1, 0)
			}
			put(t, f, roster.Proxy, pid, "127.0.0.1:1", started)
		}
		if got := f.Serving(roster.Proxy); len(got) != 2 || got[0].PID != older {
			t.Errorf("%d is the oldest of %+v", older, got)
		}
	}
}

// A dial must not lead into a kimbap that has begun a moment ago, whatever was known
// of the folder before.
func TestListenersAreKnownAtOnce(t *testing.T) {
	f := roster.Folder(filepath.Join(t.TempDir(), "state"))
	l := roster.Listeners{Folder: f}
	if got := l.All(); len(got) != 0 {
		t.Errorf("nobody listens: %v", got)
	}
	if err := os.Mkdir(string(f), 0o700); err != nil {
		t.Fatal(err)
	}
	l.Add(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
	put(t, f, roster.Run, os.Getpid(), "127.0.0.1:1", time.Time{})
	want := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}
	for _, kind := range []roster.Kind{roster.Proxy, roster.Daemon} {
		if got := l.All(); !same(got, want) {
			t.Errorf("before %s: %v, want %v", kind, got, want)
		}
		at := "127.0.0.1:" + map[roster.Kind]string{roster.Proxy: "2", roster.Daemon: "3"}[kind]
		put(t, f, kind, os.Getppid(), at, time.Time{})
		want = append(want, netip.MustParseAddrPort(at))
		if got := l.All(); !same(got, want) {
			t.Errorf("after %s: %v, want %v", kind, got, want)
		}
	}
	more := &roster.Running{Kind: roster.API, PID: os.Getppid(), Holder: home.Holder(os.Getppid()), Listen: "127.0.0.1:4", Also: []string{"127.0.0.1:5"}}
	if err := f.Put(more); err != nil {
		t.Fatal(err)
	}
	want = append(want, netip.MustParseAddrPort("127.0.0.1:4"), netip.MustParseAddrPort("127.0.0.1:5"))
	if got := l.All(); !same(got, want) {
		t.Errorf("beside its first: %v, want %v", got, want)
	}
	if got := l.Beside("127.0.0.1:9"); !slices.Equal(got, []string{"127.0.0.1:1"}) || len(l.Beside("127.0.0.1:1")) > 0 {
		t.Errorf("beside %v", got)
	}
}

// same compares without the order and the form of IPv4.
func same(got, want []netip.AddrPort) bool {
	for i := range got {
		got[i] = netip.AddrPortFrom(got[i].Addr().Unmap(), got[i].Port())
	}
	slices.SortFunc(got, netip.AddrPort.Compare)
	return slices.Equal(got, want)
}

// A proxy of a container is seen by its file and cannot be reached from here: one that can be
// asked stands for all.
func TestOneThatCannotBeAskedSaysNothingOfTheOthers(t *testing.T) {
	f := roster.Folder(t.TempDir())
	if err := f.Healthy(t.Context()); err == nil || !strings.Contains(err.Error(), "no proxy runs") {
		t.Errorf("without a proxy: %v", err)
	}
	status := http.StatusOK
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		fmt.Fprintln(w, "the disk is full")
	}))
	defer up.Close()
	gone := httptest.NewServer(nil)
	nobody := gone.Listener.Addr().String()
	gone.Close()
	put(t, f, roster.Proxy, os.Getppid(), nobody, time.Unix(1, 0))
	if err := f.Healthy(t.Context()); err == nil || !strings.Contains(err.Error(), "is not well") {
		t.Errorf("with nobody to be asked: %v", err)
	}
	put(t, f, roster.Proxy, os.Getpid(), up.Listener.Addr().String(), time.Unix(2, 0))
	if err := f.Healthy(t.Context()); err != nil {
		t.Errorf("with one that is well: %v", err)
	}
	status = http.StatusServiceUnavailable
	if err := f.Healthy(t.Context()); err == nil {
		t.Error("with one that is not well")
	}
	said := roster.Asked(t.Context(), f.Serving(roster.Proxy))
	if len(said) != 2 || !strings.Contains(said[0].Unwell, "does not answer") || !strings.Contains(said[1].Unwell, "the disk is full") {
		t.Errorf("%+v", said)
	}
}

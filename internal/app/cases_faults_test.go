package app_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// rounds is how often a test of faults goes round: few here, many in make soak.
func rounds(t *testing.T, few int) int {
	t.Helper()
	if many, err := strconv.Atoi(os.Getenv("KIMBAP_ROUNDS")); err == nil {
		return many
	}
	return few
}

// CR-001: a proxy that is killed under load at any moment, over and over, has
// recorded each request that the upstream saw, and starts again at once over a
// home that is whole.
func TestKilledProxiesLoseNothing(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askDeletes})
	var next struct {
		sync.Mutex
		n int
	}
	number := func() int { next.Lock(); defer next.Unlock(); next.n++; return next.n }
	for round := range rounds(t, 3) {
		began := time.Now()
		cmd, address := startProxy(t, k)
		if took := time.Since(began); took > 20*time.Second { // two seconds are promised, on a machine of its own
			t.Errorf("round %d: ready after %v", round, took)
		}
		var clients sync.WaitGroup
		for i := range 4 {
			client := k.ClientOf(t, address, "")
			clients.Go(func() {
				for {
					method := http.MethodGet
					if i == 0 {
						method = http.MethodDelete // waits for a person: a row in the database
					}
					r, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("https://%s/notes/%d", apptest.Host, number()), nil)
					if err != nil {
						return
					}
					answer, err := client.Do(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					_ = answer.Body.Close()
				}
			})
		}
		seen := len(k.Up.Requests())
		apptest.Eventually(t, "load", func() bool { return len(k.Up.Requests()) > seen+10 })
		time.Sleep(rand.N(300 * time.Millisecond)) // when it dies is left to chance
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		clients.Wait()
	}
	startProxy(t, k) // settles what the last one left open
	recorded := map[string]bool{}
	for _, r := range k.Records(t) {
		if r.Kind == "intent" && r.Effect == "allow" {
			recorded[r.Path] = true
		}
	}
	for _, r := range k.Up.Requests() {
		if !recorded[r.Target] {
			t.Errorf("the upstream saw %s, the trail did not", r.Line)
		}
	}
	k.Verify(t)
	if err := openHome(t, k.Dir, os.Getuid()); err != nil {
		t.Errorf("the home is not whole: %v", err)
	}
}

// CR-003: while another process holds the database, what must be written to it
// is refused after two seconds, what needs only reading goes on, and all is well
// as soon as it lets go.
func TestALockedDatabaseRefusesAndRecovers(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askDeletes})
	exec := statements(t, k)
	exec("BEGIN EXCLUSIVE")
	const asked = "DELETE https://" + apptest.Host + "/notes/1"
	if a := k.Do(t, asked, ""); a.Status != 503 || a.Problem.Code != "storage_busy" || a.Header.Get("Retry-After") == "" {
		t.Errorf("a request that waits for a person: %d %+v", a.Status, a.Problem)
	}
	if a := k.Do(t, "GET https://"+apptest.Host+"/notes/1", ""); a.Status != 200 {
		t.Errorf("a request that needs no writing: %d %+v", a.Status, a.Problem)
	}
	exec("ROLLBACK")
	if pending, err := k.App.ListApprovals(t.Context(), true); err != nil || len(pending) != 0 {
		t.Errorf("a refused request left %d approvals, %v", len(pending), err)
	}
	if a := k.Do(t, asked, ""); a.Problem.Code != "approval_pending" {
		t.Errorf("after it let go: %d %+v", a.Status, a.Problem)
	}
}

// CR-004: whatever byte of the database is wrong, kimbap either says so or works
// with what was stored; it never begins anew beside it.
func TestDamagedDatabasesAreNeverReplaced(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	good := copyHome(t, k.Dir)
	if !opensWithItsSecret(t, good) { // which also brings the log into the file
		t.Fatal("a copy that is whole does not open")
	}
	whole, err := os.ReadFile(filepath.Join(good, "kimbap.db"))
	if err != nil {
		t.Fatal(err)
	}
	var places []int // the credential's tenant and name, whose change hides it; then any
	key := string(runtime.DefaultTenant) + apptest.Secret
	first := bytes.Index(whole, []byte(key))
	if first < 0 {
		t.Fatalf("%q does not stand in the file", key)
	}
	for i := range key {
		places = append(places, first+i)
	}
	for range rounds(t, 30) {
		places = append(places, rand.N(len(whole)))
	}
	refused := 0
	for _, at := range places {
		dir := copyHome(t, good)
		damaged := bytes.Clone(whole)
		damaged[at] ^= byte(1 + rand.N(255))
		if err := os.WriteFile(filepath.Join(dir, "kimbap.db"), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if !opensWithItsSecret(t, dir) {
			refused++
		}
		if now, err := os.Stat(filepath.Join(dir, "kimbap.db")); err != nil || now.Size() < int64(len(whole)) {
			t.Errorf("byte %d: the file was replaced: %v", at, err)
		}
	}
	t.Logf("%d of them were refused, %d bytes", refused, len(whole))
	for name, spoil := range map[string]func(path string) error{
		"cut":     func(path string) error { return os.Truncate(path, int64(len(whole)/2)) },
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"deleted": os.Remove,
	} {
		dir := copyHome(t, good)
		if err := spoil(filepath.Join(dir, "kimbap.db")); err != nil {
			t.Fatal(err)
		}
		if opensWithItsSecret(t, dir) {
			t.Errorf("%s: it opened", name)
		}
	}
}

// finished is a folder without the files that are being written beside the ones that they will
// replace: those may be gone once they are opened.
type finished struct{ fs.FS }

func (f finished) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.Contains(e.Name(), ".new-") }), err
}

// copyHome copies a home, private again.
func copyHome(t *testing.T, from string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.CopyFS(dir, finished{os.DirFS(from)}); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// opensWithItsSecret reports whether the home opens. One that does holds the
// credential: used, or found to be damaged.
func opensWithItsSecret(t *testing.T, dir string) bool {
	t.Helper()
	a, err := app.New(apptest.OptionsOver(dir, "", &apptest.Buffer{}, true))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Open(t.Context()); err != nil {
		return false
	}
	defer a.Close()
	c, err := a.Vault().Credential(t.Context(), runtime.DefaultTenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: apptest.Secret})
	if err == nil && c.Value.Reveal() != apptest.Key {
		t.Errorf("the vault gave another value, or none")
	}
	return true
}

// CR-008: upstreams that are slow or break off, and programs that do not wait
// for them, leave no goroutine and no connection behind.
func TestSlowAndBrokenUpstreamsLeaveNothingBehind(t *testing.T) {
	k := apptest.New(t, apptest.Options{Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
		"/late": func(c *servicestest.Conn, _ *servicestest.Request) bool {
			time.Sleep(300 * time.Millisecond)
			return c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		},
		"/reset": func(c *servicestest.Conn, _ *servicestest.Request) bool { return c.Reset() },
		"/drip": func(c *servicestest.Conn, _ *servicestest.Request) bool {
			ok := c.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for ok {
				time.Sleep(10 * time.Millisecond)
				ok = c.Send(servicestest.Chunk("x"))
			}
			return false
		},
	}}})
	if a := k.Do(t, "GET https://"+apptest.Host+"/notes/1", ""); a.Status != 200 {
		t.Fatal(a.Status)
	}
	base := goruntime.NumGoroutine()
	for range 2 {
		for path, status := range map[string]int{"/late": 200, "/reset": 502, "/cut": 200, "/cut-chunked": 200, "/slow": 200} {
			wire := k.Tunnel(t, apptest.Authority)
			if a := wire.Ask("GET " + path + " HTTP/1.1\r\nHost: " + apptest.Host + "\r\n\r\n"); a.Status != status {
				t.Errorf("%s: %d %+v", path, a.Status, a.Problem)
			}
			_ = wire.Close()
		}
		for _, path := range []string{"/drip", "/stall", "/silent"} { // these never end: the program leaves
			wire := k.Tunnel(t, apptest.Authority)
			if _, err := io.WriteString(wire, "GET "+path+" HTTP/1.1\r\nHost: "+apptest.Host+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			k.Up.Await(t, func(all []servicestest.Request) bool { return all[len(all)-1].Target == path })
			_ = wire.Close()
		}
	}
	apptest.Eventually(t, "the goroutines to go", func() bool { return goruntime.NumGoroutine() <= base+10 })
}

// CR-010: no broken file takes the place of a good one, and an empty policy does
// not open what is critical.
func TestEveryBrokenReloadKeepsTheOldState(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askDeletes})
	w := k.Tunnel(t, apptest.Authority)
	digest := k.App.Policy().Current(runtime.DefaultTenant).Digest()
	kept := func() (n int) {
		for _, r := range k.Records(t) {
			if r.Event == "reload" && r.Fields["result"] == "kept the old state" {
				n++
			}
		}
		return n
	}
	place := regexp.MustCompile(`(policy|notes|other)\.yaml:[0-9]+[: ]`)
	for _, c := range []struct{ name, file, text string }{
		{"syntax", "policy.yaml", "version: 1\nrules: [}\n"},
		{"unknown field", "policy.yaml", "version: 1\nrulez: []\n"},
		{"half a file", "policy.yaml", askDeletes[:len(askDeletes)/2]},
		{"a term that is not kept yet", "policy.yaml", "version: 1\nrules: [{name: x, match: {}, then: require_approval, approval: {presence: passkey}}]\n"},
		{"a broken condition", "policy.yaml", "version: 1\nrules: [{name: x, match: {}, then: allow, when: \"args.\"}]\n"},
		{"a misspelled argument", "policy.yaml", "version: 1\nrules: [{name: x, match: {action: notes.get-note}, then: allow, when: \"args.idd == 1\"}]\n"},
		{"syntax of a service", "services/notes.yaml", "name: [\n"},
		{"half a service", "services/notes.yaml", apptest.Notes[:len(apptest.Notes)-40]},
		{"a service twice", "services/other.yaml", apptest.Notes},
	} {
		old, err := os.ReadFile(filepath.Join(k.Dir, c.file))
		fresh := errors.Is(err, os.ErrNotExist)
		if err != nil && !fresh {
			t.Fatal(err)
		}
		before := kept()
		k.Write(t, c.file, c.text)
		apptest.Within(t, soon, c.name+": status saying that the reload was refused", func() bool {
			running := k.App.Proxies()
			return len(running) == 1 && strings.Contains(running[0].Problem, filepath.Base(c.file)+":")
		})
		if problem := k.App.Proxies()[0].Problem; !place.MatchString(problem) {
			t.Errorf("%s: no line is named: %s", c.name, problem)
		}
		apptest.Within(t, soon, c.name+": a record of it", func() bool { return kept() > before })
		if a := w.Ask(getNote); a.Status != 200 || k.App.Policy().Current(runtime.DefaultTenant).Digest() != digest || k.App.Health(t.Context()) == nil {
			t.Errorf("%s: %d %+v", c.name, a.Status, a.Problem)
		}
		if fresh {
			if err := os.Remove(filepath.Join(k.Dir, c.file)); err != nil {
				t.Fatal(err)
			}
		} else {
			k.Write(t, c.file, string(old))
		}
		apptest.Within(t, soon, c.name+": health after the repair", func() bool { return k.App.Proxies()[0].Problem == "" && k.App.Health(t.Context()) == nil })
	}
	k.Write(t, "policy.yaml", "")
	apptest.Within(t, soon, "the empty policy", func() bool { return k.App.Policy().Current(runtime.DefaultTenant).Digest() != digest })
	if a := k.Do(t, "POST https://"+apptest.Host+"/keys", "{}"); a.Status != 403 || a.Problem.Code != "forbidden" {
		t.Errorf("with an empty policy: %d %+v", a.Status, a.Problem)
	}
}

// CR-015: what a day brings, in short: tokens and connections come and go, and
// nothing of them stays. KIMBAP_SOAK says for how long, in Go's words.
func TestALongDayStaysFlat(t *testing.T) {
	lasting := 3 * time.Second
	if long, err := time.ParseDuration(os.Getenv("KIMBAP_SOAK")); err == nil {
		lasting = long
	}
	k := apptest.New(t, apptest.Options{Resolve: []string{otherHost}})
	work := func() {
		token, info, err := k.App.CreateToken(t.Context(), app.TokenGrant{Agent: "day", Scopes: []string{"*"}, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		client := k.Client(t, token.Reveal())
		for n := range 10 {
			if a := apptest.Send(t, client, fmt.Sprintf("GET https://%s/notes/%d", apptest.Host, n+1), ""); a.Status != 200 {
				t.Fatalf("%d %+v", a.Status, a.Problem)
			}
		}
		apptest.Send(t, client, "GET https://other.test/x", "")
		client.CloseIdleConnections()
		if _, err := k.App.RevokeToken(t.Context(), info.ID); err != nil {
			t.Fatal(err)
		}
	}
	work()
	live := func() uint64 {
		var m goruntime.MemStats
		goruntime.GC()
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	base, before, requests := goruntime.NumGoroutine(), live(), 0
	for began := time.Now(); time.Since(began) < lasting; requests += 11 {
		work()
		time.Sleep(200 * time.Millisecond) // some fifty requests a second
	}
	apptest.Eventually(t, "the goroutines to go", func() bool { return goruntime.NumGoroutine() <= base+20 })
	// The upstream of the test keeps each request, some KiB of it.
	if grown := int64(live()) - int64(before); grown > int64(16<<20+requests*16<<10) {
		t.Errorf("%d requests left %d bytes", requests, grown)
	}
	size := int64(0)
	for _, file := range k.Segments(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		size += int64(len(bytes.TrimRight(data, " "))) // room that is not used yet
	}
	if each := size / int64(requests); each > 4<<10 {
		t.Errorf("the trail takes %d bytes for a request", each)
	}
	k.Verify(t)
}

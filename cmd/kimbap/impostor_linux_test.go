package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// impostor answers where a daemon would, or a server, and keeps what it is told.
type impostor struct {
	mu   sync.Mutex
	told bytes.Buffer
}

func (i *impostor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	_ = r.Write(&i.told)
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprint(w, `{"success":true,"value":"forged","items":[],"calls":[]}`)
}

// on serves on a listener until the test ends.
func (i *impostor) on(t *testing.T, network, address string) string {
	t.Helper()
	ln, err := net.Listen(network, address)
	check(t, err)
	s := &http.Server{Handler: i, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Close() })
	return ln.Addr().String()
}

// In a folder that somebody else can write, a daemon may be theirs, and so may what
// config.yaml says of a server: a command went to it with its token and its script, and
// told what it was answered, where without either it refuses the folder.
func TestNothingIsSentWhereSomebodyElseLeads(t *testing.T) {
	const token = "kmb_thatsomebodywouldlike"
	for name, open := range map[string]func(t *testing.T, home string){
		"others can write it": func(t *testing.T, home string) { check(t, os.Chmod(home, 0o777)) },
		"it is another's": func(t *testing.T, home string) {
			if os.Geteuid() != 0 {
				if os.Getenv("CI") == "true" {
					t.Fatal("only root can give a folder away")
				}
				t.Skip("LEFT OUT: only root can give a folder away (sudo make test)")
			}
			check(t, os.Chown(home, 65534, 65534))
		},
	} {
		for lead, put := range map[string]func(t *testing.T, r daemonRig, i *impostor){
			"a daemon": func(t *testing.T, r daemonRig, i *impostor) { i.on(t, "unix", r.socket()) },
			"a server": func(t *testing.T, r daemonRig, i *impostor) {
				text := "server: {url: \"http://" + i.on(t, "tcp", "127.0.0.1:0") + "\"}\n"
				check(t, os.WriteFile(filepath.Join(r.home, "config.yaml"), []byte(text), 0o600))
			},
		} {
			t.Run(name+", "+lead, func(t *testing.T) {
				r, other := newDaemonRig(t), &impostor{}
				put(t, r, other)
				open(t, r.home)
				for _, args := range [][]string{{"exec", "-e", "return 'something private'"}, {"list"}, {"call", "github.get-user"}, {"daemon", "--stop"}} {
					out, err := r.command("KIMBAP_TOKEN="+token, args...).CombinedOutput()
					if err == nil || strings.Contains(string(out), "forged") || !strings.Contains(string(out), "open_home") {
						t.Errorf("%q: %v\n%s", args, err, out)
					}
				}
				other.mu.Lock()
				defer other.mu.Unlock()
				if other.told.Len() > 0 {
					t.Errorf("it was told:\n%s", other.told.String())
				}
			})
		}
	}
}

// A server that the caller names is asked also beside a home of somebody else's, as a
// container often has one, where no config.yaml there could lead: by its ca_file, or its token.
func TestAServerThatIsNamedNeedsNoHome(t *testing.T) {
	r, other := daemonRig{dir: t.TempDir()}, &impostor{}
	r.home, r.program = filepath.Join(r.dir, "h"), filepath.Join(r.dir, "kimbap")
	self, err := os.Executable()
	check(t, err)
	check(t, os.Symlink(self, r.program))
	check(t, os.Mkdir(r.home, 0o700))
	check(t, os.Chmod(r.home, 0o777))
	url := "http://" + other.on(t, "tcp", "127.0.0.1:0")
	for prefix, args := range map[string][]string{
		"KIMBAP_TOKEN=kmb_mine":                             {"--server", url, "list"},
		"KIMBAP_TOKEN=kmb_mine KIMBAP_SERVER='" + url + "'": {"list"},
	} {
		if out, err := r.command(prefix, args...).CombinedOutput(); err != nil {
			t.Errorf("%s %q: %v\n%s", prefix, args, err, out)
		}
	}
	other.mu.Lock()
	if !strings.Contains(other.told.String(), "kmb_mine") {
		t.Errorf("it was told:\n%s", other.told.String())
	}
	other.told.Reset()
	other.mu.Unlock()
	check(t, os.WriteFile(filepath.Join(r.home, "config.yaml"), []byte("server: {ca_file: theirs.pem}\n"), 0o600))
	out, err := r.command("KIMBAP_TOKEN=kmb_mine", "--server", url, "list").CombinedOutput()
	other.mu.Lock()
	defer other.mu.Unlock()
	if err == nil || !strings.Contains(string(out), "open_home") || other.told.Len() > 0 {
		t.Errorf("%v\n%s\nit was told:\n%s", err, out, other.told.String())
	}
}

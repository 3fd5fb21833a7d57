package app_test

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// Without a trail nothing leaves: the ledger's file is given a size beyond
// which the kernel refuses to write, so that every append fails as on a full
// disk, for root too.
func TestNothingLeavesWhileTheTrailCannotBeWritten(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	k := apptest.New(t, apptest.Options{Unlinked: true})
	if _, _, err := k.App.SetSecret(t.Context(), apptest.Secret, runtime.NewSecret(apptest.Key), app.SecretOptions{}); err != nil {
		t.Fatal(err)
	}
	release := fillDisk(t, k)
	a := k.Do(t, "GET https://"+apptest.Host+"/notes/1", "")
	if a.Status != 503 || a.Problem.Code != "audit_unavailable" {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	if _, _, err := k.App.SetSecret(t.Context(), "notes.token", runtime.NewSecret("other"), app.SecretOptions{}); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
		t.Errorf("a secret was stored without a record: %v", err)
	}
	if k.App.Health(t.Context()) == nil {
		t.Error("health is well")
	}
	if n := len(k.Up.Requests()); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
	stored, err := k.App.Vault().List(t.Context(), runtime.DefaultTenant)
	if err != nil || len(stored) != 1 || !stored[0].LastUsed.IsZero() || stored[0].Version != 1 {
		t.Errorf("the vault was touched: %+v, %v", stored, err)
	}
	release()
	apptest.Eventually(t, "recovery by itself", func() bool {
		return k.Do(t, "GET https://"+apptest.Host+"/notes/1", "").Status == 200
	})
	k.Verify(t)
}

// Several processes over one home at once: every writer has a chain of its own
// or takes its turn, and verification sees all of them whole.
func TestProcessesShareOneHome(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	run := k.Open(t, "run")
	private := k.Serve(t, run, app.ServeOptions{Listen: "127.0.0.1:0"})
	var wait sync.WaitGroup
	for range 3 {
		cmd, said := start(t, "tokens", k.Dir)
		wait.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("command: %v\n%s", err, said)
			}
		})
	}
	const each = 20
	for _, proxy := range []string{k.Proxy, private} {
		client := k.ClientOf(t, proxy, "")
		wait.Go(func() {
			for range each {
				if a := apptest.Send(t, client, "GET https://"+apptest.Host+"/notes/1", ""); a.Status != 200 {
					t.Errorf("%d %+v", a.Status, a.Problem)
				}
			}
		})
	}
	wait.Wait()
	k.Await(t, nil, 4*each)
	slots := map[string]uint64{}
	for _, s := range k.Verify(t).Slots {
		if s.Records != s.Last {
			t.Errorf("%s: %d records, the last is number %d", s.Slot, s.Records, s.Last)
		}
		slots[s.Slot] = s.Records
	}
	created := 0
	for _, r := range k.Records(t) {
		if r.Slot == app.SlotCLI && r.Event == "token.create" {
			created++
		}
	}
	if slots["proxy"] < 2*each || slots["run"] < 2*each || created != 3*20 {
		t.Errorf("slots %v, %d tokens recorded", slots, created)
	}
}

// startProxy starts a proxy in a process of its own and returns its address.
func startProxy(t *testing.T, k *apptest.Kimbap) (*exec.Cmd, string) {
	t.Helper()
	cmd, said := start(t, "proxy", k.Dir)
	return cmd, listening(t, cmd, said)
}

// listening starts a proxy's command and returns the address that it says.
func listening(t *testing.T, cmd *exec.Cmd, said *strings.Builder) string {
	t.Helper()
	address, end, err := firstLine(t, cmd)
	t.Cleanup(end)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return address
}

// firstLine starts a command that ends with its stdin, and returns what it says first.
// An error is that it ended without.
func firstLine(t *testing.T, cmd *exec.Cmd) (line string, end func(), err error) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err = bufio.NewReader(stdout).ReadString('\n')
	return strings.TrimSpace(line), func() { _ = stdin.Close(); _ = cmd.Wait() }, err
}

// A proxy that is killed under load has recorded every request that the
// upstream saw, and the next one says of the open ones that their end is unknown.
func TestKilledProxyHasRecordedWhatLeft(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	cmd, address := startProxy(t, k)
	var clients sync.WaitGroup
	for i := range 4 {
		client := k.ClientOf(t, address, "")
		path := "/notes/%d"
		if i == 0 {
			path = "/silent?n=%d" // stays open when the proxy dies
		}
		clients.Go(func() {
			for n := 0; ; n++ {
				answer, err := client.Get(fmt.Sprintf("https://"+apptest.Host+path, i*100000+n+1))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		})
	}
	apptest.Eventually(t, "load", func() bool { return len(k.Up.Requests()) >= 60 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	clients.Wait()

	startProxy(t, k)
	intents, ended, unknown := map[string]int{}, map[uint64]bool{}, 0
	records := slices.DeleteFunc(k.Records(t), func(r apptest.Record) bool { return r.Slot != "proxy-2" })
	for _, r := range records {
		switch r.Kind {
		case "intent":
			intents[fmt.Sprint(r.Args["id"])+r.Path]++
		case "outcome":
			ended[r.Intent] = true
			if r.Result == "unknown" {
				unknown++
			}
		}
	}
	if unknown == 0 {
		t.Error("nothing was open, or it was not marked")
	}
	for _, r := range records {
		if r.Kind == "intent" && !ended[r.Seq] {
			t.Errorf("no end: %s", r.Line)
		}
	}
	for _, r := range k.Up.Requests() {
		path, _, _ := strings.Cut(r.Target, "?")
		id := strings.TrimPrefix(path, "/notes/")
		if path == "/silent" {
			id = "<nil>"
		}
		if intents[id+path] == 0 {
			t.Errorf("the upstream saw %s, the trail did not", r.Target)
		}
		intents[id+path]--
	}
	k.Verify(t)
}

// Everything that a home needs is readable by its owner only.
func TestHomeIsForItsOwnerOnly(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	k.Do(t, "GET https://"+apptest.Host+"/notes/1", "")
	err := filepath.WalkDir(k.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		public := strings.Contains(path, "/ca/") && strings.HasSuffix(path, ".pem")
		if err == nil && info.Mode().Perm()&0o077 != 0 && !public {
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

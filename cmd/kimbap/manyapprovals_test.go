package main

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
)

// Where there are more approvals than a list shows, it says so, and a status does not say that
// these are all.
func TestAListOfApprovalsSaysThatThereAreMore(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	said := func(words ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "kimbap", words...)
		cmd.Env = append(os.Environ(), "KIMBAP_HOME="+home)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", words, err, out)
		}
		return string(out)
	}
	said("init")
	db, err := sql.Open("sqlite", filepath.Join(home, "kimbap.db"))
	check(t, err)
	defer db.Close()
	ask := func(from, to int) {
		t.Helper()
		tx, err := db.Begin()
		check(t, err)
		for n := from; n < to; n++ {
			_, err := tx.Exec(`INSERT INTO approvals (tenant, id, state, principal, agent, run, surface, action, risk, rule, reason, method, authority, path, digest,
				created, expires, decided, decider, presence, note, holder, ended) VALUES ('default', ?, 'pending', 'tok_1', 'a', '', 'proxy', 'notes.create', 'high', 'r', '',
				'POST', 'notes.test:443', '/notes', ?, ?, ?, 0, '', '', '', '', 0)`,
				fmt.Sprintf("apr_%d", n), fmt.Sprint(n), time.Now().UnixMicro(), time.Now().Add(time.Hour).UnixMicro())
			check(t, err)
		}
		check(t, tx.Commit())
	}
	ask(0, app.ListLimit-1)
	if list, status := said("approve", "list"), said("status"); strings.Contains(list, "newest") || !strings.Contains(status, "499 waiting") {
		t.Errorf("%s\n%s", list, status)
	}
	ask(app.ListLimit-1, app.ListLimit+1)
	if list, status := said("approve", "list"), said("status"); !strings.Contains(list, "these are the newest 500") || !strings.Contains(status, "500 or more waiting") {
		t.Errorf("%s\n%s", list[:200], status)
	}
}

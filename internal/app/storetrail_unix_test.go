//go:build unix

package app_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
)

// keptLines are the lines of all trails that the database has, in the order in which they came.
func keptLines(t *testing.T, server *postgrestest.Server, dsn string) (lines []string) {
	t.Helper()
	conn, err := server.Connect(t.Context(), dsn[strings.LastIndexByte(dsn, '/')+1:])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), "SELECT line FROM kimbap.trail ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

// With audit.durability: store no credential leaves before the database has the intent, and
// what it has missed it gets before anything else.
func TestTheStoreMakesRecordsDurable_G18(t *testing.T) {
	t.Parallel()
	k, server, line, dsn := sharing(t, apptest.Options{Config: "audit: {durability: store}\n"})
	get := "GET https://" + apptest.Host + "/notes/1"
	a := k.Do(t, get, "")
	if a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	intents := 0
	for _, l := range keptLines(t, server, dsn) {
		if strings.Contains(l, `"kind":"intent"`) {
			intents++
		}
	}
	if intents != 1 {
		t.Errorf("the database has %d intents of a request that has left", intents)
	}

	server.Exec(t, dsn[strings.LastIndexByte(dsn, '/')+1:], "ALTER TABLE kimbap.trail RENAME TO away") // the trail alone cannot be written
	seen := len(k.Up.Requests())
	for range 3 {
		if a := k.Do(t, get, ""); a.Status != 503 || a.Problem.Code != "audit_unavailable" {
			t.Errorf("a request that the database has no record of: %d %+v", a.Status, a.Problem)
		}
	}
	if n := len(k.Up.Requests()); n != seen {
		t.Errorf("%d requests left", n-seen)
	}
	server.Exec(t, dsn[strings.LastIndexByte(dsn, '/')+1:], "ALTER TABLE kimbap.away RENAME TO trail")
	apptest.Within(t, soon, "the trail to go on", func() bool { return k.Do(t, get, "").Status == 200 })

	line.Cut()
	apptest.Within(t, soon, "a refusal", func() bool { return k.Do(t, get, "").Status == 503 })
	line.Mend()
	apptest.Within(t, soon, "the trail to go on", func() bool { return k.Do(t, get, "").Status == 200 })

	apptest.Within(t, soon, "every line of the ledger in the database", func() bool {
		kept := strings.Join(keptLines(t, server, dsn), "\n") + "\n"
		for _, r := range k.Records(t) {
			if !strings.Contains(kept, r.Line+"\n") {
				return false
			}
		}
		return true
	})
	k.Verify(t)
}

// What the database missed before a kimbap ended it has after the next start, before a
// request passes, and each line once.
func TestTheStoreGetsAfterARestartWhatItMissed(t *testing.T) {
	t.Parallel()
	k, server, _, dsn := sharing(t, apptest.Options{Config: "audit: {sinks: [{type: store, mode: required}]}\n"})
	database := dsn[strings.LastIndexByte(dsn, '/')+1:]
	get := "GET https://" + apptest.Host + "/notes/1"
	if a := k.Do(t, get, ""); a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	server.Exec(t, database, "ALTER TABLE kimbap.trail RENAME TO away")
	if a := k.Do(t, get, ""); a.Status != 503 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	_ = k.App.Close() // it cannot write how the last requests ended but to the ledger
	server.Exec(t, database, "ALTER TABLE kimbap.away RENAME TO trail")
	lacked := len(keptLines(t, server, dsn))

	again := k.Open(t, "proxy")
	if err := again.Health(t.Context()); err != nil {
		t.Error(err)
	}
	kept, all := keptLines(t, server, dsn), k.Records(t)
	if len(all)-lacked < 2 {
		t.Fatalf("of %d lines the database had %d", len(all), lacked)
	}
	times := map[string]int{}
	for _, line := range kept {
		times[line]++
	}
	for _, r := range all {
		if r.Slot == "proxy" && times[r.Line] != 1 {
			t.Errorf("%d times: %s", times[r.Line], r.Line)
		}
	}
	k.Verify(t)
}

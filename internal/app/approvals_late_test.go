package app_test

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// Another process holds the database while the upstream answers: the answer, which
// is complete, arrives as such, and how it ended is stored when that lets go.
func TestALockedDatabaseBreaksNoAnswer(t *testing.T) {
	t.Parallel()
	meanwhile := make(chan func(), 1)
	k := apptest.New(t, apptest.Options{Policy: askWrites, Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
		"/notes": func(c *servicestest.Conn, _ *servicestest.Request) bool {
			(<-meanwhile)()
			// Chunked: that it is whole is told only after its last byte.
			return c.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndone\r\n0\r\n\r\n")
		},
	}}})
	person := k.Open(t, "")
	const body = `{"text":"once"}`
	id := k.Do(t, write, body).Problem.Approval
	if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(k.Dir, "kimbap.db")+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	locked, let := make(chan error, 1), make(chan struct{})
	meanwhile <- func() {
		_, err := db.ExecContext(t.Context(), "BEGIN IMMEDIATE")
		locked <- err
	}
	time.AfterFunc(3*time.Second, func() { close(let) })
	a := k.Do(t, write, body)
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	if a.Status != http.StatusOK || a.Body != "done" || a.Err != nil {
		t.Errorf("answered %d %q, %v", a.Status, a.Body, a.Err)
	}
	<-let
	if _, err := db.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	state := func() string {
		list, err := person.ListApprovals(t.Context(), true)
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0].State
	}
	apptest.Eventually(t, "the end of the execution", func() bool { return state() == "executed" })
	for _, r := range k.Records(t) {
		if r.Code == string(runtime.CodeStorageBusy) {
			t.Errorf("the trail says %+v", r)
		}
	}
	if again := k.Do(t, write, body); again.Problem.Approval == "" || again.Problem.Approval == id {
		t.Errorf("the same once more: %d %+v", again.Status, again.Problem)
	}
	k.Verify(t)
}

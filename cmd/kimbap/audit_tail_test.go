package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/runtime/store/sqlite"
)

// emptyStore puts a database into a home.
func emptyStore(t *testing.T, home string) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(home, "kimbap.db"), Create: true})
	check(t, err)
	check(t, db.Close())
}

// What comes while audit tail -f waits is shown, each record once, also where a clock was set
// back and by a writer that is new: it is told by its number and not by its time.
func TestWhatComesIsShownWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	dir := filepath.Join(home, "audit")
	check(t, os.MkdirAll(dir, 0o700))
	emptyStore(t, home)
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock, o.SegmentSize = clock.Now, 2000
	l := audittest.Open(t, o)
	ask := func(id string) {
		t.Helper()
		if err := l.Intent(t.Context(), audittest.Record(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"req_1", "req_2", "req_3", "req_4", "req_5", "req_6"} {
		ask(id)
		clock.Advance(time.Second)
	}
	a, err := app.New(app.Options{Home: home, UID: os.Getuid(), Log: zerolog.Nop(), Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.OpenToRead(t.Context()); err != nil {
		t.Fatal(err)
	}
	from, to := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := (&cli{out: to, output: "json"}).tail(ctx, a, app.RecordQuery{Kind: "intent"}, true, 2)
		_ = to.Close()
		ended <- err
	}()
	shown := bufio.NewScanner(from)
	next := func(id string) {
		t.Helper()
		if !shown.Scan() || !strings.Contains(shown.Text(), `"id":"`+id+`"`) {
			t.Fatalf("shown %q, want %s", shown.Text(), id)
		}
	}
	next("req_5")
	next("req_6")
	clock.Advance(-time.Hour)
	for _, id := range []string{"req_7", "req_8", "req_9"} {
		ask(id)
		next(id)
	}
	l = audittest.Open(t, o)
	ask("req_new")
	next("req_new")
	cancel()
	if shown.Scan() {
		t.Errorf("one more: %s", shown.Text())
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

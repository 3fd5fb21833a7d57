package sqlite_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
	"github.com/kimbap-run/kimbap/runtime/store/sqlite"
)

// A copy is whole while others write: it holds every row of a transaction or none,
// and the first file is as it was.
func TestACopyIsConsistentWhileOthersWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	db := filled(t, path)
	defer func() { _ = db.Close() }()
	other := raw(t, path)
	statement(t, other, "CREATE TABLE pairs (a, b)")
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			text := fmt.Sprintf("BEGIN IMMEDIATE; INSERT INTO pairs VALUES (%d, 1); INSERT INTO pairs VALUES (%d, 2); COMMIT", i, i)
			if _, err := other.ExecContext(t.Context(), text); err != nil {
				done <- err
				return
			}
		}
	}()
	for i := range 5 {
		to := filepath.Join(t.TempDir(), "copy.db")
		if err := sqlite.Copy(t.Context(), path, to); err != nil {
			t.Fatal(err)
		}
		var odd int
		if err := raw(t, to).QueryRowContext(t.Context(), "SELECT count(*) % 2 FROM pairs").Scan(&odd); err != nil || odd != 0 {
			t.Errorf("copy %d: half a transaction is in it, %v", i, err)
		}
		if info, err := os.Stat(to); err != nil || system.Exposed(to, info) != "" {
			t.Errorf("copy %d is open to others, %v", i, err)
		}
		copied, err := sqlite.Open(t.Context(), sqlite.Options{Path: to})
		if err != nil {
			t.Fatalf("copy %d cannot be opened: %v", i, err)
		}
		_ = copied.Close()
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestACopyTakesNoFilesPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	_ = filled(t, path).Close()
	to := filepath.Join(t.TempDir(), "there")
	write(t, to, "words", 0o600)
	if err := sqlite.Copy(t.Context(), path, to); runtime.CodeOf(err) != runtime.CodeInvalidInput {
		t.Errorf("%v", err)
	}
	if text, _ := os.ReadFile(to); string(text) != "words" {
		t.Errorf("it is %q now", text)
	}
	if left, _ := os.ReadDir(filepath.Dir(to)); len(left) != 1 {
		t.Errorf("it left %v behind", left)
	}
}

// Looking changes nothing, not the version of an old file either, and finds damage
// that opening does not look for.
func TestInspectChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	_ = filled(t, path).Close()
	statement(t, raw(t, path), "PRAGMA user_version = 2")
	state, err := sqlite.Inspect(t.Context(), path)
	if err != nil || state.Version != 2 || state.Newest <= 2 || len(state.Problems) != 0 || state.Size == 0 {
		t.Errorf("%+v, %v", state, err)
	}
	var version int
	if err := raw(t, path).QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version); err != nil || version != 2 {
		t.Errorf("the version is %d now, %v", version, err)
	}
	if _, err := sqlite.Inspect(t.Context(), path+".not"); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// A home with thousands of scripts behind it starts as fast as an empty one: what
// is wrong in their journal is found by who looks for it, not at every start.
func TestAStartDoesNotReadTheJournalOfScripts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	db := opened(t, path, true)
	const filler = "0123456789abcdef"
	e := journal.Execution{
		ID: "exe_1", Tenant: "default", Principal: "p", State: "running", Script: []byte(strings.Repeat(filler, 4<<10)),
		Created: time.Unix(1, 0), Expires: time.Now().Add(time.Hour),
	}
	if written, err := db.WriteExecution(t.Context(), e, nil); err != nil || !written {
		t.Fatal(written, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4 << 10
	middle := bytes.LastIndex(data, []byte(strings.Repeat(filler, 8))) / page * page
	if middle < page {
		t.Fatal("the script is not in the file")
	}
	copy(data[middle-page:], "\xff\xff\xff\xff") // where the page says which is the next
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	again := opened(t, path, false)
	if _, _, err := again.Execution(t.Context(), "default", "exe_1"); err == nil {
		t.Error("what is damaged was read")
	}
	if state, err := sqlite.Inspect(t.Context(), path); err == nil && len(state.Problems) == 0 {
		t.Errorf("nobody finds it: %+v", state)
	}
}

// Whatever is wrong with a file, what is said of it names it and the way out, as opening it
// does: also where it can be read still, and a copy of it would show the same.
func TestDamageNamesTheFileAndTheWayOut(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "kimbap.db")
	_ = filled(t, whole).Close()
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]int{"a page": 5 << 12, "the list of free pages": 36, "the format": 47, "whose file it is": 68} {
		t.Run(name, func(t *testing.T) {
			bad := bytes.Clone(data)
			bad[at] ^= 0xff
			path := filepath.Join(t.TempDir(), "kimbap.db")
			write(t, path, string(bad), 0o600)
			state, err := sqlite.Inspect(t.Context(), path)
			if err == nil {
				err = state.Damage()
			}
			tried := map[string]error{"looked at": err}
			if name == "whose file it is" || name == "a page" { // of the others a copy is sound, or cannot be made
				tried["copied"] = sqlite.Copy(t.Context(), path, filepath.Join(t.TempDir(), "copy.db"))
			}
			for what, err := range tried {
				e := runtime.AsError(err)
				if e == nil || e.Reason != runtime.ReasonStorageUnavailable || !strings.Contains(e.Msg, "the database "+path+" is damaged") || !strings.Contains(e.Hint, "backup") {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	sound, err := sqlite.Inspect(t.Context(), whole)
	if err != nil || sound.Damage() != nil {
		t.Errorf("a sound one: %v, %v", err, sound.Damage())
	}
}

package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/runtime/store/sqlite"
	"github.com/kimbap-run/kimbap/runtime/store/storetest"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

func opened(t testing.TB, path string, create bool) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Create: create})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return db
}

// raw opens the file as anybody with the disk could.
func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func statement(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
}

// awkward is a file's name with what means something in a URI, as far as names may have it.
func awkward() string {
	if goruntime.GOOS == "windows" {
		return "a name with # % & é.db"
	}
	return "a name with ? # % & é.db"
}

func TestStores(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		return opened(t, filepath.Join(t.TempDir(), awkward()), true)
	})
	storetest.RunIndex(t, func(t *testing.T) history.Index {
		return opened(t, filepath.Join(t.TempDir(), awkward()), true)
	})
}

// FP-001: whatever the umask, nobody else can read any of the files.
func TestFilesArePrivate(t *testing.T) {
	runtimetest.Umask(t, 0)
	dir := t.TempDir()
	db := opened(t, filepath.Join(dir, "kimbap.db"), true)
	if err := db.SetCheckValue(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 2 {
		t.Fatalf("want the database and its log: %v %v", files, err)
	}
	for _, entry := range files {
		f, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if how := system.Exposed(filepath.Join(dir, f.Name()), f); how != "" {
			t.Errorf("%s is open to others: %s", f.Name(), how)
		}
	}
}

// A process that was there before a newer kimbap changed the tables says that, and not what
// SQLite says.
func TestTablesThatWereBroughtUpToDateMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	db := opened(t, path, true)
	other := raw(t, path)
	statement(t, other, "ALTER TABLE limits RENAME TO bounds")
	take := func() *runtime.Error {
		return runtime.AsError(db.ChangeLimit(t.Context(), "a", func(full time.Time) time.Time { return full.Add(time.Second) }))
	}
	if e := take(); !strings.Contains(e.Msg, "did not do its work") {
		t.Errorf("tables that somebody else changed: %q", e.Msg)
	}
	statement(t, other, "PRAGMA user_version = 999")
	if e := take(); !strings.Contains(e.Msg, "to schema version 999") || !strings.Contains(e.Hint, "start the newer one") || e.Reason != runtime.ReasonStorageUnavailable {
		t.Errorf("tables of a newer one: %q, %q, %q", e.Msg, e.Hint, e.Reason)
	}
}

// FP-002 and the fault table: a file that is not sound, not private or not
// there is refused by name, and nothing is made in its place.
func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		create bool
		spoil  func(t *testing.T, path string)
		want   string
	}{
		{"missing", false, func(t *testing.T, path string) { remove(t, path) }, "missing"},
		{"moved away", true, func(t *testing.T, path string) { remove(t, path); write(t, path+"-wal", "log", 0o600) }, "moved or deleted"},
		{"empty", true, func(t *testing.T, path string) { write(t, path, "", 0o600) }, "damaged"},
		{"noise", true, func(t *testing.T, path string) { write(t, path, strings.Repeat("noise", 4000), 0o600) }, "damaged"},
		{"cut", true, func(t *testing.T, path string) { cut(t, path) }, "damaged"},
		{"noise inside", true, noiseInside, "damaged"},
		{"somebody else's", true, func(t *testing.T, path string) {
			remove(t, path)
			write(t, path, "", 0o600)
			statement(t, raw(t, path), "CREATE TABLE theirs (x)")
		}, "not a kimbap database"},
		{"newer", true, func(t *testing.T, path string) { statement(t, raw(t, path), "PRAGMA user_version = 999") }, "schema version 999"},
		{"world can read", true, func(t *testing.T, path string) { runtimetest.Open(t, path) }, "others may use it"},
		{"a link", true, func(t *testing.T, path string) {
			if err := errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path)); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
		{"a folder", true, func(t *testing.T, path string) {
			remove(t, path)
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "kimbap.db")
			if err := filled(t, path).Close(); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, path)
			before, _ := os.ReadFile(path)
			db, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Create: c.create})
			if err == nil {
				t.Fatal("opened", db.Close())
			}
			if e := runtime.AsError(err); !strings.Contains(e.Msg, c.want) || !strings.Contains(e.Msg, path) || e.Hint == "" {
				t.Errorf("error %q, hint %q; want %q and the path", e.Msg, e.Hint, c.want)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the refused file was changed")
			}
			if c.name == "missing" && (!errors.Is(err, fs.ErrNotExist) || exists(path)) {
				t.Errorf("want fs.ErrNotExist and no file: %v", err)
			}
		})
	}
}

// filled returns a database with enough secrets for several pages.
func filled(t *testing.T, path string) *sqlite.DB {
	db := opened(t, path, true)
	if err := errors.Join(db.SetCheckValue(t.Context(), []byte("x")), db.AddTenantKey(t.Context(), aKey("default"), []byte("x"))); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		err := db.PutSecrets(t.Context(), vault.Sealed{
			Tenant: "default", Name: fmt.Sprintf("secret-%02d", i), Version: 1, KeyVersion: 1, Ciphertext: bytes.Repeat([]byte{byte(i)}, 900),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func aKey(tenant runtime.Tenant) vault.TenantKey {
	return vault.TenantKey{Tenant: tenant, Version: 1, Wrapped: []byte("k")}
}

func noiseInside(t *testing.T, path string) {
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(content, bytes.Repeat([]byte{20}, 900))
	if at < 0 {
		t.Fatal("no secret in the file")
	}
	copy(content[at/4096*4096:], bytes.Repeat([]byte{0xff}, 4096))
	write(t, path, string(content), 0o600)
}

func cut(t *testing.T, path string) {
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()/2/4096*4096); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// The fault table: locked for over two seconds is storage_busy with a time to
// try again, nothing is written, reads go on, and a short lock is waited for.
func TestLockedByAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	db := opened(t, path, true)
	if err := db.SetCheckValue(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	other := raw(t, path)
	statement(t, other, "BEGIN IMMEDIATE")
	start := time.Now()
	var wg sync.WaitGroup
	for i := range 8 { // all of them wait at once, not one after the other
		wg.Go(func() {
			err := db.AddTenantKey(t.Context(), aKey(runtime.Tenant(fmt.Sprint(i))), []byte("x"))
			if e := runtime.AsError(err); runtime.CodeOf(err) != runtime.CodeStorageBusy || e.RetryAfter <= 0 || e.Hint == "" {
				t.Errorf("write %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if waited := time.Since(start); waited < 1500*time.Millisecond || waited > 10*time.Second { // one after the other it would be 16s
		t.Errorf("waited %s, want about 2s", waited)
	}
	if value, err := db.CheckValue(t.Context()); err != nil || string(value) != "x" {
		t.Errorf("a read beside the lock: %q %v", value, err)
	}
	statement(t, other, "COMMIT")
	for i := range 8 {
		if key, err := db.TenantKeys(t.Context(), runtime.Tenant(fmt.Sprint(i))); err != nil || key != nil {
			t.Errorf("a refused write left %v (%v)", key, err)
		}
	}
	if err := db.AddTenantKey(t.Context(), aKey("later"), []byte("x")); err != nil {
		t.Errorf("after the lock: %v", err)
	}
}

// A batch is added whole or not at all, also when it panics on its way.
func TestBatchIsAtomic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	db := opened(t, path, true)
	statement(t, raw(t, path), "CREATE TRIGGER no BEFORE INSERT ON entries WHEN NEW.sequence = 2 BEGIN SELECT RAISE(ABORT, 'no'); END")
	err := db.AddEntries(t.Context(), []record.Entry{{Slot: "a", Sequence: 1, Line: []byte("x")}, {Slot: "a", Sequence: 2, Line: []byte("x")}})
	if err == nil {
		t.Fatal("the second entry was added")
	}
	if last, err := db.Position(t.Context(), "a"); err != nil || last != 0 {
		t.Errorf("half a batch: position %d (%v)", last, err)
	}
	if err := db.AddEntries(t.Context(), []record.Entry{{Slot: "a", Sequence: 3, Line: []byte("x")}}); err != nil {
		t.Errorf("after a failed batch: %v", err)
	}
}

// What one process changes, another sees in its counter.
func TestChangesOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	one, two := opened(t, path, true), opened(t, path, false)
	count := func() int64 {
		n, err := one.Changes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	if err := errors.Join(two.SetCheckValue(t.Context(), []byte("x")), two.AddTenantKey(t.Context(), aKey("t"), []byte("x"))); err != nil {
		t.Fatal(err)
	}
	if after := count(); after <= before {
		t.Errorf("the counter stayed at %d", after)
	}
	statement(t, raw(t, path), "DELETE FROM tenant_keys") // by no kimbap at all
	if after := count(); after <= before+1 {
		t.Errorf("the counter is %d after an edit from outside", after)
	}
}

// Readers go on beside a writer because the file is in WAL mode.
func TestWriteAheadLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kimbap.db")
	opened(t, path, true)
	var mode string
	if err := raw(t, path).QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal mode %q (%v)", mode, err)
	}
}

func TestOpenAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kimbap.db")
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			db, err := sqlite.Open(context.Background(), sqlite.Options{Path: path, Create: true})
			if err != nil {
				t.Error(err)
				return
			}
			if err := db.SetCheckValue(context.Background(), []byte("x")); err != nil && !errors.Is(err, vault.ErrConflict) {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	left, err := filepath.Glob(filepath.Join(dir, "*.new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

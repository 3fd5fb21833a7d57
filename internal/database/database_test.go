package database_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/database"
	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/sqlite"
)

// nobody is an address at which nothing listens.
const nobody = "postgres://kimbap:the-password@127.0.0.1:1/kimbap?sslmode=disable"

// kept is a home with a token in its database.
func kept(t *testing.T, dsn string) database.Keeper {
	t.Helper()
	k := database.Keeper{Home: home.Folder{Dir: filepath.Join(t.TempDir(), "home")}, UID: os.Getuid(), DSN: runtime.NewSecret(dsn)}
	if _, err := k.Home.Create(); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: k.Home.Database(), Create: true})
	if err == nil {
		err = db.SetCheckValue(t.Context(), []byte("of a key"))
	}
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// still fails where the home has its store no more.
func still(t *testing.T, k database.Keeper) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: k.Home.Database()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	value, err := db.CheckValue(t.Context())
	there, _, elsewhere := db.Elsewhere(t.Context())
	if err != nil || elsewhere != nil || string(value) != "of a key" || there != "" {
		t.Errorf("the home has %q, and says that the rest is in %q: %v %v", value, there, err, elsewhere)
	}
}

// Nothing that is printed of a keeper, or of what it could not do, has the password.
func TestTheAddressIsNotTold(t *testing.T) {
	t.Parallel()
	k := kept(t, nobody)
	asJSON, _ := json.Marshal(k.DSN)
	said := fmt.Sprintf("%v %+v %#v %s", k, k, k, asJSON)
	k.Told = func(statement string) { said += statement }
	_, inspect := k.InspectShared(t.Context())
	_, migrate := k.Migrate(t.Context())
	_, move := k.Move(t.Context())
	_, copied := k.Copy(t.Context(), filepath.Join(t.TempDir(), "copy"))
	for _, err := range []error{inspect, migrate, move, copied} {
		if err == nil {
			t.Fatal("it works with nobody")
		}
		e := runtime.AsError(err)
		said += fmt.Sprintf("\n%v %+v %s %s %v", err, err, e.Msg, e.Hint, e.Err)
	}
	if strings.Contains(said, "the-password") {
		t.Errorf("it is told: %s", said)
	}
	still(t, k)
}

// A home that has moved nothing yet is not told that all it stores is in PostgreSQL.
func TestNoCopyIsMadeOfWhatMayBeMoved(t *testing.T) {
	t.Parallel()
	k := kept(t, nobody)
	_, err := k.Copy(t.Context(), filepath.Join(t.TempDir(), "copy"))
	if e := runtime.AsError(err); e == nil || !strings.HasPrefix(e.Msg, "store.dsn is set") || !strings.Contains(e.Hint, "is copied without store.dsn") {
		t.Errorf("%+v", e)
	}
	still(t, k)
}

// A home is not moved beneath what serves over it, nor without an address, and a copy takes the
// place of no file. Whatever is refused leaves all as it was.
func TestWhatIsRefusedChangesNothing(t *testing.T) {
	t.Parallel()
	k := kept(t, "")
	if _, err := k.Move(t.Context()); err == nil || !strings.Contains(err.Error(), "names no database") {
		t.Errorf("moved to nowhere: %v", err)
	}
	there := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(there, []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Copy(t.Context(), there); err == nil {
		t.Error("a copy has taken the place of a file")
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "somebody's" {
		t.Errorf("%q %v", text, err)
	}
	self := k.Home.Self()
	defer self.End()
	states := roster.Folder(k.Home.State())
	if err := states.Put(&roster.Running{Kind: roster.Daemon, PID: os.Getpid(), Holder: self.Name(), Started: time.Now()}); err != nil {
		t.Fatal(err)
	}
	k.DSN = runtime.NewSecret(nobody)
	if _, err := k.Move(t.Context()); err == nil || !strings.Contains(err.Error(), "works with what is in the home") {
		t.Errorf("moved beneath a daemon: %v", err)
	}
	still(t, k)
}

// A copy is whole and private, and what is brought up to date already is left alone.
func TestACopyIsWhole(t *testing.T) {
	t.Parallel()
	k := kept(t, "")
	if done, err := k.Migrate(t.Context()); err != nil || done.From != done.To || done.To == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	to := filepath.Join(t.TempDir(), "kimbap.db")
	made, err := k.Copy(t.Context(), to)
	if err != nil || len(made.Problems) > 0 || made.Version != made.Newest || made.Path != to {
		t.Fatalf("%+v, %v", made, err)
	}
	if info, err := os.Stat(to); err != nil || goruntime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others can read it: %v %v", info.Mode(), err)
	}
	back := kept(t, "")
	if err := os.Rename(to, back.Home.Database()); err != nil {
		t.Fatal(err)
	}
	still(t, back)
}

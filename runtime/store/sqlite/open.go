package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

const (
	busyWait = 2 * time.Second // how long a write may wait for its turn
	readers  = 5               // connections that read, one of them for the watch
)

// Options say which file to open.
type Options struct {
	Path   string // the database file; required
	Create bool   // make the file when there is none
	// Told is given each statement before it runs, its values left out; nil: nobody
	// is told. It is called by many at once.
	Told func(statement string)
}

// DB is an open database. It is safe for concurrent use, also by several
// processes on one file.
type DB struct {
	*tables.Store
	*tables.Index
	path    string
	told    func(statement string)
	writer  *writer
	reader  *sql.DB
	queries sync.Map // text → *sql.Stmt of reader
	watch   watch
	places  []place               // where the files were when they were opened
	lost    atomic.Pointer[error] // why they are not to be used; nil: they are where they were
	close   func() error
}

// Open opens the database, checks that it is sound, ours, private and not newer
// than this program, and brings an older one up to date in one transaction.
// Without Create a missing file is an error that is [fs.ErrNotExist]. The error
// is an *runtime.Error that names the file.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Path == "" {
		return nil, errors.New("sqlite: Options.Path is missing")
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, err
	}
	if err := ensure(ctx, path, o.Create); err != nil {
		return nil, err
	}
	db, err := connect(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := db.prepare(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	db.places = places(path)
	if o.Told != nil {
		db.told, db.writer.told = o.Told, o.Told
	}
	return db, nil
}

// connect opens the connections of an existing file.
func connect(ctx context.Context, path string) (*DB, error) {
	db := &DB{path: path, told: func(string) {}}
	db.Store, db.Index = tables.New(engine{db}), tables.NewIndex(engine{db}, search)
	writing, err := sql.Open("sqlite", dsn(path, "synchronous(full)", "foreign_keys(1)", "secure_delete(1)"))
	if err != nil {
		return nil, err
	}
	db.reader, err = sql.Open("sqlite", dsn(path, "query_only(1)"))
	if err != nil {
		return nil, errors.Join(err, writing.Close())
	}
	db.reader.SetMaxOpenConns(readers)
	db.reader.SetMaxIdleConns(readers)
	db.close = sync.OnceValue(func() error {
		return errors.Join(db.reader.Close(), writing.Close())
	})
	conn, err := writing.Conn(ctx)
	if err != nil {
		return nil, errors.Join(db.fault("open", err), db.close())
	}
	db.writer = newWriter(conn)
	db.close = sync.OnceValue(func() error {
		db.watch.close()
		db.queries.Range(func(_, stmt any) bool { _ = stmt.(*sql.Stmt).Close(); return true })
		return errors.Join(db.reader.Close(), db.writer.close(), writing.Close())
	})
	return db, nil
}

// dsn names the file to the driver. mode=rw keeps SQLite from making a file.
func dsn(path string, pragmas ...string) string {
	query := url.Values{"mode": {"rw"}, "_busy_timeout": {fmt.Sprint(busyWait.Milliseconds())}, "_pragma": pragmas}
	return named(path, query)
}

// named is the URI of a file by its absolute path. SQLite wants a slash before the
// letter of a drive; a name with a host, on another machine's disk, goes behind two more.
func named(path string, query url.Values) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}

// Close closes the file after the running statements. It can be called again.
func (db *DB) Close() error { return db.close() }

// ensure makes the file when it may and must, and refuses one that is not safe
// to open.
func ensure(ctx context.Context, path string, create bool) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		// A log without its database means that the database was moved or deleted.
		if _, werr := os.Lstat(path + "-wal"); werr == nil {
			return missing(path, "its -wal file is there, so it was moved or deleted", err)
		}
		if !create {
			return missing(path, "there is no such file", err)
		}
		if err := build(ctx, path); err != nil {
			return err
		}
		info, err = os.Lstat(path)
	}
	if err != nil {
		return unsafeFile(path, "it cannot be looked at", "check the folder's owner and mode", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return unsafeFile(path, "it is not a regular file", "put the file itself there, not a link to it", nil)
	case info.Size() == 0:
		return damaged(path, errors.New("the file is empty"))
	}
	if how := system.Exposed(path, info); how != "" {
		return unsafeFile(path, "others may use it ("+how+")", system.Repair(path, false), nil)
	}
	return nil
}

// build makes a database that is complete before it has its name, so that a
// crash or a second process never shows half of one. Whoever is first wins.
func build(ctx context.Context, path string) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // 0600
	if err != nil {
		return unsafeFile(path, "it cannot be made", "check that the folder is there and is yours", err)
	}
	temporary := file.Name()
	defer func() { discard(temporary) }()
	if err := file.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(temporary, "journal_mode(wal)", "synchronous(full)"))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	if err := errors.Join(fill(ctx, db, path), db.Close()); err != nil {
		return err
	}
	if err := system.Entitle(temporary, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return unsafeFile(path, "it cannot be given its name", "keep the home on a disk of this machine: kimbap --home DIR, or KIMBAP_HOME", err)
	}
	return system.SyncFolder(filepath.Dir(path))
}

// fill makes the tables in a file that will have the name path.
func fill(ctx context.Context, file *sql.DB, path string) (err error) {
	made := &DB{path: path}
	conn, err := file.Conn(ctx)
	if err != nil {
		return made.fault("make the database", err)
	}
	made.writer = newWriter(conn)
	defer func() { err = errors.Join(err, made.writer.close()) }()
	if err := made.create(ctx); err != nil {
		return err
	}
	return made.moveLog(ctx)
}

// moveLog brings what is in the log into the file itself. To close the last connection
// does that too, and says nothing where it fails, as on a disk that is full.
func (db *DB) moveLog(ctx context.Context) error {
	var held, frames, moved int
	row := db.writer.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	if err := row.Scan(&held, &frames, &moved); err != nil {
		return db.fault("make the database", err)
	}
	if held != 0 || frames != moved {
		return fmt.Errorf("make the database: %d of %d pages of the log are in the file", moved, frames)
	}
	return nil
}

// discard removes a file that did not become a database, with what SQLite has put beside it.
func discard(path string) {
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		_ = os.Remove(path + end)
	}
}

func missing(path, why string, err error) error {
	return &runtime.Error{
		Code: runtime.CodeInternal, Reason: runtime.ReasonNotFound,
		Msg:  fmt.Sprintf("the database %s is missing: %s", path, why),
		Hint: "put the file back; to begin anew, move the whole home away and run: kimbap init", Err: err,
	}
}

func unsafeFile(path, why, fix string, err error) error {
	e := &runtime.Error{
		Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable,
		Msg: fmt.Sprintf("the database %s is refused: %s", path, why), Hint: fix, Err: err,
	}
	if err == nil {
		e.Reason = runtime.ReasonOpenHome
	}
	return e
}

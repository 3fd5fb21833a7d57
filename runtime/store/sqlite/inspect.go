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

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// Inspection is how a database file stands.
type Inspection struct {
	Path     string   `json:"path"`
	Size     int64    `json:"size_bytes"`            // of the file and its log
	Version  int      `json:"schema_version"`        // of the schema in the file
	Newest   int      `json:"newest_schema_version"` // that this program knows
	Problems []string `json:"integrity_problems"`    // empty: the file is sound
	Free     int64    `json:"free_bytes"`            // pages in the file that hold nothing; a copy leaves them out
}

// mostProblems bounds what integrity_check says of a ruined file.
const mostProblems = 20

// Inspect reads a database and checks all of it, and changes nothing: an older
// one stays as old as it is, a newer one is told and not refused. Damage that
// leaves the file readable is in Problems.
func Inspect(ctx context.Context, path string) (Inspection, error) {
	return inspect(ctx, path, path)
}

// Damage is the error of a database that is not sound, as opening it would say it, and nil
// for one that is.
func (i *Inspection) Damage() error {
	if len(i.Problems) == 0 {
		return nil
	}
	return damaged(i.Path, errors.New(strings.Join(i.Problems, "\n")))
}

// inspect is Inspect; of says whose damage it is, of a copy that of what was copied.
func inspect(ctx context.Context, path, of string) (Inspection, error) {
	var out Inspection
	err := readOnly(ctx, path, func(db *sql.Conn) error {
		var id, free, page int64
		for query, into := range map[string]any{
			"PRAGMA application_id": &id, "PRAGMA user_version": &out.Version, "PRAGMA freelist_count": &free, "PRAGMA page_size": &page,
		} {
			if err := db.QueryRowContext(ctx, query).Scan(into); err != nil {
				return err
			}
		}
		if id != applicationID {
			return damaged(of, fmt.Errorf("application id %#x", id))
		}
		out.Free = free * page
		var err error
		out.Problems, err = integrity(ctx, db)
		return err
	})
	if err != nil {
		return Inspection{}, err
	}
	texts, err := migrations()
	if err != nil {
		return Inspection{}, err
	}
	out.Path, out.Newest = path, len(texts)
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			out.Size += info.Size()
		}
	}
	return out, nil
}

// integrity returns what SQLite finds wrong in the whole file.
func integrity(ctx context.Context, db *sql.Conn) ([]string, error) {
	rows, err := db.QueryContext(ctx, fmt.Sprintf("PRAGMA integrity_check(%d)", mostProblems))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	found := []string{}
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		if line != "ok" {
			found = append(found, line)
		}
	}
	return found, rows.Err()
}

// Copy writes what is in a database at one moment to a new file, 0600, while
// others go on writing to the first. The copy is complete before it has its
// name, has been checked, and never takes the place of a file.
func Copy(ctx context.Context, from, to string) (err error) {
	if _, err := os.Lstat(to); err == nil {
		return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: to + " is there already", Hint: "name a file that is not there"}
	}
	file, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".new-*") // 0600
	if _, missing := os.Stat(filepath.Dir(to)); errors.Is(err, fs.ErrNotExist) && errors.Is(missing, fs.ErrNotExist) {
		return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "there is no folder " + filepath.Dir(to), Hint: "check the path", Err: err}
	}
	if err != nil {
		return unsafeFile(to, "it cannot be made", "check that the folder is there and is yours", err)
	}
	temporary := file.Name()
	defer func() { discard(temporary) }()
	if err := file.Close(); err != nil {
		return err
	}
	err = readOnly(ctx, from, func(db *sql.Conn) error {
		_, err := db.ExecContext(ctx, "VACUUM INTO ?", temporary)
		return err
	})
	if err != nil {
		return err
	}
	if err := durable(temporary); err != nil {
		return err
	}
	made, err := inspect(ctx, temporary, from)
	if err != nil {
		return err
	}
	made.Path = from
	if err := made.Damage(); err != nil {
		return err
	}
	if err := system.Entitle(temporary, to); err != nil {
		return unsafeFile(to, "it cannot be given its name", "name a file that is not there, on a local disk", err)
	}
	return system.SyncFolder(filepath.Dir(to))
}

// durable brings a file to the disk.
func durable(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// readOnly uses one connection that cannot change the file.
func readOnly(ctx context.Context, path string, use func(*sql.Conn) error) (err error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing(path, "there is no such file", err)
	case err != nil:
		return unsafeFile(path, "it cannot be looked at", "check the folder's owner and mode", err)
	case !info.Mode().IsRegular():
		return unsafeFile(path, "it is not a regular file", "put the file itself there, not a link to it", nil)
	case info.Size() == 0:
		return damaged(path, errors.New("the file is empty"))
	}
	query := url.Values{"mode": {"ro"}, "_busy_timeout": {fmt.Sprint(busyWait.Milliseconds())}}
	db, err := sql.Open("sqlite", named(path, query))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err == nil {
		err = errors.Join(use(conn), conn.Close())
	}
	return (&DB{path: path}).fault("read", err)
}

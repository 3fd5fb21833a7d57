package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// errTurn is the end of a wait for our own process's writer.
var errTurn = errors.New("other writes of this process took too long")

// fault turns an error of the driver into one that may cross a stage. Errors
// that have a meaning already (a conflict, a caller who left) are kept.
func (db *DB) fault(doing string, err error) error {
	var failed *driver.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTurn):
		return busy(doing, err)
	case !errors.As(err, &failed):
		return fmt.Errorf("%s: %w", doing, err)
	}
	if failed.Code()&0xff == codes.SQLITE_FULL || failed.Code() == codes.SQLITE_IOERR_SHMSIZE {
		return &runtime.Error{
			Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable,
			Msg:  fmt.Sprintf("the disk of the database %s is full (%s)", db.path, doing),
			Hint: "make room there, and try again", Err: err,
		}
	}
	switch failed.Code() & 0xff {
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
		return busy(doing, err)
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return damaged(db.path, err)
	case codes.SQLITE_ERROR:
		if strings.Contains(failed.Error(), saysFormat) {
			return damaged(db.path, err)
		}
	case codes.SQLITE_CONSTRAINT:
		if strings.Contains(failed.Error(), wasMoved) {
			return &runtime.Error{
				Code: runtime.CodeStorageBusy, Msg: "what this home stores was moved to another database meanwhile",
				Hint: "try again", Err: fmt.Errorf("%s: %w", doing, err),
			}
		}
	case codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN:
		if scarce(filepath.Dir(db.path)) {
			return &runtime.Error{
				Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable,
				Msg:  fmt.Sprintf("no file descriptors are left, so the database %s cannot be opened", db.path),
				Hint: "let less be open at a time, or allow more: ulimit -n 65536", Err: err,
			}
		}
		return &runtime.Error{
			Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable,
			Msg:  fmt.Sprintf("the database %s, or its folder, cannot be written", db.path),
			Hint: "chmod -R u+rwX " + runtime.Quote(filepath.Dir(db.path)) + "; or look whether the disk is mounted read-only", Err: err,
		}
	case codes.SQLITE_INTERRUPT:
		return fmt.Errorf("%s: %w", doing, context.Canceled)
	}
	if outgrown := db.outgrown(err); outgrown != nil {
		return outgrown
	}
	return &runtime.Error{
		Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable,
		Msg:  fmt.Sprintf("the database %s did not do its work (%s)", db.path, doing),
		Hint: "check the disk's free space and the file's owner", Err: err,
	}
}

// glance is how long what is only said better may take.
const glance = 250 * time.Millisecond

// outgrown is the error of a process that was there before a newer kimbap brought the tables
// up to date, nil where that is not so. SQLite says only that one has no such column.
func (db *DB) outgrown(why error) error {
	ctx, cancel := context.WithTimeout(context.Background(), glance)
	defer cancel()
	var version int
	texts, err := migrations()
	if err != nil || db.reader.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version) != nil || version <= len(texts) {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable,
		Msg:  fmt.Sprintf("a newer kimbap has brought the database %s up to date, to schema version %d; this one, which still runs, knows versions up to %d", db.path, version, len(texts)),
		Hint: "end this kimbap and start the newer one", Err: why,
	}
}

// scarce reports whether nothing more can be opened, which SQLite does not tell from a file
// that may not be. The folder is opened for that: to close the file itself would give up the
// locks that this process has on it.
func scarce(folder string) bool {
	f, err := os.Open(folder)
	if err != nil {
		return system.NoDescriptors(err)
	}
	_ = f.Close()
	return false
}

// saysFormat is what SQLite says, in words only, of a file whose header names a format that
// there is not.
const saysFormat = "unsupported file format"

func busy(doing string, err error) error {
	return &runtime.Error{
		Code: runtime.CodeStorageBusy, Msg: "the database is in use by another process for over two seconds",
		Hint: "try again; if it stays so, look for a process that holds it open", RetryAfter: time.Second,
		Err: fmt.Errorf("%s: %w", doing, err),
	}
}

func damaged(path string, err error) error {
	return &runtime.Error{
		Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable,
		Msg:  fmt.Sprintf("the database %s is damaged or is not a kimbap database; nothing was changed", path),
		Hint: "put a backup of the file in its place; keep the damaged one", Err: err,
	}
}

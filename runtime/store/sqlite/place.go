package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// place is a file of the database and which one had its name when it was opened.
type place struct {
	name string
	file fs.FileInfo
}

// places are the files that are open: the database, its log and its shared memory. SQLite
// removes none of them while a process has the database open. They are looked at once they
// are open for writing: an overlay may give a file another number with that.
func places(path string) (all []place) {
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if file, err := os.Stat(name); err == nil {
			all = append(all, place{name, file})
		}
	}
	return all
}

// inPlace refuses to go on with files that have their names no more. Others do not see them:
// what is revoked or locked since is written to what has these names now, as after a backup
// was put there or the home was moved.
func inPlace(all []place) error {
	for _, p := range all {
		now, err := os.Stat(p.name)
		if err == nil && os.SameFile(p.file, now) {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil // it cannot be told
		}
		if err == nil {
			err = fmt.Errorf("%s is another file now", p.name)
		}
		return &runtime.Error{ // without the name, since agents are told it
			Code: runtime.CodeStorageBusy, Reason: runtime.ReasonStorageUnavailable, RetryAfter: time.Second,
			Msg:  "the database of this kimbap's home was moved, removed or replaced while it ran",
			Hint: "start this kimbap again; or put back the files that were there", Err: err,
		}
	}
	return nil
}

// astray is the refusal of [inPlace] at the last look, nil when all was in its place.
func (db *DB) astray() error {
	if refusal := db.lost.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

// lookAround looks whether the files are in their place still. Nothing is read or written
// until they are, if they are not.
func (db *DB) lookAround() error {
	err := inPlace(db.places)
	if err == nil {
		db.lost.Store(nil)
		return nil
	}
	db.lost.Store(&err)
	return err
}

package sqlite

import (
	"context"
	"database/sql"
	"sync"
)

// watch is the connection that looks for what other connections committed.
// SQLite's data_version says so for one connection only, so it has to be one
// of its own, that writes nothing itself.
type watch struct {
	mu      sync.Mutex
	conn    *sql.Conn
	closed  bool
	seen    int64 // data_version when counter was read
	counter int64
}

// Changes returns a counter that is greater whenever a secret, a tenant key or
// a token was added, changed or removed by any process since the last call. It
// is cheap enough to be asked several times a second. Where the files of the
// database are not the ones that were opened it says so, and so does all else
// from then on until they are.
func (db *DB) Changes(ctx context.Context) (int64, error) {
	w := &db.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, sql.ErrConnDone
	}
	if err := db.lookAround(); err != nil {
		return 0, err
	}
	if w.conn == nil {
		conn, err := db.reader.Conn(ctx)
		if err != nil {
			return 0, db.fault("watch", err)
		}
		w.conn = conn
	}
	var version int64
	if err := w.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
		return 0, db.fault("watch", err)
	}
	if version == w.seen && w.counter > 0 {
		return w.counter, nil
	}
	// The version was read first: a commit in between is seen next time.
	var counter int64
	if err := w.conn.QueryRowContext(ctx, "SELECT counter FROM changes").Scan(&counter); err != nil {
		return 0, db.fault("watch", err)
	}
	w.seen, w.counter = version, counter
	return counter, nil
}

func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.conn != nil {
		_ = w.conn.Close()
	}
}

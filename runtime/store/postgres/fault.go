package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/kimbap-run/kimbap/runtime"
)

// fault turns an error of the driver into one that may cross a stage (codes of PostgreSQL,
// appendix A). Errors that have a meaning already (a conflict, a caller who left) are kept.
func (db *DB) fault(ctx context.Context, doing string, err error) error {
	var said *pgconn.PgError
	var stranger *tls.CertificateVerificationError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	case errors.As(err, &said):
		return db.saidFault(doing, said)
	case errors.As(err, &stranger):
		return db.access("its certificate does not prove that it is the one of store.dsn", "compare the certificate with the host in store.dsn; sslrootcert=FILE in the address names a CA of your own", err)
	case strings.Contains(err.Error(), "server refused TLS connection"): // the driver has no type for it
		return db.access("it does not speak TLS", "turn it on there: ssl=on; sslmode=disable in store.dsn sends all in clear", err)
	case broken(err) || errors.Is(err, context.DeadlineExceeded):
		return db.unavailable(doing, noAnswer, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// saidFault is the error that the server has said.
func (db *DB) saidFault(doing string, said *pgconn.PgError) error {
	switch said.Code {
	case "55P03", "57014", "40001", "40P01": // lock_timeout, statement_timeout, serialization, deadlock
		return &runtime.Error{
			Code: runtime.CodeStorageBusy, Msg: "the database of the shared store is in use by others for over two seconds",
			Hint: "try again; if it stays so, look in pg_locks for who holds it", RetryAfter: time.Second,
			Err: fmt.Errorf("%s: %s: %w", db.name, doing, said),
		}
	case "25006":
		return db.unavailable(doing, "it is read-only, as one is that stands by", said)
	case "53300":
		return db.unavailable(doing, "it takes no more connections", said)
	case "3D000":
		return db.access("there is no database of that name", "make it with: createdb", said)
	case "42501":
		return db.access("its user may not do that ("+doing+")", "let the user own the schema "+home+", or the tables in it", said)
	case "3F000", "42P01", "42703":
		if outgrown := db.outgrown(said); outgrown != nil {
			return outgrown
		}
		return db.strange("tables of kimbap are missing", said)
	}
	switch {
	case strings.HasPrefix(said.Code, "28"):
		return db.access("it does not know this user or password", "check the user and the password in store.dsn", said)
	case strings.HasPrefix(said.Code, "08"), strings.HasPrefix(said.Code, "53"), strings.HasPrefix(said.Code, "57"), strings.HasPrefix(said.Code, "58"):
		return db.unavailable(doing, "it cannot work now", said)
	}
	return &runtime.Error{
		Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable,
		Msg:  fmt.Sprintf("the database of the shared store did not do its work (%s)", doing),
		Hint: "look in its log", Err: db.named(said),
	}
}

// outgrown is the error of a process that was there before a newer kimbap brought the tables
// up to date, nil where that is not so.
func (db *DB) outgrown(why error) error {
	ctx, cancel := context.WithTimeout(context.Background(), db.wait.glance)
	defer cancel()
	version := 0
	texts, err := migrations()
	if err != nil || db.pool.QueryRow(ctx, "SELECT max(version) FROM schema_version").Scan(&version) != nil || version <= len(texts) {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable,
		Msg:  fmt.Sprintf("a newer kimbap has brought the database of the shared store up to date, to schema version %d; this one, which still runs, knows versions up to %d", version, len(texts)),
		Hint: "end this kimbap and start the newer one", Err: db.named(why),
	}
}

// undone reports whether the database ended a transaction so that others can go on: for a
// deadlock or a change that cannot be put in an order.
func undone(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && (said.Code == "40P01" || said.Code == "40001")
}

// unbegun is the error of a transaction whose first statement was lost with its connection:
// nothing can have been done, though the driver cannot know that of a statement.
type unbegun struct{ error }

func (unbegun) SafeToRetry() bool { return true }

func (u unbegun) Unwrap() error { return u.error }

// broken reports whether an error is of the connection and not of what was said on it.
func broken(err error) bool {
	var connecting *pgconn.ConnectError
	var network net.Error
	return pgconn.SafeToRetry(err) || pgconn.Timeout(err) || errors.As(err, &connecting) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// noAnswer is why a database cannot be used.
const noAnswer = "it does not answer"

func (db *DB) unavailable(doing, why string, err error) error {
	return &runtime.Error{
		Code: runtime.CodeStorageBusy, Reason: runtime.ReasonStorageUnavailable,
		Msg:  "the database of the shared store cannot be used: " + why, // see named
		Hint: "look whether the server runs and can be reached from here; requests go again by themselves when it is back", RetryAfter: time.Second, Err: fmt.Errorf("%s: %s: %w", db.name, doing, err),
	}
}

// access is the error of a database that answers, but not to us.
func (db *DB) access(why, fix string, err error) error {
	return &runtime.Error{
		Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable,
		Msg: "the database of the shared store is refused: " + why, Hint: fix, Err: db.named(err),
	}
}

// named is a cause that says of which database it is. The message does not: agents are told it.
func (db *DB) named(err error) error {
	if err == nil {
		return errors.New(db.name)
	}
	return fmt.Errorf("%s: %w", db.name, err)
}

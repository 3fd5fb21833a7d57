package audit

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
)

var errClosed = errors.New("the audit trail is closed")

// refuse makes Ready and Intent fail until recovery.
func (l *Log) refuse(err error) *runtime.Error {
	e := l.refusal(err)
	if l.trouble.Swap(e) == nil && l.o.OnError != nil {
		l.o.OnError(e)
	}
	return e
}

// refusal is what callers are told. The path stays in Err, for the operator.
func (l *Log) refusal(err error) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeAuditUnavailable, Stage: runtime.StageAudit, Err: err,
		Msg:        "the audit trail cannot be written, so no request may leave",
		Hint:       fix(err),
		RetryAfter: retryInterval,
	}
}

// fix says what to do about a failed write. A sink may know that of its own.
func fix(err error) string {
	var known *runtime.Error
	var failed *outlet.Failure
	var unread *unreadError
	switch {
	case errors.As(err, &known) && known.Hint != "":
		return known.Hint
	case errors.Is(err, errArrears):
		return "wait until the sink has what it missed; what serves goes on by itself, give any other command again"
	case errors.As(err, &unread):
		return "records that a required audit sink lacks cannot be read, kimbap status says which file: repair the disk, or move that file out of the audit folder; kimbap then goes on by itself, without what was in it"
	case noTurn(err):
		return "another kimbap command is at the audit trail, and may wait for a sink that hangs: try again, or end that one"
	case errors.As(err, &failed) && refused(err):
		return "an audit sink that is required refuses a record, kimbap status says which one: see why, or take the sink out of audit.sinks"
	case errors.As(err, &failed):
		return "see to the required audit sink that fails, kimbap status says which one; what serves goes on by itself then, give any other command again"
	case errors.Is(err, syscall.EFBIG):
		return "let kimbap write larger files, free space is not what lacks: start it with ulimit -f unlimited"
	case system.Full(err):
		return "free space on the disk of kimbap's audit folder; kimbap goes on by itself"
	case system.NoDescriptors(err):
		return "let less be open at a time, or allow more: ulimit -n 65536"
	case errors.Is(err, syscall.EROFS):
		return "the disk of kimbap's audit folder is mounted read-only: make it writable"
	case errors.Is(err, fs.ErrPermission):
		return "make kimbap's audit folder writable for the user that runs kimbap"
	case errors.Is(err, errClosed):
		return "kimbap is stopping; try again when it runs"
	default:
		return "check the disk of kimbap's audit folder and who owns it"
	}
}

// unreadError is that of records which a sink lacks and which cannot be read: nobody knows yet
// whether they are lost.
type unreadError struct {
	slot string
	err  error
}

// Error implements error.
func (e *unreadError) Error() string {
	return "read what audit sinks have missed of " + e.slot + ": " + e.err.Error()
}

// Unwrap returns what is wrong with the file, which it names.
func (e *unreadError) Unwrap() error { return e.err }

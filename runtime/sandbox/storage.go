package sandbox

import (
	"context"
	"fmt"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// Shares of what may be kept of executions in the store, which is on a disk.
const (
	ownPart   = 4 // one principal has at most this part of it
	sparePart = 4 // and this part is for those of whom no more is kept than of one script may be
)

// makeRoom finds room for so many bytes more of a principal's executions. What has ended
// goes, the oldest first: the principal's own where it has its share, else that of whoever
// has most. What runs or waits for a person stays; where nothing else is left the error is
// [runtime.CodeRateLimited].
func (r *Runner) makeRoom(ctx context.Context, who *runtime.Principal, more int64) error {
	for swept := false; ; {
		own, all, err := r.o.Store.ExecutionBytes(ctx, who.Tenant, who.ID)
		if err != nil {
			return err
		}
		each, most := r.o.Stored/ownPart, r.o.Stored
		if own > int64(r.o.Limits.Traffic) {
			most -= r.o.Stored / sparePart
		}
		tenant, principal, over := who.Tenant, who.ID, own+more-each
		if over <= 0 {
			if over = all + more - most; over <= 0 {
				return nil
			}
			if tenant, principal, err = r.o.Store.MostExecutions(ctx); err != nil {
				return err
			}
		}
		freed, err := r.o.Store.ForgetEnded(ctx, tenant, principal, over)
		switch {
		case err != nil:
			return err
		case freed > 0:
		case swept:
			return full(own+more > each, r.o.Stored)
		default: // what nobody went on with in its time
			if err := r.o.Store.DropExecutions(ctx, r.o.Clock()); err != nil {
				return err
			}
			swept = true
		}
	}
}

// full says that what has not ended leaves no room: the caller's own, or everybody's.
func full(own bool, stored int64) *runtime.Error {
	whose, most := "all callers", stored
	if own {
		whose, most = "this caller", stored/ownPart
	}
	return &runtime.Error{
		Code: runtime.CodeRateLimited, Reason: runtime.ReasonTooManyRequests,
		Msg:  fmt.Sprintf("there is no room on disk for more scripts: those of %s that run or wait for a person fill the %d MiB that there are for them", whose, most>>20),
		Hint: "decide on what waits (kimbap approve list) and go on with those scripts (kimbap exec --resume ID): what has ended makes room",
		Ask:  "have somebody decide on what waits, and resume those executions: what has ended makes room",
	}
}

// due reports whether the calls have grown by as much as room is to be looked for again.
func (s *session) due() bool {
	due := s.traffic-s.looked >= s.r.o.Limits.Result
	if due {
		s.looked = s.traffic
	}
	return due
}

// stopped is how a script ends that kimbap itself cannot go on with.
func stopped(err error) *frame.Failure {
	e := runtime.AsError(err)
	text := e.Msg
	if e.Code == runtime.CodeRateLimited {
		text += "; " + e.Hint
	}
	return &frame.Failure{Kind: frame.KindInterrupted, Message: text}
}

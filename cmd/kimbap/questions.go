package main

import (
	"context"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// questions says of each question that a command waits for that it does: those of the pages
// of a list, and of what redirects lead to, come one after the other. The reader of a
// connection tells of them, and may be at it still when the command ends.
type questions struct {
	c    *cli
	done func() // before anything is said

	mu   sync.Mutex
	stop func() // ends what is shown of the last one
	last string // the approval, "" before the first
}

func (c *cli) questions(done func()) *questions {
	return &questions{c: c, done: done, stop: func() {}}
}

// asked is told of a question: the zero time is one that is not known.
func (q *questions) asked(id string, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done()
	q.stop()
	q.last = id
	q.c.sayPending(id, until)
	if q.stop = func() {}; !until.IsZero() {
		q.stop = q.c.countdown(until)
	}
}

// halt takes away what is shown of a question, and returns the last one.
func (q *questions) halt() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stop()
	return q.last
}

// whileOpen is the error of a request to another kimbap, after questions of which open was the
// last, or "".
func whileOpen(ctx context.Context, err error, open string) error {
	switch {
	case err == nil || open == "":
		return err
	case ctx.Err() != nil: // the question is there still
		return &runtime.Error{Code: runtime.CodeCanceled, ApprovalID: open, Msg: "interrupted while a person was asked", Err: err}
	}
	return whileAsked(err, open, "kimbap approve wait "+runtime.Quote(open))
}

package runtime

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// What bodies may take while their requests wait for a person, in bytes: one of
// them, those of one principal, and all. Copies on the way to the approver's
// seal come on top, for one request at a time.
const (
	approvalBody  = 16 << 20
	heldByOne     = 64 << 20
	heldByProcess = 256 << 20
)

// spool reads the body that an approval is to be bound to, once there is room
// for it. The caller must call release, when the error is nil, at the end of the
// request.
func (p *Pipeline) spool(who *Principal, req *Request) (release func(), err error) {
	raw := req.Raw
	if raw == nil || raw.Body == nil {
		return func() {}, nil
	}
	size := raw.ContentLength
	if size > approvalBody {
		return nil, overApproval()
	}
	if size < 0 {
		size = approvalBody // not announced: it may become that long
	}
	owner := who.Owner()
	if err := p.held.take(owner, size); err != nil {
		return nil, err
	}
	body, err := raw.Buffer(approvalBody)
	if err != nil {
		p.held.give(owner, size)
		if errors.Is(err, ErrBodyTooLarge) {
			return nil, overApproval()
		}
		return nil, err
	}
	if raw.Trailer != nil && len(raw.Trailer()) > 0 {
		p.held.give(owner, size)
		return nil, &Error{
			Code: CodeInvalidInput,
			Msg:  "this action needs approval and its request has trailers, which come after what a person is shown",
			Hint: "send them as fields of the head, or leave them out",
		}
	}
	kept := min(size, int64(len(body)))
	p.held.give(owner, size-kept)
	return func() { p.held.give(owner, kept) }, nil
}

func overApproval() error {
	return &Error{
		Code: CodeInvalidInput, Reason: ReasonBodyTooLarge,
		Msg: "this action needs approval and its body is over 16 MiB, more than an approval can be bound to",
	}
}

// budget counts the bytes of held bodies. Its zero value is ready; it is safe
// for concurrent use.
type budget struct {
	mu     sync.Mutex
	all    int64
	owners map[string]int64
}

// take reserves n bytes for owner, or says why there is no room.
func (b *budget) take(owner string, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.owners[owner]+n > heldByOne:
		return noRoom("this caller's", heldByOne)
	case b.all+n > heldByProcess:
		return noRoom("all callers'", heldByProcess)
	}
	if b.owners == nil {
		b.owners = map[string]int64{}
	}
	b.all += n
	b.owners[owner] += n
	return nil
}

// give returns n bytes of owner.
func (b *budget) give(owner string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if b.owners[owner] -= n; b.owners[owner] <= 0 {
		delete(b.owners, owner)
	}
}

func noRoom(whose string, limit int) error {
	return &Error{
		Code: CodeRateLimited, Reason: ReasonTooManyPending, RetryAfter: 10 * time.Second,
		Msg:  fmt.Sprintf("this action needs approval, and the bodies of %s requests that wait for a person take %d MiB already", whose, limit>>20),
		Hint: "wait until some of them are decided, or send a smaller body with its Content-Length",
	}
}

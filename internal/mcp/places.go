package mcp

import (
	"context"
	"fmt"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/runtime"
)

// places are those of the calls of tools that run or wait at once. Over HTTP one caller
// has at most half of them, so that its crowd keeps no other out: a call goes on when its
// connection is closed, and may wait for a person for minutes. There a place is kept until
// the answer is read, since that is in memory until then.
type places struct {
	mu  sync.Mutex
	all int
	by  map[string]int // over HTTP, by principal
}

// enter takes a place for a call.
func (s *Server) enter(ctx context.Context, r *sdk.CallToolRequest) (leave func(), err error) {
	owner, most := "", maxInFlight
	if s.o.RequireToken {
		who, err := s.o.Identify(ctx, s.caller(r.Extra))
		if err != nil {
			return nil, err
		}
		owner, most = who.Owner(), maxInFlight/2
	}
	p := &s.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[owner] >= most || p.all >= maxInFlight {
		e := &runtime.Error{Code: runtime.CodeRateLimited, Msg: fmt.Sprintf("%d tools run or wait already", p.by[owner]), Hint: "wait for some of them to end"}
		if p.by[owner] < most {
			e.Msg, e.Hint = fmt.Sprintf("%d tools of all callers run or wait already", p.all), "try again in a moment"
		}
		return nil, e
	}
	p.all++
	p.by[owner]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.by[owner]--; p.by[owner] == 0 {
			delete(p.by, owner)
		}
	}, nil
}

// stay is one request over HTTP, whose calls keep their places until it is answered.
type stay struct {
	mu     sync.Mutex
	over   bool
	leaves []func()
}

type stayKey struct{}

// until ends a call that ctx is of: its place is left with the answer, or at once when
// there is no such, or nobody to read it any more.
func until(ctx context.Context, leave func()) {
	if s, is := ctx.Value(stayKey{}).(*stay); is && s.add(leave) {
		return
	}
	leave()
}

// add is false once it is over.
func (s *stay) add(leave func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.leaves = append(s.leaves, leave)
	}
	return !s.over
}

// end leaves all places.
func (s *stay) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, leave := range s.leaves {
		leave()
	}
}

// Package notices makes the senders that approval.notify of the configuration names, and tells
// people of questions by them.
//
// Nobody is asked by a notice: it shows no more than that something waits. The values that
// senders need are opened for each message, and go to the hosts that they are bound to alone.
// All connections go through the guard.
//
// Start reading at [Open]; the senders are below runtime/approval/notify.
package notices

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/approval/notify"
)

// lastNotices is how long a process that ends may still tell people.
const lastNotices = 5 * time.Second

// Options are what a Board is made of. All but Link is required.
type Options struct {
	Notifiers []config.Notifier // of approval.notify
	Link      string            // of approval.link, "" for none
	Clock     func() time.Time
	Dial      func(ctx context.Context, authority string) (net.Conn, error) // through the guard, to what the operator named
	Trust     *tls.Config                                                   // of such a connection

	// Credential opens a stored value.
	Credential func(ctx context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error)
	// Reached is told which sender has told somebody of a tenant's question.
	Reached func(ctx context.Context, tenant runtime.Tenant, sender string)
	// Told is told of questions that all senders have done with, of which somebody was told.
	Told func(ctx context.Context, tenant runtime.Tenant, ids []string)
	// Changed is told how a sender fares now.
	Changed func(notify.Status)
}

// Board tells people. A nil Board tells nobody. It is safe for concurrent use.
type Board struct {
	clock   func() time.Time
	client  *notify.Client
	senders []notify.Sender
	post    *notify.Post
}

// Open makes the senders, of which none does anything before there is something to tell.
func Open(o Options) (*Board, error) {
	b := &Board{clock: o.Clock, client: notify.NewClient(o.Dial, o.Trust)}
	for _, n := range o.Notifiers {
		s, err := o.sender(n, b.client)
		if err != nil {
			return nil, runtime.Invalid(err, "kimbap config show --origin")
		}
		b.senders = append(b.senders, s)
	}
	var err error
	b.post, err = notify.New(notify.Options{
		Senders: b.senders, Clock: o.Clock, Link: o.Link, NewID: b.newID, Reached: o.Reached, Done: o.Told, Changed: o.Changed,
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Board) newID() string { return runtime.NewID("ntf", b.clock()) }

// Close tells what is still to be told, for five seconds at most.
func (b *Board) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lastNotices)
	defer cancel()
	defer b.client.Close()
	return b.post.Close(ctx)
}

// Tell passes a question on; the channel is closed when somebody was told. Nil: nobody is.
func (b *Board) Tell(n approval.Notice) <-chan struct{} {
	if b == nil {
		return nil
	}
	return b.post.Tell(n)
}

// Status is how the senders fare.
func (b *Board) Status() []notify.Status {
	if b == nil {
		return nil
	}
	return b.post.Status()
}

// Redial ends the connections that are kept: where they lead may be forbidden by now.
func (b *Board) Redial() {
	if b != nil {
		b.client.Close()
	}
}

// Result is how a test message went.
type Result struct {
	Sender  string `json:"sender"`
	Sent    bool   `json:"sent"`
	Problem string `json:"problem,omitempty"`
}

// Try sends a test message by every sender, once each.
func (b *Board) Try(ctx context.Context) []Result {
	var out []Result
	for _, s := range b.senders {
		r := Result{Sender: s.Name(), Sent: true}
		if err := s.Send(ctx, notify.Trial(b.newID())); err != nil {
			r.Sent, r.Problem = false, runtime.Said(err)
		}
		out = append(out, r)
	}
	return out
}

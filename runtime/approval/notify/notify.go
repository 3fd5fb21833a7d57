// Package notify tells people that a request waits for them, by whatever senders
// the configuration names: webhook, slack, telegram and email below this folder.
//
// A message says what is asked, by whom and under which rule, in text that was
// made safe to show; it holds no query, header, body or credential, and nothing
// in it decides: people decide with kimbap. What comes while a message is on its
// way, or right after one, goes out as one digest.
//
// It refuses to hold anybody up: Tell returns at once, a queue that is full drops
// and counts, a sender that fails is tried again a few times, slower each time,
// and then given up, visibly. Start reading at [Post.Tell].
package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// Message is what a sender sends: one question, or several together.
type Message struct {
	ID      string // of this message: a second try has the same
	Subject string // one line
	Lines   []string
	Link    string // where an operator sees it; "" for none
	Notices []approval.Notice
}

// Text is the whole message as plain text.
func (m Message) Text() string {
	text := m.Subject + "\n\n" + strings.Join(m.Lines, "\n")
	if m.Link != "" {
		text += "\n" + m.Link
	}
	return text
}

// Sender sends a message to people. It is used by one goroutine at a time. Its
// errors say why in words that hold no secret: no URL, no token.
type Sender interface {
	// Name is "slack" or the like, with what tells two of a kind apart.
	Name() string
	Send(ctx context.Context, m Message) error
}

// Refused is an error that another try will not mend.
type Refused struct{ Err error }

// Error implements error.
func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r *Refused) Unwrap() error { return r.Err }

// Partly is the error of a message that was sent, and that some of the people it was for
// did not get: it is not sent again.
type Partly struct{ Err error }

// Error implements error.
func (p *Partly) Error() string { return p.Err.Error() }

// Unwrap returns the cause.
func (p *Partly) Unwrap() error { return p.Err }

// Later is an error with the time that the other side wants to be left alone.
type Later struct {
	Err   error
	After time.Duration
}

// Error implements error.
func (l *Later) Error() string { return l.Err.Error() }

// Unwrap returns the cause.
func (l *Later) Unwrap() error { return l.Err }

// detailed is how many questions a digest names.
const detailed = 10

// compose writes the message for these questions, all of one tenant. Link is a URL with {id} in it,
// or "".
func compose(id, link string, notices []approval.Notice) Message {
	m := Message{ID: id, Notices: notices}
	first := notices[0]
	if len(notices) == 1 {
		m.Subject = fmt.Sprintf("kimbap: %s asks for %s (%s)", first.Agent, first.Action, first.Risk)
		m.Lines = describe(first)
		m.Link = strings.ReplaceAll(link, "{id}", first.ID)
		return m
	}
	m.Subject = fmt.Sprintf("kimbap: %d requests wait for a decision", len(notices))
	m.Lines = tenantLine(first.Tenant)
	for _, n := range notices[:min(detailed, len(notices))] {
		m.Lines = append(m.Lines, fmt.Sprintf("%s  %s asks for %s (%s)", n.ID, n.Agent, n.Action, n.Risk))
	}
	if more := len(notices) - detailed; more > 0 {
		m.Lines = append(m.Lines, fmt.Sprintf("and %d more", more))
	}
	m.Lines = append(m.Lines, "see them with: "+runtime.Command(first.Tenant, "approve list"))
	return m
}

func describe(n approval.Notice) []string {
	out := append(tenantLine(n.Tenant), "action   "+n.Action+" (risk "+n.Risk+")", "by       "+n.Agent+", "+n.Principal+", through "+n.Surface)
	if n.Request != "" {
		out = append(out, "request  "+n.Request)
	}
	rule := "rule     " + n.Rule
	if n.Reason != "" {
		rule += ": " + n.Reason
	}
	return append(out, rule, "expires  "+n.Expires.Format(time.RFC3339), "see it with: "+runtime.Command(n.Tenant, "approve show "+n.ID))
}

// tenantLine says whose question it is where that is not the default tenant: no command
// without its name finds it.
func tenantLine(of runtime.Tenant) []string {
	if of == "" || of == runtime.DefaultTenant {
		return nil
	}
	return []string{"tenant   " + string(of)}
}

// Trial is a message that says that messages arrive.
func Trial(id string) Message {
	return Message{
		ID: id, Subject: "kimbap: a test message",
		Lines: []string{"Requests that wait for a decision will be told of here."}, Notices: []approval.Notice{},
	}
}

// ErrClosed is what becomes of messages that were still waiting at the end.
var ErrClosed = errors.New("kimbap ended before it was sent")

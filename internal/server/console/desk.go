package console

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Desk is what an operator sees and decides. Who is acting is said each time, and sees what
// is of its own tenant alone: an id of another one is an unknown id.
type Desk interface {
	// Enter says who a caller is, and refuses who is no operator.
	Enter(ctx context.Context, caller runtime.Caller) (runtime.Principal, error)
	// Note records that somebody signed in or out, from an address. Who cannot be recorded
	// does not come in.
	Note(ctx context.Context, who runtime.Principal, event, source string) error

	// Waiting lists so many of what waits for a decision, the newest first, and says that
	// somebody looks at it for that long: requests wait for an answer meanwhile.
	Waiting(ctx context.Context, who runtime.Principal, limit int, looking time.Duration) ([]Approval, error)
	// Decided lists so many of the rest, the newest first.
	Decided(ctx context.Context, who runtime.Principal, limit int) ([]Approval, error)
	Question(ctx context.Context, who runtime.Principal, id string) (Question, error)
	Decide(ctx context.Context, who runtime.Principal, id string, d Decision) (Approval, error)
	// Standing is what earlier decisions still allow; EndStanding ends one of them.
	Standing(ctx context.Context, who runtime.Principal) ([]Standing, error)
	EndStanding(ctx context.Context, who runtime.Principal, id string) error

	// Records are the newest first; after is the key of the last one that was seen.
	Records(ctx context.Context, who runtime.Principal, f Filter, after string, limit int) ([]Record, error)

	Tokens(ctx context.Context, who runtime.Principal) ([]Token, error)
	Revoke(ctx context.Context, who runtime.Principal, id string) error
}

// Approval is a request that a person decides, or has decided.
type Approval struct {
	ID, State        string
	Principal, Agent string
	Surface, Action  string
	Risk, Rule       string
	Summary          string
	Created, Expires time.Time
	By, Presence     string // of who decided; a token as "NAME (tok_…)"
	Note             string
	Ended            bool // nobody could use a yes: whoever asked has ended
}

// Pending reports whether nobody has decided yet.
func (a Approval) Pending() bool { return a.State == "pending" }

// Question is an approval with all that is decided by.
type Question struct {
	Approval
	Text    string   // the whole request, for people
	Locked  string   // why nothing that is sealed can be shown, and nobody can say yes; "": it can
	Unlock  string   // what to do about that
	Long    bool     // it is so long that a yes must say that all of it was read
	TooLong bool     // Text has only a part of it: here nobody can have read it
	PIN     bool     // a yes demands one
	InRun   bool     // a run asks: a yes can be for the rest of it
	Like    string   // what a yes for longer than once allows
	Several int      // how many people must say yes: then it is for once; 0 for one
	Given   int      // how many of them have
	Voted   bool     // who looks is one of these, and nobody else decides here
	Own     string   // why who looks decides nothing of it; "": they may
	Persons []string // who has a PIN and can decide under their own name
}

// Decision is what the operator says.
type Decision struct {
	Accept bool
	Note   string        // of a no, for who asked
	For    time.Duration // the like of it, for so long
	Run    bool          // the like of it, for the rest of the run
	Whole  bool          // all of a long request was read
	As     string        // the person who decides; "": the operator
	PIN    runtime.Secret
}

// Standing is what an earlier yes still allows.
type Standing struct {
	ID, Agent, Action, Target, Run, By string
	Expires                            time.Time
}

// Filter selects records; empty fields do not.
type Filter struct {
	Action, Agent, Host, Kind, Effect, Code, Request, Text string
	Since                                                  time.Time
}

// Record is one line of the trail: JSON, as docs/audit.md describes it.
type Record struct {
	Key  string // names it for the next page
	By   string // whose it is, for people; "": as Line says
	Line []byte
}

// Token is a token, never its value.
type Token struct {
	ID, Agent, Run, Creator, State string // a token made it: as "NAME (tok_…)"
	Scopes, Roles                  []string
	Created, Expires               time.Time
}

// Valid reports whether it still opens anything.
func (t Token) Valid() bool { return t.State == "valid" }

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Index is the search table over the ledger: filled in batches, behind the
// truth, and rebuildable from it. It is safe for concurrent use, also by
// several processes.
type Index interface {
	// AddEntries adds or replaces entries by Slot and Sequence, and with an
	// outcome updates the row of its intent.
	AddEntries(ctx context.Context, entries []Entry) error
	// Position returns the last sequence indexed of a slot, 0 when none is.
	Position(ctx context.Context, slot string) (uint64, error)
	// SearchEntries returns matches, newest first.
	SearchEntries(ctx context.Context, q Query) ([]Entry, error)
	// DropEntries forgets the entries of a slot up to a sequence: they were given up.
	DropEntries(ctx context.Context, slot string, upTo uint64) error
	// ResetIndex forgets everything, for a rebuild.
	ResetIndex(ctx context.Context) error
}

// Entry is one ledger record in the index.
type Entry struct {
	Slot      string
	Sequence  uint64
	Kind      string // intent | outcome | refusal | event
	Time      time.Time
	RequestID string
	Tenant    runtime.Tenant
	Agent     string
	Principal string
	Surface   runtime.Surface
	Action    runtime.Ref
	Effect    string
	Rule      string
	Host      string
	Status    int
	Code      string // error code, "" when it went well
	Execution string // the script that it belongs to, "" for none
	Step      int    // which of that script's calls, 0 for none
	Line      []byte // the record itself, one line of JSON without the newline
}

// Query selects entries. Zero fields do not filter; Limit 0 means 100.
type Query struct {
	Tenant runtime.Tenant
	Home   bool // with Tenant: what belongs to no tenant as well
	// Born is since when there is the Tenant. What was recorded before, and how
	// requests from before have ended, is of another one of the same name.
	Born      time.Time
	RequestID string
	Execution string
	Action    runtime.Glob
	Agent     runtime.Glob
	Host      runtime.Glob
	Effect    string
	Code      string
	Kind      string
	Text      string // substring of the line
	Since     time.Time
	Until     time.Time
	Limit     int
}

// ParseEntry reads a record of a writer. It copies the line.
func ParseEntry(slot string, line []byte) (Entry, error) {
	var r struct {
		Seq       uint64          `json:"seq"`
		Kind      string          `json:"kind"`
		Time      time.Time       `json:"time"`
		ID        string          `json:"id"`
		Tenant    runtime.Tenant  `json:"tenant"`
		Agent     string          `json:"agent"`
		Principal string          `json:"principal"`
		Surface   runtime.Surface `json:"surface"`
		Action    runtime.Ref     `json:"action"`
		Event     runtime.Ref     `json:"event"`
		Effect    string          `json:"effect"`
		Rule      string          `json:"rule"`
		Host      string          `json:"host"`
		Status    int             `json:"status"`
		Code      string          `json:"code"`
		Execution string          `json:"execution"`
		Step      int             `json:"step"`
		Result    string          `json:"result"`
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return Entry{}, err
	}
	if r.Event != "" {
		r.Action = r.Event
	}
	if r.Code == "" && r.Result == "unknown" {
		r.Code = r.Result
	}
	return Entry{
		Slot: slot, Sequence: r.Seq, Kind: r.Kind, Time: r.Time, RequestID: r.ID, Tenant: r.Tenant,
		Agent: r.Agent, Principal: r.Principal, Surface: r.Surface, Action: r.Action, Effect: r.Effect,
		Rule: r.Rule, Host: r.Host, Status: r.Status, Code: r.Code,
		Execution: r.Execution, Step: r.Step, Line: bytes.Clone(line),
	}, nil
}

// Matches reports whether the entry is selected. It leaves Limit to the caller.
func (q *Query) Matches(e *Entry) bool {
	glob := func(g runtime.Glob, s string) bool { return g == "" || g.Match(s) }
	word := func(want, is string) bool { return want == "" || want == is }
	return (word(string(q.Tenant), string(e.Tenant)) || q.Home && e.Tenant == "") && word(q.RequestID, e.RequestID) && word(q.Execution, e.Execution) &&
		word(q.Effect, e.Effect) && word(q.Code, e.Code) && word(q.Kind, e.Kind) &&
		glob(q.Action, string(e.Action)) && glob(q.Agent, e.Agent) && glob(q.Host, e.Host) &&
		(q.Born.IsZero() || !e.Time.Before(q.Born) && !(strings.HasPrefix(e.RequestID, requestPrefix) && e.RequestID < q.FirstID())) &&
		(q.Since.IsZero() || !e.Time.Before(q.Since)) && (q.Until.IsZero() || e.Time.Before(q.Until)) &&
		(q.Text == "" || strings.Contains(string(e.Line), q.Text))
}

// requestPrefix begins the ids of requests, which sort by time.
const requestPrefix = "req_"

// FirstID is the least id that a request since Born can have.
func (q *Query) FirstID() string { return runtime.LeastID("req", q.Born) }

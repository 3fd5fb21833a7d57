package history

import (
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

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
	Host      runtime.Glob // of the authority, or of the host in it: see AtPort
	Effect    string
	Code      string
	Kind      string
	Text      string // substring of the line
	Since     time.Time
	Until     time.Time
	Limit     int
}

// Matches reports whether the entry is selected. It leaves Limit to the caller.
func (q *Query) Matches(e *record.Entry) bool {
	glob := func(g runtime.Glob, s string) bool { return g == "" || g.Match(s) }
	word := func(want, is string) bool { return want == "" || want == is }
	return (word(string(q.Tenant), string(e.Tenant)) || q.Home && e.Tenant == "") && word(q.RequestID, e.RequestID) && word(q.Execution, e.Execution) &&
		word(q.Effect, e.Effect) && word(q.Code, e.Code) && word(q.Kind, e.Kind) &&
		glob(q.Action, string(e.Action)) && glob(q.Agent, e.Agent) &&
		(q.Host == "" || q.Host.Match(e.Host) || q.AtPort().Match(e.Host)) &&
		(q.Born.IsZero() || !e.Time.Before(q.Born) && !(strings.HasPrefix(e.RequestID, requestPrefix) && e.RequestID < q.FirstID())) &&
		(q.Since.IsZero() || !e.Time.Before(q.Since)) && (q.Until.IsZero() || e.Time.Before(q.Until)) &&
		(q.Text == "" || strings.Contains(string(e.Line), q.Text))
}

// AtPort is Host with any port: records have the authority, and people name the host alone.
func (q *Query) AtPort() runtime.Glob { return q.Host + ":*" }

// requestPrefix begins the ids of requests, which sort by time.
const requestPrefix = "req_"

// FirstID is the least id that a request since Born can have.
func (q *Query) FirstID() string { return runtime.LeastID("req", q.Born) }

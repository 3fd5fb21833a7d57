package draft

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/policy/condition"
)

// Records are those of the trail that are judged again, in the order of time. They
// may be read more than once.
type Records = iter.Seq2[record.Entry, error]

// Replay is what a draft would have said of recorded requests.
type Replay struct {
	Requests int        `json:"requests"`
	Same     int        `json:"same"`
	Changes  []Rejudged `json:"changes"`
	Unknown  []Rejudged `json:"unknown"` // the record does not hold what the draft looks at
}

// Rejudged is one request that the draft judges otherwise.
type Rejudged struct {
	ID     string         `json:"id"`
	Time   time.Time      `json:"time"`
	Agent  string         `json:"agent"`
	Action runtime.Ref    `json:"action"`
	Host   string         `json:"host"`
	Was    runtime.Effect `json:"was"`
	By     string         `json:"by"`
	Now    runtime.Effect `json:"now,omitempty"`
	NowBy  string         `json:"now_by"`
	Why    string         `json:"why,omitempty"`
}

// Replay judges the recorded requests by the draft. Rate limits are not counted
// again. Nothing is sent or recorded.
func (d *Policy) Replay(records Records) (*Replay, error) {
	out := &Replay{Changes: []Rejudged{}, Unknown: []Rejudged{}}
	err := judged(records, func(r *recorded) {
		out.Requests++
		verdict, c := d.again(r), Rejudged{
			ID: r.ID, Time: r.Time, Agent: r.Agent, Action: r.Action, Host: r.Host, Was: r.Effect, By: r.Rule,
		}
		c.Now, c.NowBy, c.Why = verdict.Effect, verdict.Rule, verdict.Reason
		switch {
		case verdict.Failed || verdict.NeedBody:
			c.Now = ""
			if verdict.NeedBody {
				c.Why = "the rule looks at the body, which is not recorded"
			}
			out.Unknown = append(out.Unknown, c)
		case verdict.Effect == r.Effect:
			out.Same++
		default:
			out.Changes = append(out.Changes, c)
		}
	})
	return out, err
}

// recorded is what a record holds of the question that policy was asked.
type recorded struct {
	Kind      string          `json:"kind"`
	ID        string          `json:"id"`
	Time      time.Time       `json:"time"`
	Surface   runtime.Surface `json:"surface"`
	Tenant    runtime.Tenant  `json:"tenant"`
	Principal string          `json:"principal"`
	As        runtime.Kind    `json:"principal_kind"`
	Agent     string          `json:"agent"`
	Roles     []string        `json:"roles"`
	Groups    []string        `json:"groups"`
	Action    runtime.Ref     `json:"action"`
	Risk      runtime.Risk    `json:"risk"`
	Host      string          `json:"host"`
	Scheme    string          `json:"scheme"`
	Method    string          `json:"method"`
	Path      string          `json:"path"` // without the query
	Effect    runtime.Effect  `json:"effect"`
	Rule      string          `json:"rule"`
	Args      runtime.Args    `json:"args"`
	Omitted   int             `json:"args_omitted"` // arguments that the record has no room for
	Body      string          `json:"body"`
}

// judged calls each for every recorded request that policy was asked about.
func judged(records Records, each func(*recorded)) error {
	for entry, err := range records {
		if err != nil {
			return err
		}
		if entry.Kind != string(record.KindIntent) && entry.Kind != string(record.KindRefusal) {
			continue
		}
		var r recorded
		decoder := json.NewDecoder(bytes.NewReader(entry.Line))
		decoder.UseNumber()
		if decoder.Decode(&r) != nil || r.Effect == "" || r.Rule == runtime.RuleScope || r.Action == "" {
			continue // never asked, or not of this form
		}
		each(&r)
	}
	return nil
}

// again asks the draft what was asked then, about each reading.
func (d *Policy) again(r *recorded) runtime.Verdict {
	q := d.asked(r)
	v := d.policy.Decide(q)
	if !r.odd() {
		return v
	}
	others, err := d.others(q)
	if err != nil {
		return v
	}
	return runtime.Strictest(v, others, func(o runtime.Reading) runtime.Verdict { return d.policy.Decide(q.As(o)) })
}

// asked is the question about what a request was recognised as.
func (d *Policy) asked(r *recorded) runtime.Question {
	action, ok := d.set.Action(string(r.Action))
	if !ok {
		service, name, _ := strings.Cut(string(r.Action), ".")
		action = &runtime.Action{Ref: r.Action, Service: service, Name: name, Risk: r.Risk, Auth: &runtime.Auth{}}
	}
	args := r.known(action)
	return runtime.Question{
		Principal: &runtime.Principal{ID: r.Principal, Kind: r.As, Tenant: r.Tenant, Agent: r.Agent, Roles: r.Roles, Groups: r.Groups},
		Action:    action, Args: args, Now: r.Time,
		Request: &runtime.Request{ // without Raw: query, headers and body are not known
			Surface: r.Surface, Action: r.Action, Args: args, Target: runtime.Target{Scheme: r.Scheme, Authority: r.Host, Method: r.Method, Path: r.seenPath()},
		},
	}
}

// seenPath is the path that rules saw, "" where they saw none or the record does not tell all of it.
func (r *recorded) seenPath() string {
	if r.Surface != runtime.SurfaceProxy || conceals(r.Path) {
		return ""
	}
	return r.Path
}

// odd reports whether a recorded argument has what a path may be read otherwise for. To build
// the request of each record would take long.
func (r *recorded) odd() bool {
	for _, value := range r.Args {
		if text, ok := value.(string); ok && strings.ContainsAny(text, "%;?#") {
			return true
		}
	}
	return false
}

// known are the arguments as far as the record tells them.
func (r *recorded) known(action *runtime.Action) runtime.Args {
	args := runtime.Args{}
	for name, value := range r.Args {
		args[name] = value
		if conceals(value) {
			args[name] = condition.Hidden{}
		}
	}
	if r.Omitted > 0 {
		args["…"] = condition.Hidden{} // no name of an argument; seen by what looks at all of them
	}
	for i := range action.Params {
		p := &action.Params[i]
		unread := r.Omitted > 0 || p.Body && r.Body == "streamed" || p.Name == action.Rest && r.Body != "built"
		if _, given := args[p.Name]; unread && !given {
			args[p.Name] = condition.Hidden{}
		}
	}
	return args
}

// conceals reports whether a recorded value is not the value itself: a hash, a
// note that it was left out, or a text with something masked or cut.
func conceals(value any) bool {
	switch v := value.(type) {
	case string:
		return strings.Contains(v, "***") || strings.Contains(v, "…(")
	case []any:
		return slices.ContainsFunc(v, conceals)
	case map[string]any:
		if _, hashed := v["hash"]; hashed {
			return true
		}
		if _, omitted := v["omitted"]; omitted {
			return true
		}
		for _, inner := range v {
			if conceals(inner) {
				return true
			}
		}
	}
	return false
}

package record

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Entry is a line read back: what it can be found by, and the line itself.
type Entry struct {
	Slot      string
	Sequence  uint64
	Kind      string // a Kind
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

// TimeOf reads the time of a line from where the [Encoder] puts it, without a JSON parser:
// for who passes over most lines. It is false where something else stands there.
func TimeOf(line []byte) (time.Time, bool) {
	_, rest, found := bytes.Cut(line[:min(len(line), timeWithin)], []byte(`,"time":"`))
	text, _, ended := bytes.Cut(rest, []byte{'"'})
	if !found || !ended {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	return t, err == nil
}

// timeWithin is how many bytes the link, the kind and the time take at most: nothing that
// anybody else has written stands among them.
const timeWithin = 200

// Parse reads a line of the ledger of a slot. It copies the line.
func Parse(slot string, line []byte) (Entry, error) {
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

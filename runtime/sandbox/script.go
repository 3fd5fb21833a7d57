package sandbox

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// Script is one source that shall run, and for whom.
type Script struct {
	Source   string // JavaScript or TypeScript, at most 64 KiB
	Caller   runtime.Caller
	Timeout  time.Duration         // of running, waiting for people not counted; 0, or more than the runner's: the runner's
	Allow    []runtime.Glob        // the actions it may use, beside what the caller may, at most 100 patterns; none: all of those
	Wait     time.Duration         // how long to wait for a person before [Result.Paused] is returned
	Progress func(stage, s string) // told of what is done: StageValid, StageTools, StagePaused; may be nil
	Asked    Asked                 // may be nil
}

// Bounds of a script's own list: each call, and in a search each action, is compared with
// all of it, and the record of the script has it.
const (
	maxAllow   = 100
	maxPattern = 256 // bytes
)

// checkAllow refuses a list that is too long.
func (s *Script) checkAllow() error {
	long := slices.ContainsFunc(s.Allow, func(g runtime.Glob) bool { return len(g) > maxPattern })
	if len(s.Allow) <= maxAllow && !long {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("the list of what a script may use (allow) has at most %d patterns of %d bytes each", maxAllow, maxPattern),
		Hint: "name whole services, or several actions by one pattern: github.list-*",
	}
}

// The stages that [Script.Progress] is told of.
const (
	StageValid = "valid" // the gate lets it run
	StageTools = "tools" // the services that it names

	// StagePaused is told with the id of an execution that is paused and waits for a person,
	// each time: whoever leaves now can go on with it later.
	StagePaused = "paused"
)

// Resumption asks to go on with an execution that is paused, or whose process died.
type Resumption struct {
	ID       string
	Caller   runtime.Caller
	Wait     time.Duration
	Progress func(stage, s string)
	Asked    Asked
}

// Asked is told that a script begins to wait for a person, as soon as it does. Of several
// questions at once it is told of one, and of the next when it waits for that.
type Asked func(approvalID string, expires time.Time)

// Result is how an execution stands: the same for every surface.
type Result struct {
	Success     bool            `json:"success"`
	Value       json.RawMessage `json:"value,omitempty"` // what the script returned; none: undefined
	Error       string          `json:"error,omitempty"`
	Kind        frame.Kind      `json:"kind,omitempty"` // of what ended it otherwise than well
	ExecutionID string          `json:"executionId,omitempty"`
	Calls       []CallResult    `json:"calls"`
	Logs        []frame.Log     `json:"logs,omitempty"`
	Paused      *Paused         `json:"paused,omitempty"`

	Refusals []frame.Refusal `json:"-"` // of the gate; they stand in Error too
	Failure  *frame.Failure  `json:"-"` // of the script, with its place
}

// CallStatus is how a call of a script stands.
type CallStatus string

// The statuses.
const (
	CallOK       CallStatus = "ok"
	CallFailed   CallStatus = "error"
	CallPending  CallStatus = "pending"  // a person must decide
	CallCanceled CallStatus = "canceled" // the script ended without waiting for it
	CallUnknown  CallStatus = "unknown"  // it was begun, and nobody knows how it ended
)

// CallResult is one tools call of a script.
type CallResult struct {
	Path   string          `json:"path"` // service.action where there is such an action, else as the script wrote it
	Args   json.RawMessage `json:"args"` // null: those of all calls are too long to be repeated
	Millis int64           `json:"ms"`
	Status CallStatus      `json:"status"`
	Error  string          `json:"error,omitempty"`
}

// Paused says what an execution waits for.
type Paused struct {
	ExecutionID string          `json:"executionId"`
	ToolPath    string          `json:"toolPath"`
	Message     string          `json:"message"`
	Args        json.RawMessage `json:"args,omitempty"`
	ApprovalID  string          `json:"approvalId"`
	ExpiresAt   time.Time       `json:"expiresAt"`
}

// Manifest is what can be said of a source without running it.
type Manifest struct {
	Refusals   []frame.Refusal     `json:"refusals,omitempty"`
	Tools      []string            `json:"tools"`                  // actions, or paths as written where there is no such action
	Unknown    []string            `json:"unknown,omitempty"`      // those of Tools that are no action here
	Meant      map[string][]string `json:"did_you_mean,omitempty"` // by those of Unknown, what a script writes for the nearest
	Missing    map[string]string   `json:"missing,omitempty"`      // services that those of Unknown are of, and the command that brings each
	NotAllowed []string            `json:"not_allowed,omitempty"`  // those of Tools that the script's own list leaves out
	Dynamic    bool                `json:"dynamic"`                // it also uses tools that only running it shows
	TypeScript bool                `json:"typescript,omitempty"`
}

// refusalText is how refusals are shown, after what happened.
func refusalText(refusals []frame.Refusal) string {
	var b strings.Builder
	b.WriteString("AST validation failed")
	for _, r := range refusals {
		fmt.Fprintf(&b, "\nLine %d:%d %s", r.Line, r.Column, r.Message)
	}
	return b.String()
}

// failureText is how a script's own end is shown: what, and where.
func failureText(f *frame.Failure) string {
	text := f.Message
	if f.Name != "" {
		text = f.Name + ": " + text
	}
	if f.Line > 0 {
		text += fmt.Sprintf(" (line %d:%d)", f.Line, f.Column)
	}
	return text
}

package classifier

import (
	"fmt"

	"github.com/kimbap-run/kimbap/classifier/strictjson"
)

// Error is a request that cannot be classified without guessing. All fields may
// be shown to the caller: none holds a value from the request.
type Error struct {
	Code   string // "ambiguous_target" or "invalid_input"
	Reason string // a word of runtime/reason.go
	Msg    string // what is wrong, and where
}

// Error implements error.
func (e *Error) Error() string { return e.Code + " (" + e.Reason + "): " + e.Msg }

const (
	codeTarget = "ambiguous_target"
	codeInput  = "invalid_input"

	reasonAmbiguousParameter = "ambiguous_parameter"
	reasonDotSegment         = "dot_segment"
	reasonDuplicateKey       = "duplicate_key"
	reasonDuplicateParameter = "duplicate_parameter"
	reasonEmptySegment       = "empty_segment"
	reasonInvalidHost        = "invalid_host"
	reasonInvalidJSON        = "invalid_json"
	reasonInvalidTarget      = "invalid_target"
	reasonMethodOverride     = "method_override"
	reasonPathParameter      = "path_parameter"
	reasonTrailingData       = "trailing_data"
	reasonUnsupportedMedia   = "unsupported_media"
	reasonBodyTooLarge       = "body_too_large"
)

func badTarget(reason, format string, args ...any) *Error {
	return &Error{Code: codeTarget, Reason: reason, Msg: fmt.Sprintf(format, args...)}
}

func badInput(reason, format string, args ...any) *Error {
	return &Error{Code: codeInput, Reason: reason, Msg: fmt.Sprintf(format, args...)}
}

// notJSON is what a caller is told about a body.
func notJSON(e *strictjson.Error) *Error {
	switch e.Kind {
	case strictjson.NotUTF8:
		return badInput(reasonInvalidJSON, "the body is not UTF-8")
	case strictjson.TrailingData:
		return badInput(reasonTrailingData, "the body goes on after the JSON document, at offset %d (documents in lines are application/x-ndjson)", e.Offset)
	case strictjson.DuplicateName:
		return badInput(reasonDuplicateKey, "the JSON body has the member %s twice in one object", shown(e.Name))
	}
	return badInput(reasonInvalidJSON, "the body is not valid JSON: %s at offset %d", e.What, e.Offset)
}

// shown shortens a name taken from a request so that it can stand in a message.
func shown(name string) string {
	const most = 64
	if len(name) > most {
		name = name[:most] + "…"
	}
	return fmt.Sprintf("%q", name)
}

// OverlapError is two routes that could both win for one request.
type OverlapError struct {
	First, Second Claim
	Scheme        string
	Authority     string
	Method        string
	Why           string // what to do about it, where that is special
}

// Claim is one side of an [OverlapError].
type Claim struct{ Action, Path, Source string }

// Error implements error.
func (e *OverlapError) Error() string {
	advice := e.Why
	if advice == "" {
		advice = "change the path or method of one, or give one a match: condition the other cannot meet"
	}
	return fmt.Sprintf("%s (%s, %s) and %s (%s, %s) both match %s on %s://%s, and nothing says which one wins: %s",
		e.First.Source, e.First.Action, e.First.Path, e.Second.Source, e.Second.Action, e.Second.Path, e.Method, e.Scheme, e.Authority, advice)
}

// RouteError is a route that cannot be compiled, and where it was written.
type RouteError struct {
	Source string
	Action string
	Msg    string
}

// Error implements error.
func (e *RouteError) Error() string { return e.Source + ": route of " + e.Action + ": " + e.Msg }

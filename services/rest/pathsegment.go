package rest

import (
	"net/url"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// The credential of an [runtime.AuthPath] is one segment of the path. The caller
// sends its placeholder there, or a token of its own; that segment alone is
// replaced, and all around it leaves byte for byte.

// segmentOf is the number of the credential's segment, from 1; 0 for none.
func segmentOf(action *runtime.Action) int {
	if action.HTTP == nil || action.Auth == nil || action.Auth.Type != runtime.AuthPath {
		return 0
	}
	return action.HTTP.Segment
}

// segmentAt finds a segment of a target: its text is target[from:to]. False when
// the path is shorter.
func segmentAt(target string, number int) (from, to int, ok bool) {
	path, _, _ := strings.Cut(target, "?")
	for ; number > 0; number-- {
		slash := strings.IndexByte(path[from:], '/')
		if slash < 0 {
			return 0, 0, false
		}
		from += slash + 1
	}
	to = len(path)
	if slash := strings.IndexByte(path[from:], '/'); slash >= 0 {
		to = from + slash
	}
	return from, to, from > 0
}

// setSegment replaces one segment. Whatever the value holds, it stays one.
func setSegment(target string, number int, value string) string {
	from, to, ok := segmentAt(target, number)
	if !ok {
		return target
	}
	return target[:from] + url.PathEscape(value) + target[to:]
}

// pathValues is the token that the caller sent. A segment without the prefix is
// none of the service's paths: to put a credential there would make it one.
func pathValues(target string, number int, prefix string) ([]string, error) {
	if number == 0 {
		return nil, nil
	}
	from, to, ok := segmentAt(target, number)
	plain, err := url.PathUnescape(target[from:to])
	value, prefixed := strings.CutPrefix(plain, prefix)
	if !ok || err != nil || !prefixed || value == "" {
		return nil, &runtime.Error{
			Code: runtime.CodeAmbiguousTarget, Reason: runtime.ReasonInvalidTarget,
			Msg:  "the path has no token where its service takes one",
			Hint: "put the placeholder there, as the service's SDK does: /" + prefix + "TOKEN/…",
		}
	}
	return []string{value}, nil
}

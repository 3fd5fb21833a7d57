package rest

import (
	"fmt"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// refuseRivals refuses a caller's parameter beside the credential's own that a server
// could take for it: in another spelling, or in the query where the credential stands in
// the body, and in a form where it stands in the query. Which of the two counts nobody can
// say, and the caller would act as someone else than the one who was judged. What is built
// is looked at where its arguments are.
func refuseRivals(call *runtime.Call, auth *runtime.Auth, m *message) error {
	if call.Request.Raw == nil {
		return nil
	}
	_, query, _ := strings.Cut(m.target, "?")
	switch {
	case auth.Type == runtime.AuthQuery:
		err := refuseRival(query, auth.Query, true)
		if err == nil && mediaOf(m) == mediaForm {
			err = refuseRival(string(m.whole), auth.Query, false)
		}
		return err
	case auth.Type != runtime.AuthBody:
		return nil
	case mediaOf(m) == mediaForm:
		if err := refuseRival(string(m.whole), auth.Field, true); err != nil {
			return err
		}
	}
	return refuseRival(query, auth.Field, false)
}

// refuseRival looks for a rival of the name in a query or form. In the place of the
// credential itself, which is replaced, the name in any case is none.
func refuseRival(pairs, name string, place bool) error {
	for pair := range strings.SplitSeq(pairs, "&") {
		whole, _, _ := strings.Cut(pair, "=")
		for piece := range strings.SplitSeq(pair, ";") { // which some servers take for a separator
			raw, _, _ := strings.Cut(piece, "=")
			key := queryUnescape(raw)
			if place && raw == whole && strings.EqualFold(key, name) || !isRival(key, name) {
				continue
			}
			return &runtime.Error{
				Code: runtime.CodeInvalidInput, Reason: runtime.ReasonDuplicateParameter,
				Msg:  fmt.Sprintf("parameter %q stands beside the credential, and some servers would take it for that", runtime.Printable(key)),
				Hint: "send the placeholder in the one place where the service takes its credential",
			}
		}
	}
	return nil
}

// isRival reports whether some reader of a query or form takes the key for the name. To those
// that the classifier knows come PHP's other ways: it writes "_" for a dot of the name too,
// and some trim what stands behind a key.
func isRival(key, name string) bool {
	if classifier.SameParameter(key, name) {
		return true
	}
	key, _, _ = strings.Cut(key, "\x00")
	key = strings.TrimSpace(key)
	cut, _, _ := strings.Cut(key, "[")
	return strings.EqualFold(strings.TrimSpace(cut), name) || strings.EqualFold(underscored(key), underscored(name))
}

func underscored(key string) string {
	return strings.Map(func(c rune) rune {
		if c == '.' || c == ' ' || c == '[' {
			return '_'
		}
		return c
	}, key)
}

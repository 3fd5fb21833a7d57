package call

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime"
)

// Value is an answer through the action's filter as JSON, or the error that it is,
// with the beginning of what the service said.
func (a Actions) Value(action *runtime.Action, args runtime.Args, answer *Answer) (string, error) {
	if err := a.UpstreamError(action, args, answer); err != nil {
		e := *runtime.AsError(err)
		if said := excerpt(answer.Body); said != "" {
			e.Msg += ": " + said
		}
		return "", &e
	}
	body, err := a.Filter(action, answer.Body)
	if err != nil {
		return "", err
	}
	return asJSON(body), nil
}

// Limit is how many bytes of an answer are kept: with a filter, which may
// make it smaller, a few times what the caller gets.
func Limit(action *runtime.Action, most int) int {
	switch {
	case action == nil:
	case action.HTTP != nil && action.HTTP.Filter != "",
		action.Command != nil && (action.Command.Filter != "" || action.Command.TextFilter != ""):
		return 4 * most
	}
	return most
}

// asJSON is an answer as a script gets it: JSON as it is, anything else as text. Bytes
// that are no UTF-8 are replaced in both: JSON has none (RFC 8259 section 8.1), and who
// reads it strictly would take nothing that follows. What has a NUL beside such bytes is no
// text at all, and comes as {base64}, as over REST.
func asJSON(body []byte) string {
	if bytes.IndexByte(body, 0) >= 0 && !utf8.Valid(body) {
		return `{"base64":"` + base64.StdEncoding.EncodeToString(body) + `"}`
	}
	body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	if len(bytes.TrimSpace(body)) == 0 {
		return ""
	}
	if json.Valid(body) {
		return string(body)
	}
	text, err := json.Marshal(string(body))
	if err != nil { // cannot be: a string
		return ""
	}
	return string(text)
}

// excerpt is the beginning of what an upstream said with an error, on one line.
func excerpt(body []byte) string {
	const most = 500
	text := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "\uFFFD")), " "))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

package connector

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// longestAnswer is how much of an answer is read, as by who decodes it.
const longestAnswer = 1 << 20

// wholeNumbers are the members of an answer that are numbers of seconds (RFC 6749 section 5.1, RFC
// 8628 section 3.2).
var wholeNumbers = []string{"expires_in", "interval"}

// plain makes answers of providers fit to be decoded: an object whatever type it is said to have,
// with whole numbers of seconds, though some write 3599.97, "3600" or "". An answer that cannot be
// read is a grant that is lost: the refresh token for it was used.
type plain struct {
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t plain) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, longestAnswer))
	if err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	if object := bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\ufeff")), " \t\r\n"); len(object) > 0 && object[0] == '{' {
		answer.Header.Set("Content-Type", "application/json")
		text = inWholeSeconds(object)
	}
	rest := answer.Body
	answer.Body = closing{io.NopCloser(bytes.NewReader(text)), func() { _ = rest.Close() }}
	answer.ContentLength = int64(len(text))
	return answer, nil
}

// inWholeSeconds is an object whose numbers of seconds are whole, and out where they are none.
func inWholeSeconds(object []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return object
	}
	odd := false
	for _, name := range wholeNumbers {
		value, ok := members[name]
		if _, err := strconv.ParseInt(string(value), 10, 64); !ok || err == nil {
			continue
		}
		odd = true
		if seconds, ok := wholeSeconds(value); ok {
			members[name] = strconv.AppendInt(nil, seconds, 10)
		} else {
			delete(members, name)
		}
	}
	if !odd {
		return object
	}
	text, err := json.Marshal(members)
	if err != nil {
		return object
	}
	return text
}

// wholeSeconds reads a number, also one in quotes.
func wholeSeconds(value json.RawMessage) (int64, bool) {
	var n json.Number
	if json.Unmarshal(value, &n) != nil {
		return 0, false
	}
	seconds, err := n.Float64()
	switch {
	case n == "" || err != nil && seconds == 0:
		return 0, false
	case seconds > 0 && seconds < 1: // none would be one without an end
		return 1, true
	}
	return int64(min(max(seconds, -1), longestLife)), true
}

// naming adds the resource that a token is for to the question for it (RFC 8707 section 2.2).
type naming struct {
	next     http.RoundTripper
	resource string // "": none
}

// RoundTrip implements [http.RoundTripper].
func (n naming) RoundTrip(r *http.Request) (*http.Response, error) {
	if n.resource == "" || r.Body == nil {
		return n.next.RoundTrip(r)
	}
	form, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return nil, err
	}
	form = append(form, "&resource="+url.QueryEscape(n.resource)...)
	r = r.Clone(r.Context())
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(form)), nil } // for a kept connection that has ended
	r.Body, _ = r.GetBody()
	r.ContentLength = int64(len(form))
	return n.next.RoundTrip(r)
}

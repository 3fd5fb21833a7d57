package runtime

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"slices"
	"strings"
)

// Asker is what the form of a refusal depends on of whoever is refused. The zero Asker has said
// nothing of himself.
type Asker struct {
	accept, agent []string
	dialect       dialect
}

// dialect is that of a vendor whose clients check the form of an error, and show nothing but
// "Forbidden" of one in another form: those of the Vercel AI SDK do, wrangler and sentry-cli, and
// those of S3, some of which call that one of the store.
type dialect byte

const (
	ofNobody dialect = iota
	ofAnthropic
	ofGoogle
	ofCloudflare
	ofSentry
	ofS3
)

// AskerOf reads it from the head of a request, and keeps nothing else of that.
func AskerOf(header http.Header) Asker {
	a := Asker{accept: header["Accept"], agent: header["User-Agent"]}
	switch {
	case header["Anthropic-Version"] != nil:
		a.dialect = ofAnthropic
	case header["X-Goog-Api-Key"] != nil || header["X-Goog-Api-Client"] != nil:
		a.dialect = ofGoogle
	case slices.ContainsFunc(header["Authorization"], signedForS3):
		a.dialect = ofS3
	case a.is("wrangler/"):
		a.dialect = ofCloudflare
	case a.is("sentry-cli/"):
		a.dialect = ofSentry // whose own form has detail, as a problem has
	}
	return a
}

// signedForS3 reports whether a signature is one for S3, or for a store of another that speaks
// its protocol.
func signedForS3(authorization string) bool {
	return strings.HasPrefix(authorization, "AWS4-") && strings.Contains(authorization, "/s3/aws4_request")
}

// suit gives a refusal the form that the asker's API has for an error.
func (a Asker) suit(form *told) {
	switch {
	case a.ofRegistry():
		form.Error = form.Message
	case a.dialect == ofAnthropic:
		form.Type = "error" // what else is of the API says so in the same place
		form.Error = anthropicError{Type: anthropicKind(form.Status), Message: form.Message}
	case a.dialect == ofGoogle:
		form.Error = googleError{Code: form.Status, Message: form.Message, Status: googleStatus(form.Status)}
	case a.dialect == ofCloudflare:
		form.Errors = []any{form.Error}
	}
}

type anthropicError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// s3Error is a refusal as clients of S3 read it, whose protocol has no other form of an error.
type s3Error struct {
	XMLName xml.Name `xml:"Error"`
	Code    string   `xml:"Code"`
	Message string   `xml:"Message"`
}

// body is a refusal as it is sent.
func (a Asker) body(form told) ([]byte, error) {
	if a.dialect == ofS3 {
		text, err := xml.Marshal(s3Error{Code: string(form.Code), Message: form.Message})
		return append([]byte(xml.Header), text...), err
	}
	a.suit(&form)
	return json.Marshal(form)
}

// anthropicKind is the nearest kind of error of Anthropic's API.
func anthropicKind(status int) string {
	switch status {
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusProxyAuthRequired:
		return "authentication_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	}
	if status < http.StatusInternalServerError {
		return "invalid_request_error"
	}
	return "api_error"
}

type googleError struct {
	Code    int    `json:"code"` // in clients that know its type, a text here spoils the whole
	Message string `json:"message"`
	Status  string `json:"status"`
}

// googleStatus is the nearest status of Google's APIs.
func googleStatus(status int) string {
	switch status {
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusProxyAuthRequired:
		return "UNAUTHENTICATED"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusInternalServerError:
		return "INTERNAL"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if status < http.StatusInternalServerError {
		return "INVALID_ARGUMENT"
	}
	return "UNAVAILABLE"
}

// is reports whether its name begins with a program's.
func (a Asker) is(program string) bool {
	return slices.ContainsFunc(a.agent, func(text string) bool { return strings.HasPrefix(text, program) })
}

// ofRegistry reports whether it is npm, pnpm or Yarn, all of which name npm. A registry's error
// is a text, and npm prints whatever stands there.
func (a Asker) ofRegistry() bool {
	return slices.ContainsFunc(a.agent, func(text string) bool { return strings.HasPrefix(text, "npm/") || strings.Contains(text, " npm/") })
}

// kind is the type of a refusal. Who asks for JSON, and does not name that of problems, often
// reads nothing else and shows an empty error. So do clients of vendors that answer nothing
// else.
func (a Asker) kind() string {
	if a.dialect == ofS3 {
		return "application/xml"
	}
	kinds := strings.ToLower(strings.Join(a.accept, ","))
	if a.dialect != ofNobody || strings.Contains(kinds, "json") && !strings.Contains(kinds, "problem+json") {
		return "application/json"
	}
	return ProblemType
}

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
// "Forbidden" of one in another form: those of the Vercel AI SDK do, wrangler, sentry-cli,
// discord.js and SDKs of Notion, and those of the APIs of AWS that speak XML, which say that it
// cannot be parsed; some of S3 call it one of the store.
type dialect byte

const (
	ofNobody dialect = iota
	ofAnthropic
	ofGoogle
	ofCloudflare
	ofSentry  // its own form has detail, as a problem has
	ofDiscord // its own has message, as what is told has
	ofNotion  // its SDKs alone: whoever else calls that API reads our code
	ofS3
	ofAWS // its APIs in XML: of forms (STS, IAM), and Route 53 and CloudFront
	ofEC2
)

// AskerOf reads it from the head of a request, and keeps nothing else of that.
func AskerOf(header http.Header) Asker {
	a := Asker{accept: header["Accept"], agent: header["User-Agent"]}
	switch {
	case header["Anthropic-Version"] != nil:
		a.dialect = ofAnthropic
	case header["X-Goog-Api-Key"] != nil || header["X-Goog-Api-Client"] != nil:
		a.dialect = ofGoogle
	case signedFor(header) != "":
		a.dialect = dialectOfAWS(signedFor(header), header.Get("Content-Type"))
	case a.is("wrangler/"):
		a.dialect = ofCloudflare
	case a.is("sentry-cli/"):
		a.dialect = ofSentry
	case a.is("DiscordBot "): // whoever calls that API says so
		a.dialect = ofDiscord
	case a.is("notionhq-client/"), a.is("ramnes/notion-sdk-py@"):
		a.dialect = ofNotion
	}
	return a
}

// signedFor is the service of AWS that a signature is for, or "": of version 4, also with the keys
// of several regions. Stores of others name S3 there too.
func signedFor(header http.Header) string {
	for _, authorization := range header["Authorization"] {
		if !strings.HasPrefix(authorization, "AWS4-") {
			continue
		}
		if scope, _, is := strings.Cut(authorization, "/aws4_request"); is {
			return scope[strings.LastIndexByte(scope, '/')+1:]
		}
	}
	return ""
}

// dialectOfAWS is ofNobody for its APIs in JSON, which read code and message of a problem.
func dialectOfAWS(service, content string) dialect {
	switch service {
	case "s3", "s3express":
		return ofS3
	case "ec2":
		return ofEC2
	case "route53", "cloudfront":
		return ofAWS
	}
	if strings.HasPrefix(content, "application/x-www-form-urlencoded") {
		return ofAWS
	}
	return ofNobody
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
	case a.dialect == ofNotion:
		form.Code = notionCode(form.Status) // ours stays in the error
	case strings.HasPrefix(string(form.Action), "telegram."): // no client names itself, nor that API
		form.telegramError = &telegramError{ErrorCode: form.Status, Description: form.Message}
	}
}

type anthropicError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// telegramError is what an answer of Telegram's has beside each other member.
type telegramError struct {
	OK          bool   `json:"ok"`
	ErrorCode   int    `json:"error_code"`
	Description string `json:"description"`
}

// awsError is a refusal as clients of S3 read it, whose protocols have no other form of an error;
// in the others of AWS it is a part.
type awsError struct {
	XMLName xml.Name `xml:"Error"`
	Code    string   `xml:"Code"`
	Message string   `xml:"Message"`
}

type awsResponse struct {
	XMLName xml.Name `xml:"ErrorResponse"`
	Error   awsError
}

type ec2Response struct {
	XMLName xml.Name `xml:"Response"`
	Errors  struct{ Error awsError }
}

// xml is the refusal in XML, or nil for clients that read JSON.
func (a Asker) xml(form told) any {
	e := awsError{Code: string(form.Code), Message: form.Message}
	switch a.dialect {
	case ofS3:
		return e
	case ofAWS:
		return awsResponse{Error: e}
	case ofEC2:
		r := ec2Response{}
		r.Errors.Error = e
		return r
	}
	return nil
}

// body is a refusal as it is sent.
func (a Asker) body(form told) ([]byte, error) {
	if in := a.xml(form); in != nil {
		text, err := xml.Marshal(in)
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

// notionCode is the nearest code of Notion's API, which stands where ours does elsewhere.
func notionCode(status int) Code {
	switch status {
	case http.StatusForbidden:
		return "restricted_resource"
	case http.StatusProxyAuthRequired:
		return "unauthorized"
	case http.StatusTooManyRequests:
		return "rate_limited"
	case http.StatusServiceUnavailable:
		return "service_unavailable"
	case http.StatusGatewayTimeout:
		return "gateway_timeout"
	}
	if status < http.StatusInternalServerError {
		return "validation_error"
	}
	return "internal_server_error"
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
	switch a.dialect {
	case ofS3, ofAWS, ofEC2:
		return "application/xml"
	}
	kinds := strings.ToLower(strings.Join(a.accept, ","))
	if a.dialect != ofNobody || strings.Contains(kinds, "json") && !strings.Contains(kinds, "problem+json") {
		return "application/json"
	}
	return ProblemType
}

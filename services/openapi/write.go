package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// service is the service file, before it is written.
type service struct {
	name, version, description string
	from                       string // where the document came from
	server                     *server
	auth                       *auth
	actions                    []*action
}

// text writes the service file. Arguments have their descriptions with words, so
// that a file that would be too long can do without them.
func (s *service) text(withWords bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# yaml-language-server: $schema=%s\n", SchemaURL)
	fmt.Fprintf(&b, "# Imported from %s. Risks are guessed from the method and from\n# words: read those of what writes, deletes or hands out access.\n", plainComment(s.from))
	fmt.Fprintf(&b, "name: %s\nversion: %s\ndescription: %s\n", quote(s.name), s.version, prose(s.description))
	fmt.Fprintf(&b, "adapter: http\nbase_url: %s\n", quote(s.server.base))
	if len(s.server.vars) > 0 {
		b.WriteString("vars:\n")
		for _, v := range s.server.vars {
			fmt.Fprintf(&b, "  %s: {pattern: %s}\n", v.name, quote(v.value))
		}
	}
	fmt.Fprintf(&b, "auth: %s\nactions:\n", s.authText())
	for _, a := range s.actions {
		a.write(&b, withWords)
	}
	b.WriteString(catchAlls)
	return b.Bytes()
}

// catchAlls leave nothing of the host out.
const catchAlls = `  api-read: {description: Any other read, method: [GET, HEAD], path: /**, idempotent: true, risk: {level: low}}
  api-write: {description: Any other write, method: [POST, PUT, PATCH], path: /**, risk: {level: medium}}
  api-delete: {description: Any other delete, method: DELETE, path: /**, risk: {level: high}}
`

func (s *service) authText() string {
	switch s.auth.typ {
	case "bearer":
		return "{type: bearer, credential_ref: " + s.name + ".token}"
	case "oauth2":
		return fmt.Sprintf("{type: oauth2, credential_ref: %s.token, oauth2: {grant: client_credentials, token_url: %s}}", s.name, quote(s.auth.name))
	case "basic":
		return fmt.Sprintf("{type: basic, basic: {username_ref: %s.username, password_ref: %s.password}}", s.name, s.name)
	case "header":
		return fmt.Sprintf("{type: header, credential_ref: %s.key, header: {name: %s}}", s.name, quote(s.auth.name))
	case "query":
		return fmt.Sprintf("{type: query, credential_ref: %s.key, query: {name: %s}}", s.name, quote(s.auth.name))
	case "body":
		return fmt.Sprintf("{type: body, credential_ref: %s.key, body: {field: %s}}", s.name, quote(s.auth.name))
	}
	return "{type: none}"
}

func (a *action) write(b *bytes.Buffer, withWords bool) {
	fmt.Fprintf(b, "  %s:\n    description: %s\n    method: %s\n    path: %s\n", a.name, prose(a.description), a.method, quote(a.path))
	if a.idempotent {
		b.WriteString("    idempotent: true\n")
	}
	if a.slash {
		b.WriteString("    allow_slash: true\n")
	}
	if a.grants {
		b.WriteString("    risk: {level: critical, grants_access: true}\n")
	} else {
		fmt.Fprintf(b, "    risk: {level: %s}\n", a.risk)
	}
	if len(a.match) > 0 {
		fmt.Fprintf(b, "    match: {query: %s}\n", flow(a.match))
	}
	if len(a.args) > 0 {
		b.WriteString("    args:\n")
		for i := range a.args {
			fmt.Fprintf(b, "      - {%s}\n", a.args[i].text(withWords))
		}
	}
	a.writeRequest(b)
}

func (a *action) writeRequest(b *bytes.Buffer) {
	var lines []string
	if len(a.pathParams) > 0 {
		lines = append(lines, "path_params: "+flow(a.pathParams))
	}
	if a.writeQuery {
		lines = append(lines, "query: "+flow(a.query))
	}
	if len(a.headers) > 0 {
		lines = append(lines, "headers: "+flow(a.headers))
	}
	switch {
	case a.whole != "":
		lines = append(lines, "body: "+quote("{"+a.whole+"}"))
	case a.writeBody:
		lines = append(lines, "body: "+flow(a.body))
	}
	if a.bodyType != "" && a.bodyType != "json" {
		lines = append(lines, "body_type: "+a.bodyType)
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "    request:\n      %s\n", strings.Join(lines, "\n      "))
	}
}

func (one *arg) text(withWords bool) string {
	out := "name: " + quote(one.name) + ", type: " + one.typ
	flag := func(on bool, name string) {
		if on {
			out += ", " + name + ": true"
		}
	}
	flag(one.required, "required")
	flag(one.null, "nullable")
	flag(one.secret, "secret")
	flag(one.rest, "rest")
	if len(one.enum) > 0 {
		texts := make([]string, len(one.enum))
		for i, v := range one.enum {
			texts[i] = plain(v)
		}
		out += ", enum: [" + strings.Join(texts, ", ") + "]"
	}
	if one.pattern != "" {
		out += ", pattern: " + quote(one.pattern)
	}
	if one.minimum != "" {
		out += ", minimum: " + string(one.minimum)
	}
	if one.maximum != "" {
		out += ", maximum: " + string(one.maximum)
	}
	if withWords && one.description != "" {
		out += ", description: " + prose(one.description)
	}
	return out
}

func flow(list []pair) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = quote(p.name) + ": " + quote(p.value)
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

// plain writes a plain value as YAML reads it back.
func plain(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case json.Number:
		return string(v)
	}
	return fmt.Sprint(v)
}

// bare are texts that mean themselves in YAML without quotes, also in flow style.
var bare = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z/_][A-Za-z0-9 _./()'-]*$`) })

// quote writes a text so that YAML reads it back as it is.
func quote(text string) string {
	words := []string{"", "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"}
	if bare().MatchString(text) && !slices.Contains(words, strings.ToLower(text)) && !strings.HasSuffix(text, " ") && !strings.Contains(text, "  ") {
		return text
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return `""` // cannot be: it is text
	}
	out := strings.TrimSuffix(b.String(), "\n")
	if !strings.ContainsFunc(out, unseen) {
		return out
	}
	b.Reset()
	for _, r := range out { // JSON has them as they are, and YAML does not
		if unseen(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unseen is what people do not see in a text, and YAML does not take as it is.
func unseen(r rune) bool {
	return unicode.IsControl(r) || r == '\ufeff' || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar || r >= 0xfffe && r <= 0xffff
}

// prose writes a text for people.
func prose(text string) string {
	return quote(strings.Map(func(r rune) rune {
		if unseen(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "")))
}

func plainComment(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r > unicode.MaxASCII {
			return ' '
		}
		return r
	}, text)
}

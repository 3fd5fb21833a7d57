package audit

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// Redactor makes the keyed hashes that stand in the trail for values. An error
// (a locked vault) means that the value is left out.
type Redactor interface {
	Hash(tenant runtime.Tenant, value string) (string, error)
}

// masked stands for a value that is never recorded.
const masked = "***"

// redactor decides what of a request's values a record may show.
type redactor struct {
	hash    Redactor
	secrets func() []runtime.Secret // values to overwrite wherever they appear; may be nil
}

// args appends the arguments: those of path and query as they are, those of the
// body (and any other) as keyed hashes, secret ones not at all.
func (d *redactor) args(dst []byte, r *runtime.Record) []byte {
	if len(r.Args) == 0 {
		return dst
	}
	return d.object(dst, "args", r.Principal.Tenant, r.Args, func(name string) treatment {
		return treat(r.Action, name)
	})
}

// query appends the query values that the action does not declare.
func (d *redactor) query(dst []byte, r *runtime.Record) []byte {
	if len(r.Query) == 0 {
		return dst
	}
	return d.object(dst, "query", r.Principal.Tenant, r.Query, func(string) treatment { return hashed })
}

type treatment int

const (
	hashed treatment = iota
	shown
	hidden
)

// treat finds out how an argument is recorded. What is not declared is hashed.
func treat(a *runtime.Action, name string) treatment {
	if a == nil {
		return hashed
	}
	for i := range a.Params {
		p := &a.Params[i]
		switch {
		case p.Name != name:
		case p.Secret:
			return hidden
		case p.In == runtime.InPath, p.In == runtime.InQuery, a.AuditPlain:
			return shown
		default:
			return hashed
		}
	}
	return hashed
}

// object appends one JSON object of values. Once it is over maxArgs, the rest
// is counted instead.
func (d *redactor) object(dst []byte, name string, tenant runtime.Tenant, values runtime.Args, how func(string) treatment) []byte {
	var room [16]string
	names := room[:0]
	for n := range values {
		names = append(names, n)
	}
	slices.Sort(names)
	dst = append(member(dst, name), '{')
	start, omitted := len(dst), 0
	for i, n := range names {
		if len(dst)-start > maxArgs {
			omitted = len(names) - i
			break
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, d.plain(n), maxName)
		dst = append(dst, ':')
		switch how(n) {
		case shown:
			dst = d.shown(dst, values[n])
		case hidden:
			dst = append(dst, `{"omitted":"secret"}`...)
		default:
			dst = d.hashed(dst, tenant, values[n])
		}
	}
	dst = append(dst, '}')
	if omitted > 0 {
		dst = append(append(dst, ',', '"'), name...)
		dst = strconv.AppendInt(append(dst, `_omitted":`...), int64(omitted), 10)
	}
	return dst
}

// shown appends a value as it is, less what looks like a credential. Scalars
// keep their type; lists and objects that are too long become cut text.
func (d *redactor) shown(dst []byte, v any) []byte {
	if s, ok := v.(string); ok {
		return appendText(dst, d.plain(s), maxText)
	}
	start := len(dst)
	dst = appendValue(dst, v, maxText, 0)
	text := string(dst[start:])
	if safe := d.plain(text); safe != text || len(text) > maxText {
		return appendText(dst[:start], safe, maxText)
	}
	return dst
}

// hashed appends the keyed hash of a value and its size in bytes.
func (d *redactor) hashed(dst []byte, tenant runtime.Tenant, v any) []byte {
	text, ok := v.(string)
	if !ok {
		text = string(appendValue(nil, v, 1<<30, 0))
	}
	sum, err := d.hash.Hash(tenant, text)
	if err != nil {
		dst = append(dst, `{"omitted":"locked"`...)
	} else {
		dst = appendText(append(dst, `{"hash":`...), sum, maxName)
	}
	dst = strconv.AppendInt(append(dst, `,"size":`...), int64(len(text)), 10)
	return append(dst, '}')
}

// path is the path of the target without its query. Segments that a secret
// argument stands in are masked, in whatever escaping they came.
func (d *redactor) path(r *runtime.Record) string {
	path := pathOnly(r.Target.Path)
	if r.Action == nil {
		return d.plain(path)
	}
	for i := range r.Action.Params {
		p := &r.Action.Params[i]
		value, ok := r.Args[p.Name].(string)
		if p.Secret && ok && value != "" {
			path = maskSegments(path, value)
		}
	}
	return d.plain(path)
}

// maskSegments masks every segment that holds value or, for a value that spans
// several segments, one of its parts.
func maskSegments(path, value string) string {
	parts := strings.Split(value, "/")
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		decoded, err := url.PathUnescape(segment)
		if err != nil {
			decoded = segment
		}
		for _, part := range parts {
			if part != "" && (strings.Contains(decoded, part) || strings.Contains(decoded, value)) {
				segments[i] = masked
				break
			}
		}
	}
	return strings.Join(segments, "/")
}

// plain overwrites in s the credentials that were handed out and words that
// have the form of one.
func (d *redactor) plain(s string) string {
	if d.secrets != nil && len(s) >= minSecret {
		for _, secret := range d.secrets() {
			if value := secret.Reveal(); len(value) >= minSecret && strings.Contains(s, value) {
				s = strings.ReplaceAll(s, value, masked)
			}
		}
	}
	return maskTokens(s)
}

// minSecret is the shortest value that is searched for in others, in bytes:
// shorter ones would hit words that are no secret.
const minSecret = 8

// minToken is the shortest word that can be a credential by its form, in bytes.
const minToken = 16

// tokenForms returns the published prefixes of credentials that turn up in
// places where nobody declared them.
func tokenForms() [22]string {
	return [...]string{
		"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "kmb_",
		"sk-", "sk_live_", "sk_test_", "rk_live_", "xoxb-", "xoxp-", "xoxa-", "xoxs-",
		"AKIA", "ASIA", "AIza", "ya29.", "npm_", "eyJ",
	}
}

// maskTokens overwrites words that look like a credential. It allocates only
// when it finds one.
func maskTokens(s string) string {
	if len(s) < minToken {
		return s
	}
	var out strings.Builder
	done := 0
	for start := 0; start < len(s); {
		if !tokenByte(s[start]) {
			start++
			continue
		}
		end := start
		for end < len(s) && tokenByte(s[end]) {
			end++
		}
		if end-start >= minToken && tokenForm(s[start:end]) {
			out.WriteString(s[done:start])
			out.WriteString(masked)
			done = end
		}
		start = end
	}
	if done == 0 {
		return s
	}
	out.WriteString(s[done:])
	return out.String()
}

func tokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

func tokenForm(word string) bool {
	switch word[0] {
	case 'g', 'k', 's', 'r', 'x', 'A', 'y', 'n', 'e':
	default:
		return false
	}
	for _, prefix := range tokenForms() {
		if strings.HasPrefix(word, prefix) {
			return true
		}
	}
	return false
}

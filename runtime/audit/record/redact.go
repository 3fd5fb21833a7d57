package record

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
	// Known returns a func that tells whether a value or a word of one is stored
	// as a secret of the tenant; nil when nothing is stored. It is asked for once
	// per record and must not wait.
	Known(tenant runtime.Tenant) (func(word string) bool, error)
}

// masked stands for a value that is never recorded.
const masked = "***"

// veil decides what of the values of one record may be shown.
type veil struct {
	*Encoder
	tenant runtime.Tenant
	known  func(word string) bool // nil: nothing is stored
	locked bool                   // it cannot be told what is
	hits   []string               // keyed hashes of what was masked
}

// veil prepares for one record. Where it cannot be told what is stored, whatever
// could be a secret is masked.
func (e *Encoder) veil(tenant runtime.Tenant) veil {
	known, err := e.Hash.Known(tenant)
	if err != nil {
		known = Telling
	}
	return veil{Encoder: e, tenant: tenant, known: known, locked: err != nil}
}

// args appends the arguments: those of path and query as they are, those of the
// body (and any other) as keyed hashes, secret ones not at all.
func (d *veil) args(dst []byte, r *runtime.Record) []byte {
	if len(r.Args) == 0 {
		return dst
	}
	return d.object(dst, "args", r.Args, func(name string) treatment {
		return treat(r.Action, name)
	})
}

// query appends the query values that the action does not declare.
func (d *veil) query(dst []byte, r *runtime.Record) []byte {
	if len(r.Query) == 0 {
		return dst
	}
	return d.object(dst, "query", r.Query, func(string) treatment { return hashed })
}

// masked appends the keyed hashes of what was masked or cut in the record, so that
// an operator who has a value can ask for it.
func (d *veil) masked(dst []byte) []byte { return listMember(dst, "masked", d.hits) }

// hit notes the hash of a value that is masked or cut.
func (d *veil) hit(value string) {
	if len(d.hits) >= maxHits || value == "" {
		return
	}
	if sum, err := d.Hash.Hash(d.tenant, value); err == nil && !slices.Contains(d.hits, sum) {
		d.hits = append(d.hits, sum)
	}
}

// maxHits is the most values of one record that are masked and can be asked for.
const maxHits = 16

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
func (d *veil) object(dst []byte, name string, values runtime.Args, how func(string) treatment) []byte {
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
		dst = appendText(dst, d.name(n), maxName)
		dst = append(dst, ':')
		switch how(n) {
		case shown:
			dst = d.shown(dst, values[n])
		case hidden:
			d.hit(scalar(values[n]))
			dst = append(dst, `{"omitted":"secret"}`...)
		default:
			dst = d.hashed(dst, values[n])
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
func (d *veil) shown(dst []byte, v any) []byte {
	if s, ok := v.(string); ok {
		safe := d.safe(s)
		if safe == s && len(s) > maxText { // whoever has it whole can ask for it
			d.hit(s)
		}
		return appendText(dst, safe, maxText)
	}
	start := len(dst)
	dst = appendValue(dst, v, func(dst []byte, s string) []byte {
		if len(dst)-start <= maxText { // what follows is cut off
			s = d.safe(s)
		}
		return appendText(dst, s, maxText)
	}, 0)
	text := string(dst[start:])
	if safe := d.plain(text); safe != text || len(text) > maxText {
		return appendText(dst[:start], safe, maxText)
	}
	return dst
}

// safe is one text as it may be shown: a stored value of several words is known as a
// whole only, and before it is escaped for JSON.
func (d *veil) safe(s string) string {
	if d.stored(s) {
		d.hit(s)
		return masked
	}
	if d.escapedValue(s) {
		return masked
	}
	return d.plain(s)
}

// hashed appends the keyed hash of a value and its size in bytes.
func (d *veil) hashed(dst []byte, v any) []byte {
	text, ok := v.(string)
	if !ok {
		text = string(appendWhole(nil, v))
	}
	sum, err := d.Hash.Hash(d.tenant, text)
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
func (d *veil) path(r *runtime.Record) string {
	path := pathOnly(r.Target.Path)
	if r.Action == nil {
		return d.plain(d.escaped(path))
	}
	if auth, http := r.Action.Auth, r.Action.HTTP; auth != nil && auth.Type == runtime.AuthPath && http != nil {
		path = maskToken(path, http.Segment, auth)
	}
	for i := range r.Action.Params {
		p := &r.Action.Params[i]
		if !p.Secret {
			continue
		}
		if value := scalar(r.Args[p.Name]); value != "" {
			path = maskSegments(path, value)
		}
	}
	return d.plain(d.escaped(path))
}

// scalar is an argument as it stands in a path; "" for a list, an object and none.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil, []any, map[string]any:
		return ""
	default:
		return string(appendValue(nil, v, func(dst []byte, s string) []byte { return append(dst, s...) }, 0))
	}
}

// maskToken masks the segment that a caller's token stands in. The placeholder of
// the service is no secret.
func maskToken(path string, number int, auth *runtime.Auth) string {
	segments := strings.Split(path, "/")
	if number == 0 || number >= len(segments) {
		return path
	}
	value, _ := strings.CutPrefix(segments[number], auth.Prefix)
	for _, placeholder := range auth.Placeholders {
		if value == placeholder {
			return path
		}
	}
	segments[number] = masked
	return strings.Join(segments, "/")
}

// escaped masks the segments that show a secret only once they are unescaped.
func (d *veil) escaped(path string) string {
	if d.known == nil || !strings.Contains(path, "%") {
		return path
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		decoded, err := url.PathUnescape(segment)
		if err != nil || decoded == segment {
			continue
		}
		if d.stored(decoded) {
			d.hit(decoded)
			segments[i] = masked
		} else if d.words(decoded) != decoded {
			segments[i] = masked
		}
	}
	return strings.Join(segments, "/")
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

package audit

import (
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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

// redactor decides what of a request's values a record may show.
type redactor struct {
	hash    Redactor
	secrets func() []runtime.Secret // values to overwrite wherever they appear; may be nil
}

// veil is the redactor at work on one record.
type veil struct {
	*redactor
	tenant runtime.Tenant
	known  func(word string) bool // nil: nothing is stored
	hits   []string               // keyed hashes of what was masked
}

// veil prepares for one record. Where it cannot be told what is stored, whatever
// could be a secret is masked.
func (d *redactor) veil(tenant runtime.Tenant) veil {
	known, err := d.hash.Known(tenant)
	if err != nil {
		known = Telling
	}
	return veil{redactor: d, tenant: tenant, known: known}
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

// masked appends the keyed hashes of what was masked in the record, so that an
// operator who has a value can ask for it.
func (d *veil) masked(dst []byte) []byte { return listMember(dst, "masked", d.hits) }

// hit notes the hash of a value that is masked.
func (d *veil) hit(value string) {
	if len(d.hits) >= maxHits || value == "" {
		return
	}
	if sum, err := d.hash.Hash(d.tenant, value); err == nil && !slices.Contains(d.hits, sum) {
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
		dst = appendText(dst, d.plain(n), maxName)
		dst = append(dst, ':')
		switch how(n) {
		case shown:
			dst = d.shown(dst, values[n])
		case hidden:
			if value, ok := values[n].(string); ok {
				d.hit(value)
			}
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
		if d.stored(s) {
			d.hit(s)
			return appendText(dst, masked, maxText)
		}
		if d.escapedValue(s) {
			return appendText(dst, masked, maxText)
		}
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
func (d *veil) hashed(dst []byte, v any) []byte {
	text, ok := v.(string)
	if !ok {
		text = string(appendValue(nil, v, 1<<30, 0))
	}
	sum, err := d.hash.Hash(d.tenant, text)
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
		value, ok := r.Args[p.Name].(string)
		if p.Secret && ok && value != "" {
			path = maskSegments(path, value)
		}
	}
	return d.plain(d.escaped(path))
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

// plain overwrites in s the credentials that were handed out, the words that the
// vault holds, those that have the form of a credential, and encodings of them.
func (d *veil) plain(s string) string { return d.encoded(d.literal(s)) }

// literal is plain for what stands there as it is.
func (d *veil) literal(s string) string {
	if d.secrets != nil && len(s) >= minSecret {
		for _, secret := range d.secrets() {
			if value := secret.Reveal(); len(value) >= minSecret && strings.Contains(s, value) {
				d.hit(value)
				s = strings.ReplaceAll(s, value, masked)
			}
		}
	}
	return d.words(s)
}

// stored reports whether a whole value that is no single word is in the vault.
func (d *veil) stored(value string) bool {
	return d.known != nil && len(value) >= minSecret && len(value) <= maxStored && d.known(value)
}

// maxStored is the longest value that a vault takes, in bytes.
const maxStored = 64 << 10

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

// words overwrites what looks like a credential or is one of the vault's. It
// allocates only when it finds one.
func (d *veil) words(s string) string {
	if len(s) < minSecret {
		return s
	}
	c := cover{text: s}
	for start, end := range runs(s, tokenByte) {
		if word := s[start:end]; d.secret(word) || botToken(s, start, end) {
			d.hit(word)
			c.hide(start, end)
		}
	}
	return c.covered()
}

// runs yields where the runs of bytes of a kind begin and end. Those that begin
// behind what a record shows of a text are not looked at.
func runs(s string, kind func(byte) bool) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for start := 0; start < len(s) && start < maxText; {
			if !kind(s[start]) {
				start++
				continue
			}
			end := start
			for end < len(s) && kind(s[end]) {
				end++
			}
			if !yield(start, end) {
				return
			}
			start = end
		}
	}
}

// cover is a text on its way to one with parts of it masked. It allocates only
// when there is something to hide.
type cover struct {
	text string
	done int
	out  strings.Builder
}

// hide masks a part behind those hidden before.
func (c *cover) hide(start, end int) {
	c.out.WriteString(c.text[c.done:start])
	c.out.WriteString(masked)
	c.done = end
}

// covered is the whole text.
func (c *cover) covered() string {
	if c.done == 0 {
		return c.text
	}
	return c.out.String() + c.text[c.done:]
}

// secret judges one word.
func (d *veil) secret(word string) bool {
	return len(word) >= minToken && tokenForm(word) || d.known != nil && Telling(word) && d.known(word)
}

// Telling reports whether a word can be a secret or a part of one that is not
// also a word of any language: the vault fingerprints no others, and the trail
// looks for no others. Eight bytes with a digit or a capital, or sixteen.
func Telling(word string) bool {
	if len(word) >= minToken {
		return true
	}
	return len(word) >= minSecret && strings.ContainsAny(word, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

// Words yields the words of a text that are [Telling].
func Words(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return r >= utf8.RuneSelf || !tokenByte(byte(r)) }) {
			if Telling(word) && !yield(word) {
				return
			}
		}
	}
}

func tokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

// botToken reports whether a word of a text is the secret part of a token of
// Telegram's bots, which has no prefix: 35 bytes behind a number and a colon. Such
// tokens stand in paths, also in those that are no action's.
func botToken(s string, start, end int) bool {
	const length = 35
	return end-start == length && start > 1 && s[start-1] == ':' && s[start-2] >= '0' && s[start-2] <= '9'
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

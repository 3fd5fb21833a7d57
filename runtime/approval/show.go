package approval

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval/canon"
)

// View is an approval as a person sees it before deciding.
type View struct {
	Approval Approval     // without what is sealed
	Args     runtime.Args // the exact arguments, declared secrets left out
	Text     string       // safe for a terminal: no control character but newline
	Complete bool         // Text shows everything that is being asked
	Size     int          // bytes of what is sealed of it; 0 of a closed one
}

// How much a view shows when it is not full: characters of a value, lines of
// values, levels of nesting.
const (
	shownValue = 500
	shownLines = 60
	shownDepth = 6
)

// Show renders an approval for an operator, verified. Long values are cut,
// with their size and SHA-256 in place of the rest, unless full; of a closed one the
// rest is not kept. Below stands how it differs from the one of the same action that was
// accepted last.
func (d *Desk) Show(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, id string, full bool) (View, error) {
	a, err := d.forOperator(ctx, by, tenant, id)
	if err != nil {
		return View{}, err
	}
	if a.released() {
		return d.showClosed(ctx, &a)
	}
	f, err := d.open(ctx, &a)
	if err != nil {
		return View{}, err
	}
	if (a.State == Pending || a.State == Approved) && d.expired(&a) {
		a.State = Expired
	}
	mask, err := d.mask(ctx, tenant)
	if err != nil {
		return View{}, err
	}
	v := render(&a, f, full, mask)
	v.Size = len(a.Sealed)
	if f.Terms.Count > 1 && a.State == Pending {
		votes, err := d.votes(ctx, &a)
		if err != nil {
			return View{}, err
		}
		for _, vote := range votes {
			v.Text += "yes from   " + word(vote.By) + ", presence " + word(vote.Presence) + ", " + vote.At.UTC().Format(time.RFC3339) + "\n"
		}
	}
	v.Text += d.compared(ctx, &a, account{asked: f}, mask)
	return v, nil
}

// listedRequest is the longest request that is opened for a line of a list, in bytes as it is
// sealed.
const listedRequest = 64 << 10

// Arguments are those of an approval, declared secrets left out, for a line of a list; none of
// a long request. Unlike [Desk.Show] it looks at no other approval: a list is asked for again
// and again, and an agent may ask for much at once.
func (d *Desk) Arguments(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, id string) (runtime.Args, error) {
	a, err := d.forOperator(ctx, by, tenant, id)
	if err != nil {
		return nil, err
	}
	if a.released() {
		m, err := d.remains(ctx, &a)
		if err != nil {
			return nil, err
		}
		return m.Args, nil
	}
	if len(a.Sealed) > listedRequest {
		return nil, nil
	}
	f, err := d.open(ctx, &a)
	if err != nil {
		return nil, err
	}
	return f.shownArgs(), nil
}

// showClosed is Show for an approval whose request is gone: what is shown of it is what
// was shown when it was closed, in short.
func (d *Desk) showClosed(ctx context.Context, a *Approval) (View, error) {
	m, err := d.remains(ctx, a)
	if err != nil {
		return View{}, err
	}
	mask, err := d.mask(ctx, a.Tenant)
	if err != nil {
		return View{}, err
	}
	return View{Approval: bare(*a), Args: m.Args, Text: m.Text + d.compared(ctx, a, account{kept: m}, mask)}, nil
}

// masks take stored credentials out of a text.
type masks func(text string) string

// mask is [Options.Mask], or nothing.
func (d *Desk) mask(ctx context.Context, tenant runtime.Tenant) (masks, error) {
	if d.o.Mask == nil {
		return func(text string) string { return text }, nil
	}
	return d.o.Mask(ctx, tenant)
}

// render makes the view.
func render(a *Approval, f *dossier, full bool, stored masks) View {
	v := View{Approval: bare(*a), Args: f.shownArgs()}
	s := &sheet{full: full, complete: true, stored: stored}
	s.hidden = f.hiddenValues()
	s.head(a, f)
	if len(v.Args) > 0 {
		s.line(0, "arguments")
		s.value(1, "", map[string]any(v.Args))
	}
	if !f.Built && len(f.Body) > 0 {
		s.body(f)
	}
	if s.skipped > 0 {
		s.complete = false
		fmt.Fprintf(&s.text, "… and %s\n", runtime.Count(s.skipped, "more line"))
	}
	if !s.complete {
		s.text.WriteString(cutShort)
	}
	v.Text, v.Complete = s.text.String(), s.complete
	return v
}

// shownArgs are the arguments without those that are never shown.
func (f *dossier) shownArgs() runtime.Args {
	args := maps.Clone(f.Args)
	for _, name := range f.Secret {
		if _, given := args[name]; given {
			args[name] = hiddenText
		}
	}
	return args
}

// hiddenValues are the texts of arguments that are never shown.
func (f *dossier) hiddenValues() (out []string) {
	for _, name := range f.Secret {
		if text, ok := f.Args[name].(string); ok && text != "" {
			out = append(out, text)
		}
	}
	return out
}

// cutShort ends a view that is not complete.
const cutShort = "NOT FULLY SHOWN: see all of it with --full (over REST: ?full=true)\n"

// hiddenText stands for a value that is never shown.
const hiddenText = "[secret]"

// sheet is a view being written.
type sheet struct {
	text     strings.Builder
	full     bool
	complete bool
	hidden   []string // values of secret arguments
	stored   masks    // takes out what the vault holds
	lines    int
	skipped  int
}

func (s *sheet) head(a *Approval, f *dossier) {
	s.line(0, "approval   "+s.word(a.ID)+" ("+s.word(string(a.State))+")")
	s.line(0, "action     "+s.word(string(f.Action))+" (risk "+s.word(string(f.Risk))+")")
	who := "asked by   " + s.word(f.Agent) + ", " + s.word(f.Principal) + ", through " + s.word(string(f.Surface))
	if f.Run != "" {
		who += ", run " + s.word(f.Run)
	}
	s.line(0, who)
	rule := "rule       " + s.word(f.Rule)
	if f.Reason != "" {
		rule += ": " + s.word(f.Reason)
	}
	s.line(0, rule)
	if demands := f.demands(); demands != "" {
		s.line(0, "demands    "+s.word(demands))
	}
	if f.Target.Authority != "" {
		s.line(0, "request    "+s.word(f.Target.Method)+" "+s.word(f.Target.Scheme+"://"+f.Target.Authority+f.Target.Path))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Header)) {
		if unbound(name) || name == "Accept" || name == "Content-Type" {
			continue // the latter stands beside the body
		}
		s.line(0, "field      "+s.word(name)+": "+s.word(strings.Join(f.Header[name], ", ")))
	}
	asked := "asked at   " + f.Created.UTC().Format(time.RFC3339)
	if a.State == Pending || a.State == Approved { // else nothing runs any more
		asked += ", expires " + f.Expires.UTC().Format(time.RFC3339)
	}
	s.line(0, asked)
	if a.By != "" {
		s.line(0, "decided by "+s.word(a.By)+", presence "+s.word(a.Presence))
	}
	if a.Note != "" {
		s.line(0, "note       "+s.word(a.Note))
	}
}

// demands says what the rule wants of whoever decides.
func (f *dossier) demands() string {
	var parts []string
	if f.Terms.Count > 1 {
		parts = append(parts, fmt.Sprintf("%d people", f.Terms.Count))
	}
	if len(f.Terms.By) > 0 {
		parts = append(parts, "by "+strings.Join(f.Terms.By, " or "))
	}
	if strength(f.Terms.Presence) > 0 {
		parts = append(parts, "presence "+f.Terms.Presence)
	}
	return strings.Join(parts, ", ")
}

// body shows a JSON body member by member, another as text.
func (s *sheet) body(f *dossier) {
	about := fmt.Sprintf("body       %d bytes, sha256 %s", len(f.Body), fingerprint(f.Body))
	if kind := f.Header.Get("Content-Type"); kind != "" {
		about += ", " + s.word(kind)
	}
	s.line(0, about)
	if value, is := f.document(); is {
		s.value(1, "", value)
		return
	}
	if !s.full && !utf8.Valid(f.Body) {
		s.complete = false
		s.line(1, "not text")
		return
	}
	s.line(1, s.quote(string(f.Body)))
}

// shownBody is how many bytes a packed body may become to be shown: as many as to be
// judged. What is shown takes many times as much, and a short body may become very long.
const shownBody = 1 << 20

// document is a body that is JSON, unpacked if it has to be; false for any other.
func (f *dossier) document() (value any, is bool) {
	text := f.Body
	if classifier.Unpackable(f.Header) {
		var err error
		if text, err = classifier.Unpack(f.Header, f.Body, shownBody); err != nil {
			return nil, false
		}
	} else if !isJSON(f.Header) {
		return nil, false
	}
	_, value, err := canon.JSON(text)
	return value, err == nil
}

// value writes a value, one line per scalar.
func (s *sheet) value(depth int, name string, value any) {
	label := ""
	if name != "" {
		label = name + ": "
	}
	below := depth + 1
	if name == "" {
		below = depth
	}
	switch v := value.(type) {
	case map[string]any:
		if s.container(depth, label, len(v), "{}", v) {
			for _, key := range slices.Sorted(maps.Keys(v)) {
				name := key
				if !s.over() {
					name = s.key(key)
				}
				s.value(below, name, v[key])
			}
		}
	case []any:
		if s.container(depth, label, len(v), "[]", v) {
			for i, item := range v {
				s.value(below, fmt.Sprintf("[%d]", i), item)
			}
		}
	case string:
		if s.over() { // of a long request most is not shown, and its words need not be looked at
			s.line(depth, "")
			return
		}
		s.line(depth, label+s.quote(v))
	default:
		s.line(depth, label+s.word(fmt.Sprint(v)))
	}
}

// container writes the line of an object or list and reports whether its
// members are to be written too.
func (s *sheet) container(depth int, label string, members int, empty string, value any) bool {
	if members == 0 {
		s.line(depth, label+empty)
		return false
	}
	if !s.full && depth > shownDepth {
		s.complete = false
		form, _ := canon.Append(nil, value)
		s.line(depth, fmt.Sprintf("%s… (%d bytes of JSON, sha256 %s)", label, len(form), fingerprint(form)))
		return false
	}
	if label != "" {
		s.line(depth, label)
	}
	return true
}

// over reports whether the next line is only counted.
func (s *sheet) over() bool { return s.lines >= shownLines && !s.full }

// line writes one line, or counts it when there are too many. Its text must
// have gone through word, quote or key.
func (s *sheet) line(depth int, text string) {
	if s.lines++; s.lines > shownLines && !s.full {
		s.skipped++
		return
	}
	s.text.WriteString(strings.Repeat("  ", depth))
	s.text.WriteString(strings.TrimRight(text, " "))
	s.text.WriteByte('\n')
}

// word shows text that was not written as a string.
func (s *sheet) word(text string) string {
	text = s.mask(text)
	limit := shownValue
	if s.full {
		limit = 0
	}
	shown, whole := visible(text, limit)
	if !whole {
		s.complete = false
		shown += fmt.Sprintf("… (%d bytes, sha256 %s)", len(text), fingerprint([]byte(text)))
	}
	return shown
}

// quote shows a string. Its end cannot be faked: quotes inside are escaped, and
// what follows a cut string stands outside of them.
func (s *sheet) quote(text string) string {
	text = s.mask(text)
	limit := shownValue
	if s.full {
		limit = 0
	}
	shown, whole := visible(text, limit)
	shown = `"` + strings.ReplaceAll(shown, `"`, `\"`) + `"`
	if !whole {
		s.complete = false
		shown += fmt.Sprintf(" … (%d bytes, sha256 %s)", len(text), fingerprint([]byte(text)))
	}
	return shown
}

// key shows a member's name, quoted unless it is a plain word.
func (s *sheet) key(name string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
	if name != "" && len(name) <= 100 && strings.Trim(name, plain) == "" && s.mask(name) == name {
		return name
	}
	return s.quote(name)
}

// mask takes out what is stored, and the values of secret arguments, also as they stand in a
// URL.
func (s *sheet) mask(text string) string {
	for _, value := range s.hidden {
		if text == value {
			return hiddenText
		}
		if len(value) < 4 {
			continue
		}
		for _, form := range []string{value, url.QueryEscape(value), url.PathEscape(value)} {
			text = strings.ReplaceAll(text, form, hiddenText)
		}
	}
	return s.stored(text)
}

func fingerprint(data []byte) string {
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%x", sum[:8])
}

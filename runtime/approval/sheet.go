package approval

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime/approval/canon"
)

// hiddenText stands for a value that is never shown.
const hiddenText = "[secret]"

// sheet is a view being written.
type sheet struct {
	text     strings.Builder
	full     bool
	complete bool
	hidden   []string   // values of secret arguments
	forms    [][]string // of each of these, as Go writes it, once they were needed
	hits     hits       // how often each of these was taken out
	stored   masks      // takes out what the vault holds
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
		s.line(0, "request    "+s.request(f))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Header)) {
		if unbound(name) || name == "Accept" || name == "Content-Type" {
			continue // the latter stands beside the body
		}
		s.lineOf(0, func() string { return "field      " + s.word(name) + ": " + s.word(strings.Join(f.Header[name], ", ")) })
	}
	if f.Own {
		login := "login      the requester's own"
		if f.Sum != "" {
			login += ", not the stored key"
		}
		s.line(0, login)
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

// request is the method and the whole URL.
func (s *sheet) request(f *dossier) string {
	url := f.Target.Scheme + "://" + f.Target.Authority + f.Target.Path
	return s.word(f.Target.Method) + " " + s.cutWord(s.maskIn(url, partsOfURL))
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
	s.line(1, s.cutQuote(s.maskRaw(f)))
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
		s.lineOf(depth, func() string { return label + s.quote(v) })
	default:
		s.lineOf(depth, func() string { return label + s.word(fmt.Sprint(v)) })
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

// lineOf is line of a text that is made only to be written: of a long request most is not shown,
// and its words need not be looked at.
func (s *sheet) lineOf(depth int, text func() string) {
	if s.over() {
		s.line(depth, "")
		return
	}
	s.line(depth, text())
}

// word shows text that was not written as a string.
func (s *sheet) word(text string) string { return s.cutWord(s.mask(text)) }

// cutWord is word of what is masked.
func (s *sheet) cutWord(text string) string {
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
func (s *sheet) quote(text string) string { return s.cutQuote(s.mask(text)) }

// cutQuote is quote of what is masked.
func (s *sheet) cutQuote(text string) string {
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

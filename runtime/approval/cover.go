package approval

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
)

// hits is how often each value of a secret argument was found.
type hits map[string]int

func (h hits) add(more hits) {
	for value, n := range more {
		h[value] += n
	}
}

// atLeast makes each count no less than that of another reading of the same text.
func (h hits) atLeast(other hits) {
	for value, n := range other {
		h[value] = max(h[value], n)
	}
}

func (h hits) total() (n int) {
	for _, found := range h {
		n += found
	}
	return n
}

// exceed reports whether some value was found more often than this.
func (h hits) exceed(own hits) bool {
	for value, n := range h {
		if n > own[value] {
			return true
		}
	}
	return false
}

// mask takes out what is stored, and the values of secret arguments, also as they stand in a
// URL.
func (s *sheet) mask(text string) string {
	left, found := s.take(text)
	return s.masked(left, found)
}

// masked counts what was taken out of a text, and takes out what is stored.
func (s *sheet) masked(left string, found hits) string {
	if s.hits != nil {
		s.hits.add(found)
	}
	return s.stored(left)
}

// take takes the values of secret arguments out of a text.
func (s *sheet) take(text string) (left string, found hits) {
	for _, value := range s.hidden {
		if text == value {
			return hiddenText, hits{value: 1}
		}
	}
	found = hits{}
	if s.forms == nil {
		s.forms = make([][]string, len(s.hidden))
	}
	for i, value := range s.hidden {
		if len(value) < 4 || len(value) > len(text) || found[value] > 0 {
			continue // no form is shorter than its value
		}
		if s.forms[i] == nil {
			s.forms[i] = slices.Compact([]string{value, url.QueryEscape(value), url.PathEscape(value)})
		}
		for _, form := range s.forms[i] {
			if n := strings.Count(text, form); n > 0 {
				found[value] += n
				text = strings.ReplaceAll(text, form, hiddenText)
			}
		}
	}
	return text, found
}

// part is a piece of a raw text, and what a server reads there.
type part struct{ raw, read string }

// maskIn is mask for a text whose parts are written in more ways than one. Each is looked at as
// it stands and as it is read: a value that was not found where it belongs would leave room for
// one that hides something else.
func (s *sheet) maskIn(text string, split func(text string) []part) string {
	left, found := s.takeIn(text, split)
	return s.masked(left, found)
}

// mostLooks is how often a value is looked for in a part. What would take more, as an agent can
// make it, passes for something that hides another.
const mostLooks = 1 << 18

func (s *sheet) takeIn(text string, split func(text string) []part) (left string, found hits) {
	left, found = s.take(text)
	if len(s.hidden) == 0 {
		return left, found
	}
	var b strings.Builder
	inParts, parts := hits{}, split(text)
	if len(parts)*len(s.hidden) > mostLooks {
		for _, value := range s.hidden {
			found[value] += len(parts) // as far as is known
		}
		return left, found
	}
	for _, p := range parts {
		raw, here := s.take(p.raw)
		read, inRead := s.take(p.read)
		if inRead.exceed(here) || read == hiddenText && len(inRead) > 0 { // escaped otherwise than clients do
			raw = hiddenText
		}
		here.atLeast(inRead)
		b.WriteString(raw)
		inParts.add(here)
	}
	if !found.exceed(inParts) { // else a value is longer than a part
		left = b.String()
	}
	found.atLeast(inParts)
	return left, found
}

// place is the method, the host and the path of a request, masked.
func (s *sheet) place(f *dossier) string {
	return s.maskIn(f.Target.Method+" "+f.Target.Authority+f.path(), partsOfURL)
}

// path is that of the target without the query, as it came.
func (f *dossier) path() string {
	path, _, _ := strings.Cut(f.Target.Path, "?")
	return path
}

// pathWithoutSecrets has [hiddenText] for the values of secret arguments.
func (f *dossier) pathWithoutSecrets() string {
	left, _ := (&sheet{hidden: f.hiddenValues()}).takeIn(f.path(), partsOfURL)
	return left
}

// partsOfURL are the segments of the path, and names and values of the query.
func partsOfURL(text string) (parts []part) {
	path, query, asks := strings.Cut(text, "?")
	for segment := range strings.SplitAfterSeq(path, "/") {
		parts = appendParts(parts, segment, "/", url.PathUnescape)
	}
	if asks {
		parts = append(append(parts, part{raw: "?"}), partsOfForm(query)...)
	}
	return parts
}

// partsOfForm are names and values of a form.
func partsOfForm(text string) (parts []part) {
	for pair := range strings.SplitAfterSeq(text, "&") {
		_, value, _ := strings.Cut(pair, "=")
		parts = appendParts(parts, pair[:len(pair)-len(value)], "=", url.QueryUnescape)
		parts = appendParts(parts, value, "&", url.QueryUnescape)
	}
	return parts
}

// appendParts appends one part, and what ends it.
func appendParts(to []part, text, end string, unescape func(string) (string, error)) []part {
	raw, ended := strings.CutSuffix(text, end)
	read, err := unescape(raw)
	if err != nil {
		read = raw
	}
	if to = append(to, part{raw, read}); ended {
		to = append(to, part{raw: end})
	}
	return to
}

// partsOfBody are the texts of JSON and what stands between, or else those of a form.
func partsOfBody(text string) (parts []part) {
	if !json.Valid([]byte(text)) {
		return partsOfForm(text)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	for from := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			return append(parts, part{raw: text[from:], read: text[from:]})
		}
		to := int(decoder.InputOffset())
		raw := strings.TrimLeft(text[from:to], " \t\r\n,:")
		read, is := token.(string)
		if !is {
			read = raw
		}
		parts = append(parts, part{raw: text[from : to-len(raw)]}, part{raw, read})
		from = to
	}
}

// maskRaw is mask for the body as it stands. A packed one is looked at unpacked, too.
func (s *sheet) maskRaw(f *dossier) string {
	left, found := s.takeIn(string(f.Body), partsOfBody)
	if classifier.Unpackable(f.Header) {
		if plain, err := classifier.Unpack(f.Header, f.Body, shownBody); err == nil {
			_, unpacked := s.takeIn(string(plain), partsOfBody)
			found.atLeast(unpacked)
		}
	}
	return s.masked(left, found)
}

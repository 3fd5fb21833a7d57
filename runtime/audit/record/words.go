package record

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime"
)

// plain overwrites in s the credentials that were handed out, the words that the
// vault holds, those that have the form of a credential, and encodings of them.
func (d *veil) plain(s string) string { return d.encoded(d.literal(s)) }

// literal is plain for what stands there as it is. Of credentials that begin alike the longest
// goes first: behind a shorter one its rest would stay.
func (d *veil) literal(s string) string {
	var found []string
	if d.Secrets != nil && len(s) >= minSecret {
		for _, secret := range d.Secrets() {
			if value := secret.Reveal(); len(value) >= minSecret && strings.Contains(s, value) {
				found = append(found, value)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b string) int { return len(b) - len(a) })
	for _, value := range found {
		if strings.Contains(s, value) {
			d.hit(value)
			s = strings.ReplaceAll(s, value, masked)
		}
	}
	return d.words(s)
}

// name is the name of an argument as it may be shown. Those of one word are looked at as words.
func (d *veil) name(s string) string {
	for i := range len(s) {
		if !tokenByte(s[i]) {
			return d.safe(s)
		}
	}
	return d.plain(s)
}

// message is a text of several words as it may be shown: its own words go first, so that what
// is left in escapes alone takes it as a whole.
func (d *veil) message(s string) string {
	if d.stored(s) {
		d.hit(s)
		return masked
	}
	if s = d.plain(s); d.escapedValue(s) {
		return masked
	}
	return s
}

// host is a host as it may be shown: a stored value can be one of its labels. While it cannot
// be told what is stored it is shown: every host of a long label would be unnamed.
func (d *veil) host(s string) string {
	if d.known == nil || d.locked {
		return s
	}
	c := cover{text: s}
	for start, end := range runs(s, labelByte) {
		if label := s[start:end]; Telling(label) && d.known(label) {
			d.hit(label)
			c.hide(start, end)
		}
	}
	return c.covered()
}

func labelByte(c byte) bool { return c != '.' && tokenByte(c) }

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
		"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", runtime.TokenPrefix,
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

// covered is the whole text. Once a part is hidden it ends, with its length noted, where
// nothing was looked at: what stands there would move up to where a record shows it.
func (c *cover) covered() string {
	if c.done == 0 {
		return c.text
	}
	if len(c.text) <= maxText {
		return c.out.String() + c.text[c.done:]
	}
	note := "…(" + strconv.Itoa(len(c.text)) + " bytes)"
	seen := c.out.String() + c.text[c.done:max(c.done, maxText)]
	cut := min(len(seen), maxText-len(note)) // so that a record leaves the note whole
	for cut > 0 && cut < len(seen) && !utf8.RuneStart(seen[cut]) {
		cut--
	}
	return seen[:cut] + note
}

// secret judges one word.
func (d *veil) secret(word string) bool {
	return len(word) >= minToken && tokenForm(word) || d.known != nil && Telling(word) && d.known(word)
}

// formed overwrites in s what has the form of a credential and is no word of any
// language. It asks no vault: an event has none, and its caller puts no secret in. But a
// person who is asked for a name may give the credential itself.
func formed(s string) string {
	c := cover{text: s}
	for start, end := range runs(s, tokenByte) {
		if word := s[start:end]; len(word) >= minToken && tokenForm(word) && strings.ContainsAny(word, telling) {
			c.hide(start, end)
		}
	}
	return c.covered()
}

// telling are the bytes of which a short word that can be a secret has one.
const telling = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// Telling reports whether a word can be a secret or a part of one that is not
// also a word of any language: the vault fingerprints no others, and the trail
// looks for no others. Eight bytes with a digit or a capital, or sixteen.
func Telling(word string) bool {
	if len(word) >= minToken {
		return true
	}
	return len(word) >= minSecret && strings.ContainsAny(word, telling)
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

package scrub

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"
)

// Shorter forms would hit by chance: a hit breaks or blanks an honest answer. A secret under
// Shortest bytes is not looked for at all; one under ShortestForm may have a form that is not.
const (
	Shortest     = 4
	ShortestForm = 8
)

// mostAlso is how many values a Matcher looks for beside its secret.
const mostAlso = 3

// Matcher finds a secret in every form that forms.go lists: any of several byte
// strings, in one pass that skips most of the text (Wu and Manber, 1994, with blocks of
// three bytes). All patterns are looked for by their first min bytes. It is never changed
// once it is made, and so is safe for concurrent use. It holds the secret: see
// [Cache.Forget].
type Matcher struct {
	patterns [][]byte // longest first
	names    [][]byte // what a field name may hold, in lower case; the secret itself first
	min, max int
	step     int // the longest that shift knows
	begins   [256]bool
	shift    [1 << shiftBits]uint8  // how far the nearest pattern ends behind a block; 0: perhaps here
	past     [1 << shiftBits]uint8  // the same where none of those that could end here does
	ending   [1 << shiftBits]uint16 // those: an index of lists
	lists    [][][]byte             // longest first; the first is empty
}

const (
	shiftBits = 12
	block     = 3
)

// New looks for a secret, for the Basic form it may have been sent in (the base64 of
// user and secret, "" for none), for a stored user name of at least eight bytes, and for the
// first three other values of as many bytes. It returns nil when the secret is too short to
// look for, under four bytes. It takes some 50 µs: see [Cache].
func New(secret, basic, user string, also ...string) *Matcher {
	if len(secret) < Shortest {
		return nil
	}
	secret = bare(secret)
	m := &Matcher{names: namings(secret)}
	m.lookFor(secret, basic)
	for _, other := range append([]string{user}, also[:min(len(also), mostAlso)]...) {
		if len(other) >= ShortestForm {
			m.lookFor(other, "")
		}
	}
	slices.SortStableFunc(m.patterns, func(a, b []byte) int { return len(b) - len(a) })
	m.min, m.max = len(m.patterns[len(m.patterns)-1]), len(m.patterns[0])
	m.index()
	return m
}

// lookFor adds the forms of a value, as it is and as whoever reads a header field in Latin-1 has it.
func (m *Matcher) lookFor(value, basic string) {
	m.patterns = append(m.patterns, forms(value, basic)...)
	if read := asLatin1(value); read != value {
		m.patterns = append(m.patterns, forms(read, "")...)
	}
}

// index fills in what Next looks up.
func (m *Matcher) index() {
	m.step = min(m.min-block+1, 255)
	for i := range m.shift {
		m.shift[i], m.past[i] = uint8(m.step), uint8(m.step)
	}
	m.lists = append(m.lists, nil)
	for _, p := range m.patterns {
		m.begins[p[0]] = true
		for end := block; end < m.min; end++ {
			slot, behind := hash(wordOf(p, end)), uint8(min(m.min-end, 255))
			m.shift[slot], m.past[slot] = min(m.shift[slot], behind), min(m.past[slot], behind)
		}
		slot := hash(wordOf(p, m.min))
		m.shift[slot] = 0
		if m.ending[slot] == 0 { // there are some dozens of patterns
			m.ending[slot] = uint16(len(m.lists))
			m.lists = append(m.lists, nil)
		}
		list := &m.lists[m.ending[slot]]
		*list = append(*list, p)
	}
}

// wordOf has the block that ends at end in its upper bytes, as wordBefore does.
func wordOf(p []byte, end int) uint32 {
	return uint32(p[end-1])<<24 | uint32(p[end-2])<<16 | uint32(p[end-3])<<8
}

// Shortest is the length in bytes of the shortest form: no shorter text holds one, so
// that whoever would have to copy it first need not.
func (m *Matcher) Shortest() int { return m.min }

// Longest is the length in bytes of the longest form. One byte less is the most that
// [Matcher.MaskPart] and [Matcher.Tail] ever hold back.
func (m *Matcher) Longest() int { return m.max }

// InName reports whether a field name holds the secret, itself, in hex or with percent
// escapes, in any case. A nil Matcher looks for nothing and says no.
func (m *Matcher) InName(name string) bool {
	if m == nil || len(name) < len(m.names[0]) {
		return false
	}
	var room [64]byte // of most names, without a place on the heap
	lower := room[:0]
	for i := range len(name) {
		c := name[i]
		if c >= utf8.RuneSelf { // no field name, but that is for others to say
			return m.named([]byte(strings.ToLower(name)))
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower = append(lower, c)
	}
	return m.named(lower)
}

func (m *Matcher) named(lower []byte) bool {
	for _, form := range m.names {
		if bytes.Contains(lower, form) {
			return true
		}
	}
	return false
}

// hash is the slot of a block, the upper three bytes of a little-endian word.
func hash(word uint32) uint32 { return word >> 8 * 0x9E3779B1 >> (32 - shiftBits) }

// wordBefore ends at end, with the last block in its upper bytes. There are at
// least four bytes, as many as the shortest pattern has.
func wordBefore(text []byte, end int) uint32 { return binary.LittleEndian.Uint32(text[end-4 : end]) }

// Next returns where the first match at or after from starts, and how long it is in
// bytes; -1 when there is none.
func (m *Matcher) Next(text []byte, from int) (at, length int) {
	for end := from + m.min; end <= len(text); {
		slot := hash(wordBefore(text, end))
		if s := m.shift[slot]; s > 0 {
			end += int(s)
			continue
		}
		if n := m.from(text, end-m.min, slot); n > 0 {
			return end - m.min, n
		}
		end += int(m.past[slot])
	}
	return -1, 0
}

// from returns the length of the match that starts at start, whose first min bytes
// end with a block of slot; 0 when there is none.
func (m *Matcher) from(text []byte, start int, slot uint32) int {
	for _, p := range m.lists[m.ending[slot]] {
		if text[start] == p[0] && bytes.HasPrefix(text[start:], p) {
			return len(p)
		}
	}
	return 0
}

// lanesWorth, in bytes, is how much text is looked through in four lanes at once.
const lanesWorth = 2 << 10

// absent reports that text, when it is long, holds no match at all; it says no of
// a short one. Each step of a search waits for two reads, the text's and then the
// table's; four searches, each of a quarter, wait for theirs together.
func (m *Matcher) absent(text []byte) bool {
	quarter := len(text) / 4
	if len(text) < lanesWorth || quarter < m.min {
		return false
	}
	// Where the first min bytes of a match may end: a up to b's beginning, and so on.
	a, b, c, d := m.min, quarter, 2*quarter, 3*quarter
	step := m.step
	for a < quarter && b < 2*quarter && c < 3*quarter && d <= len(text) {
		i, j := hash(wordBefore(text, a)), hash(wordBefore(text, b))
		k, l := hash(wordBefore(text, c)), hash(wordBefore(text, d))
		e, f, g, h := int(m.shift[i]), int(m.shift[j]), int(m.shift[k]), int(m.shift[l])
		if e == step && f == step && g == step && h == step { // most often: the processor guesses it, and does not wait
			a, b, c, d = a+step, b+step, c+step, d+step
			continue
		}
		if e != 0 && f != 0 && g != 0 && h != 0 {
			a, b, c, d = a+e, b+f, c+g, d+h
			continue
		}
		if e == 0 && m.from(text, a-m.min, i) > 0 || f == 0 && m.from(text, b-m.min, j) > 0 ||
			g == 0 && m.from(text, c-m.min, k) > 0 || h == 0 && m.from(text, d-m.min, l) > 0 {
			return false
		}
		a, b, c, d = a+m.onward(e, i), b+m.onward(f, j), c+m.onward(g, k), d+m.onward(h, l)
	}
	return m.without(text, a, quarter) && m.without(text, b, 2*quarter) &&
		m.without(text, c, 3*quarter) && m.without(text, d, len(text)+1)
}

// onward is how far a search goes on from a block that no match ends with.
func (m *Matcher) onward(shift int, slot uint32) int {
	if shift == 0 {
		return int(m.past[slot])
	}
	return shift
}

// without reports that the first min bytes of no match end at end or behind it and
// before limit.
func (m *Matcher) without(text []byte, end, limit int) bool {
	at, _ := m.Next(text[:min(limit+m.max-m.min, len(text))], end-m.min)
	return at < 0 || at+m.min >= limit
}

// Mask overwrites every match in text with as many asterisks and returns how many
// there were. The length of a text stays, since it has been said already.
func (m *Matcher) Mask(text []byte) int {
	count := 0
	if m.absent(text) {
		return 0
	}
	for at, n := m.Next(text, 0); at >= 0; at, n = m.Next(text, at+n) {
		for i := range n {
			text[at+i] = '*'
		}
		count++
	}
	return count
}

// MaskPart is [Matcher.Mask] for a text that goes on. It returns also the length in
// bytes of the end that must wait for what follows: a match may begin there, or go on
// to be one of a longer form, and to overwrite a shorter one inside it would let the
// rest of the longer one pass.
func (m *Matcher) MaskPart(text []byte) (count, held int) {
	if m.absent(text) {
		return 0, m.Tail(text)
	}
	waits := len(text) - m.Tail(text)
	for from := 0; ; {
		if from > waits { // it began in what is overwritten now
			waits = len(text) - m.Tail(text[from:])
		}
		at, n := m.Next(text, from)
		if at < 0 || at >= waits {
			return count, len(text) - waits
		}
		for i := range n {
			text[at+i] = '*'
		}
		count++
		from = at + n
	}
}

// Tail returns the length in bytes of the longest end of text that could begin a match.
func (m *Matcher) Tail(text []byte) int {
	for i := max(0, len(text)-m.max+1); i < len(text); i++ {
		if !m.begins[text[i]] {
			continue
		}
		for _, p := range m.patterns {
			if len(p) > len(text)-i && bytes.HasPrefix(p, text[i:]) {
				return len(text) - i
			}
		}
	}
	return 0
}

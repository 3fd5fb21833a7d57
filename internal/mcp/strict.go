package mcp

import (
	"bytes"
	"strconv"
	"unicode/utf16"
)

// Clients that read strictly, as serde_json does, drop a whole message for one value in it and
// wait for the answer until they give up. That of a service or a script may have such.
const (
	// maxDepth is how many objects and lists may stand in each other: serde_json takes 127,
	// and those of the message count.
	maxDepth = 120
	// maxDigits is how long a number may be that is surely no more than a float64 holds.
	maxDigits = 300
)

// paired puts U+FFFD for each half of a surrogate pair that is escaped in JSON, and in nothing
// else: it is no character (RFC 8259 section 8.2). It writes into the text, as long as before.
func paired(text []byte) {
	for at := 0; ; {
		next := bytes.IndexByte(text[at:], '\\')
		if next < 0 {
			return
		}
		at += next
		unit, is := unitAt(text[at:])
		if !is {
			at += 2 // the character that is escaped may be a backslash
			continue
		}
		second, follows := unitAt(text[at+6:])
		switch {
		case !utf16.IsSurrogate(unit):
		case follows && utf16.DecodeRune(unit, second) != '\uFFFD':
			at += 6
		default:
			copy(text[at+2:], "fffd")
		}
		at += 6
	}
}

// unitAt is the UTF-16 code unit whose escape a text begins with.
func unitAt(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}

// strict reports whether strict clients take a JSON value as a part of a message: it is not too
// deep, and each of its numbers one that a float64 holds.
func strict(value []byte) bool {
	depth := 0
	for at := 0; at < len(value); at++ {
		switch c := value[at]; {
		case c == '"':
			at = endOfString(value, at)
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return false
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || '0' <= c && c <= '9':
			end := at + 1
			for end < len(value) && bytes.IndexByte([]byte("0123456789+-.eE"), value[end]) >= 0 {
				end++
			}
			if !holds(value[at:end]) {
				return false
			}
			at = end - 1
		}
	}
	return true
}

// endOfString is where the string that begins at a place ends.
func endOfString(value []byte, at int) int {
	for at++; at < len(value) && value[at] != '"'; at++ {
		if value[at] == '\\' {
			at++
		}
	}
	return at
}

// holds reports whether a float64 holds a number, not to each digit.
func holds(number []byte) bool {
	if len(number) <= maxDigits && !bytes.ContainsAny(number, "eE") {
		return true
	}
	_, err := strconv.ParseFloat(string(number), 64)
	return err == nil
}

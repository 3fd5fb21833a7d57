package services

import (
	"net/http"
	"slices"
	"strings"
)

// usual are the methods of nearly all APIs, and further those that are registered (IANA's
// registry, made by RFC 9110 section 16.1) or are known from caches, UPnP and stores of
// secrets. An API may have one of its own; what differs from a usual one by a letter,
// and not by its first, is a mistake.
func usual() []string {
	return []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "QUERY",
	}
}

func further() []string {
	return []string{
		"ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "LABEL", "LINK", "LOCK", "MERGE", "MKACTIVITY",
		"MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE", "ORDERPATCH", "PROPFIND", "PROPPATCH", "REBIND",
		"REPORT", "SEARCH", "UNBIND", "UNCHECKOUT", "UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL",
		"BAN", "LIST", "M-SEARCH", "MSEARCH", "NOTIFY", "PURGE", "SUBSCRIBE", "UNSUBSCRIBE",
	}
}

// misspelled is the method that a word was meant to be, "" where it may be one itself.
func misspelled(word string) string {
	known := append(usual(), further()...)
	if slices.Contains(known, word) {
		return ""
	}
	for _, method := range known {
		if edits(word, method) == 1 && !rhymes(word, method) || edits(word, method) == 2 && sameLetters(word, method) {
			return method
		}
	}
	return ""
}

// rhymes reports whether a word is another one with another first letter, or with one before
// it: READ is not HEAD, and BCOPY not COPY.
func rhymes(word, with string) bool {
	if word == "" || word[0] == with[0] {
		return false
	}
	return word[1:] == with || word[1:] == with[1:]
}

// sameLetters reports whether two words differ in the order of their letters alone.
func sameLetters(a, b string) bool {
	return slices.Equal(slices.Sorted(slices.Values([]byte(a))), slices.Sorted(slices.Values([]byte(b))))
}

// meansAny reports whether a word stands for all methods elsewhere, which are written out here.
func meansAny(word string) bool { return word == "*" || word == "ANY" || word == "ALL" }

// methodFix is how something is written that no method can be.
func methodFix(word string) string {
	capitals := strings.ToUpper(word)
	switch {
	case strings.ContainsAny(word, ",|/ ") || meansAny(capitals):
		return "list them: [GET, POST]"
	case capitals != word && isMethod(capitals) && misspelled(capitals) == "":
		return "write it in capitals, like " + capitals
	case misspelled(capitals) != "":
		return "did you mean " + misspelled(capitals) + "?"
	}
	return "write it in capitals, like GET"
}

func isMethod(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && (i == 0 || c != '-' && c != '_') {
			return false
		}
	}
	return s != ""
}

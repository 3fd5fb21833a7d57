package policy

import (
	"fmt"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy/condition"
)

// checkGlob returns the pattern in the form that values have, or what is wrong
// with it. A pattern that can never match is a problem: a rule that was meant
// to deny would let everything pass.
func checkGlob(which field, text string) (glob, msg, fix string) {
	name := fieldNames()[which]
	switch {
	case text == "":
		return "", name + " is empty", `"*" matches everything`
	case strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return "", name + " has a space or control character in it", "write one pattern per list item: [a, b]"
	case which != fieldHost && strings.ContainsAny(text, "?[]{}!^$()|\\,"):
		return "", fmt.Sprintf("%s %q: only * is special in a pattern", name, text), "write several patterns as a list: [a, b]"
	}
	switch which {
	case fieldAction:
		return checkAction(text)
	case fieldService:
		if strings.Trim(text, serviceCharacters) != "" {
			return "", fmt.Sprintf("no service can be called %q", text), "a service's name has a-z, 0-9 and -"
		}
	case fieldHost:
		return checkHost(text)
	case fieldAgent, fieldRole, fieldGroup:
		return checkName(name, text)
	case fieldMethod:
		if strings.ContainsAny(text, `/:;<=>@"`) {
			return "", fmt.Sprintf("no method can be called %q", text), "write several patterns as a list: [GET, POST]"
		}
		if upper := strings.ToUpper(text); upper != text {
			return "", fmt.Sprintf("method %q is not written as methods are", text), "write " + upper
		}
	case fieldRisk:
		return closed(which, text, words(risks()))
	case fieldSurface:
		return closed(which, text, words(surfaces()))
	}
	return text, "", ""
}

const serviceCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-*"

// checkName wants the characters of names, with stars anywhere: no token is made with the other
// signs.
func checkName(name, text string) (glob, msg, fix string) {
	const signs = `"#%&'+/:;<=>@` + "`~"
	if !strings.ContainsAny(text, signs) {
		return text, "", ""
	}
	fix = "its name has letters, digits and ._-"
	if rest, kind := strings.CutPrefix(text, name+":"); kind && rest != "" && !strings.ContainsAny(rest, signs) { // as in approval.by
		fix = "write " + rest
	}
	return "", fmt.Sprintf("no %s can be called %q", name, text), fix
}

// checkAction wants service.action, with stars anywhere.
func checkAction(text string) (glob, msg, fix string) {
	service, _, dotted := strings.Cut(text, ".")
	switch {
	case !dotted && !strings.Contains(text, "*"):
		return "", fmt.Sprintf("%q is not service.action", text), fmt.Sprintf("write %q for all actions of the service", text+".*")
	case strings.Trim(service, serviceCharacters) != "":
		return "", fmt.Sprintf("no service can be called %q", service), "a service's name has a-z, 0-9 and -"
	}
	return text, "", ""
}

// checkHost wants a host or host:port in canonical form, with stars anywhere.
func checkHost(text string) (glob, msg, fix string) {
	lower := strings.ToLower(text)
	switch {
	case strings.Contains(lower, "/"):
		return "", fmt.Sprintf("%q is a URL or a network, not a host", text), `write the host alone: "api.example.com" or "*.example.com:8443"`
	case strings.ContainsFunc(lower, func(c rune) bool { return c >= 0x80 }):
		return "", fmt.Sprintf("host %q is not in ASCII, as requests have it", text), "write its A-label, which begins with xn--"
	case strings.Trim(lower, "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]*") != "":
		return "", fmt.Sprintf("%q is not a host", text), `only * is special: "*.example.com"`
	case strings.HasSuffix(lower, ".") || strings.Contains(lower, ".:"):
		return "", fmt.Sprintf("host %q ends in a dot, which requests never have", text), "leave the dot out"
	}
	if star := strings.LastIndexByte(lower, '*'); star >= 0 {
		return checkEnd(lower, lower[star+1:])
	}
	switch canonical, err := condition.Host(lower); {
	case err != nil:
		return "", fmt.Sprintf("no request has the host %q: %v", text, err), `write it as "api.example.com", "api.example.com:8443" or "[2001:db8::1]:443"`
	case canonical != lower:
		return "", fmt.Sprintf("no request has the host %q, written so", text), fmt.Sprintf("write %q", canonical)
	}
	return lower, "", ""
}

// checkEnd looks at what stands behind the last star of a host, as the end of one.
func checkEnd(text, end string) (glob, msg, fix string) {
	if bareAddress(text) || strings.HasSuffix(end, "]") {
		return text, "", ""
	}
	switch _, port, found := strings.Cut(end, ":"); {
	case found && strings.Contains(port, ":") && !strings.Contains(end, "]"):
		return "", fmt.Sprintf("no host ends in %q", end), fmt.Sprintf("write an address in brackets: \"[%s]\"", text)
	case found && port == "":
		return "", fmt.Sprintf("no host ends in %q", end), "write the port, or leave the colon out"
	}
	return text, "", ""
}

// closed wants a pattern that matches one of the words at least.
func closed(which field, text string, known []string) (glob, msg, fix string) {
	for _, word := range known {
		if runtime.Glob(text).Match(word) {
			return text, "", ""
		}
	}
	name := fieldNames()[which]
	fix = "it is one of " + strings.Join(known, ", ")
	if near := closest(text, known); near != "" {
		fix = "did you mean " + near + "?"
	}
	return "", fmt.Sprintf("%s cannot be %q", name, text), fix
}

func words[T ~string](list []T) []string {
	plain := make([]string, len(list))
	for i, w := range list {
		plain[i] = string(w)
	}
	return plain
}

package audit

import "strings"

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

// maskTokens overwrites words that look like a credential. It allocates only
// when it finds one.
func maskTokens(s string) string {
	if len(s) < minToken {
		return s
	}
	var out strings.Builder
	done := 0
	for start := 0; start < len(s); {
		if !tokenByte(s[start]) {
			start++
			continue
		}
		end := start
		for end < len(s) && tokenByte(s[end]) {
			end++
		}
		if end-start >= minToken && tokenForm(s[start:end]) {
			out.WriteString(s[done:start])
			out.WriteString(masked)
			done = end
		}
		start = end
	}
	if done == 0 {
		return s
	}
	out.WriteString(s[done:])
	return out.String()
}

func tokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
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

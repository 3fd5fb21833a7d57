package app

import (
	"context"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/services/rest/scrub"
)

// storedText stands where a stored credential would be shown to whoever decides.
const storedText = "[stored credential]"

// masker takes out of a text the tenant's stored credentials, that an agent has written
// into what it asks for. Whoever decides is told that one stands there, not which.
type masker func(text string) string

// masker makes one. Where it cannot be told what is stored, as in a locked vault, nothing
// that is sealed is shown either.
func (a *App) masker(ctx context.Context) (masker, error) {
	return a.maskerOf(ctx, a.tenant)
}

// maskerOf finds a value in every form that an answer is searched for (package scrub), and the
// words of one as they are.
func (a *App) maskerOf(ctx context.Context, tenant runtime.Tenant) (func(text string) string, error) {
	known, err := a.vault.Known(ctx, tenant)
	if err != nil || known == nil {
		return func(text string) string { return text }, err
	}
	without, err := a.vault.Without(ctx, tenant, func(value runtime.Secret, text string) string {
		if !record.Telling(value.Reveal()) || connector.IsGrant(value) { // a word of any text; and of a grant its parts are what is told
			return text
		}
		return replaced(text, a.forms.Of(value.Reveal(), "", ""))
	})
	if err != nil {
		return func(text string) string { return text }, err
	}
	words := wordMasker(known)
	return func(text string) string { return words(without(text)) }, nil
}

// replaced puts the words for it in the place of every form of a value.
func replaced(text string, m *scrub.Matcher) string {
	if len(text) < m.Shortest() {
		return text
	}
	bytes := []byte(text)
	at, n := m.Next(bytes, 0)
	if at < 0 {
		return text
	}
	var b strings.Builder
	done := 0
	for ; at >= 0; at, n = m.Next(bytes, done) {
		b.Write(bytes[done:at])
		b.WriteString(storedText)
		done = at + n
	}
	b.Write(bytes[done:])
	return b.String()
}

// wordMasker takes out stored values that are words, and the words of others.
func wordMasker(known func(word string) bool) masker {
	return func(text string) string {
		var found []string
		for word := range record.Words(text) {
			// In what is shown an escape may stand right before a word: \n, \t, \x1b.
			for _, cut := range []int{0, 1, 3} {
				if cut < len(word) && record.Telling(word[cut:]) && known(word[cut:]) {
					found = append(found, word[cut:])
				}
			}
		}
		slices.SortFunc(found, func(one, other string) int { return len(other) - len(one) }) // none is a part of a later one
		for _, word := range found {
			text = strings.ReplaceAll(text, word, storedText)
		}
		return text
	}
}

// args masks the texts in arguments, of which it makes a copy.
func (m masker) args(args runtime.Args) runtime.Args {
	if args == nil {
		return nil
	}
	return m.value(map[string]any(args)).(map[string]any)
}

func (m masker) value(value any) any {
	switch v := value.(type) {
	case string:
		return m(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = m.value(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name := range v {
			out[m(name)] = m.value(v[name])
		}
		return out
	}
	return value
}

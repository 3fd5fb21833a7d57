package app

import (
	"context"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// storedText stands where a stored credential would be shown to whoever decides.
const storedText = "[stored credential]"

// masker takes out of a text the tenant's stored credentials, that an agent has written
// into what it asks for. Whoever decides is told that one stands there, not which.
type masker func(text string) string

// masker makes one. Where it cannot be told what is stored, as in a locked vault, nothing
// that is sealed is shown either.
func (a *App) masker(ctx context.Context) (masker, error) {
	known, err := a.vault.Known(ctx, a.tenant)
	if err != nil || known == nil {
		return func(text string) string { return text }, err
	}
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
	}, nil
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

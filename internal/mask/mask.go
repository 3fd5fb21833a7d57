// Package mask takes a tenant's stored credentials out of what people are shown, where an agent
// has written them into what it asks for. Whoever decides is told that one stands there, not
// which.
//
// It says so where it cannot be told what is stored, as in a locked vault: then nothing that is
// sealed may be shown either. It changes no request.
//
// Start reading at [Masks.Of].
package mask

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/services/rest/scrub"
)

// storedText stands where a stored credential would be shown to whoever decides.
const storedText = "[stored credential]"

// Vault tells what is stored, as [vault.Vault] does.
type Vault interface {
	// Known tells whether a word is a stored value or a word of one; nil when there is none.
	Known(ctx context.Context, tenant runtime.Tenant) (func(word string) bool, error)
	// Without takes the stored values out of a text: hide does it for each of them.
	Without(ctx context.Context, tenant runtime.Tenant, hide func(value runtime.Secret, text string) string) (func(text string) string, error)
}

// Masks makes what takes them out.
type Masks struct {
	Vault Vault
	Forms *scrub.Cache // of values, that are dear to make
}

// Of finds a value of a tenant in every form that an answer is searched for (package scrub), and
// the words of one as they are. The func is safe for concurrent use; with an error it changes
// nothing.
func (m Masks) Of(ctx context.Context, tenant runtime.Tenant) (func(text string) string, error) {
	known, err := m.Vault.Known(ctx, tenant)
	if err != nil || known == nil {
		return func(text string) string { return text }, err
	}
	without, err := m.Vault.Without(ctx, tenant, func(value runtime.Secret, text string) string {
		if !record.Telling(value.Reveal()) || connector.IsGrant(value) { // a word of any text; and of a grant its parts are what is told
			return text
		}
		return replaced(text, m.Forms.Of(value.Reveal(), "", ""))
	})
	if err != nil {
		return func(text string) string { return text }, err
	}
	return func(text string) string { return withoutWords(without(text), known) }, nil
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

// withoutWords takes out stored values that are words, and the words of others.
func withoutWords(text string, known func(word string) bool) string {
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

// Args masks the texts in arguments, of which it makes a copy.
func Args(mask func(text string) string, args runtime.Args) runtime.Args {
	if args == nil {
		return nil
	}
	return masked(mask, map[string]any(args)).(map[string]any)
}

func masked(mask func(text string) string, value any) any {
	switch v := value.(type) {
	case string:
		return mask(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = masked(mask, v[i])
		}
		return out
	case map[string]any:
		out, same := make(map[string]any, len(v)), map[string]int{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			shown := mask(name)
			as := shown
			for _, is := out[as]; is; _, is = out[as] { // another name has become the same: nothing of what is sent may be missing
				same[shown]++
				as = fmt.Sprintf("%s (%d)", shown, same[shown]+1)
			}
			out[as] = masked(mask, v[name])
		}
		return out
	}
	return value
}

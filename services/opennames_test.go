package services_test

import (
	"fmt"
	"slices"
	"testing"
)

func basicService(name, auth string) string {
	return fmt.Sprintf("name: %s\nversion: 1.0.0\nbase_url: https://%s.test\nauth: %s\nactions: {get: {description: x, method: GET, path: /a}}\n", name, name, auth)
}

// A name is open where every service that has it says so, and none has it as its key.
func TestNamesAreOpenWhereNoServiceHasThemAsASecret(t *testing.T) {
	const open = "{type: basic, basic: {username_ref: %s, username_open: true, password_ref: %s}}"
	for _, c := range []struct {
		files []string
		want  []string
	}{
		{[]string{basicService("a", fmt.Sprintf(open, "a.user", "a.key"))}, []string{"a.user"}},
		{[]string{basicService("a", fmt.Sprintf(open, "a.user", "a.key")), basicService("b", fmt.Sprintf(open, "a.user", "a.key"))}, []string{"a.user"}},
		{[]string{basicService("a", fmt.Sprintf(open, "a.user", "a.key")), basicService("b", "{type: basic, basic: {username_ref: a.user, password_ref: b.key}}")}, nil},
		{[]string{basicService("a", fmt.Sprintf(open, "b.key", "a.key")), basicService("b", "{type: bearer, credential_ref: b.key}")}, nil},
		{[]string{basicService("a", fmt.Sprintf(open, "a.key", "a.key"))}, nil},
		{[]string{basicService("a", "{type: basic, basic: {username_ref: a.user, password_ref: a.key}}")}, nil},
	} {
		got := set(t, c.files...).OpenNames()
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, c.want) {
			t.Errorf("%q: open are %q, want %q", c.files, got, c.want)
		}
	}
}

package connector

import (
	"strings"
	"testing"
	"time"
)

// Whatever a provider gives, the vault takes the grant: what is only good to have stays out of
// one that would be too long, and the tokens never do.
func TestTheLongestGrantIsStored(t *testing.T) {
	t.Parallel()
	for _, fill := range []string{"a", "<", `"`, `\\`} {
		g := &Grant{
			TokenURL: "https://login.test/token", ClientID: "c", AccessToken: strings.Repeat("a", longestToken), Previous: strings.Repeat("b", longestToken),
			RefreshToken: strings.Repeat(fill, longestToken/len(fill)), Scopes: strings.Fields(strings.Repeat("s ", longestScopes/2)), Expires: time.Unix(1, 0),
		}
		value, err := g.Seal()
		if err != nil || len(value.Reveal()) > longestGrant {
			t.Fatalf("%q: %d bytes, %v", fill, len(value.Reveal()), err)
		}
		back, err := open(value)
		if err != nil || back.AccessToken != g.AccessToken || back.RefreshToken != g.RefreshToken {
			t.Errorf("%q: it is another one: %v", fill, err)
		}
	}
}

package identity_test

import (
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/identity"
)

func TestStateOfAToken(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ends := made.Add(time.Hour)
	for _, c := range []struct {
		revoked, now time.Time
		want         string
	}{
		{now: made, want: "valid"},
		{now: ends.Add(-1), want: "valid"},
		{now: ends, want: "expired"},
		{revoked: made, now: made, want: "revoked"},
		{revoked: made, now: ends, want: "revoked"},
	} {
		token := identity.Token{Created: made, Expires: ends, Revoked: c.revoked}
		if got := token.State(c.now); got != c.want || token.Valid(c.now) != (c.want == "valid") {
			t.Errorf("revoked %v, at %v: %s, valid %v; want %s", c.revoked, c.now, got, token.Valid(c.now), c.want)
		}
	}
}

package vault_test

import "testing"

// A text that is a stored value, or holds one of some length, is told from others: the
// variable of a program, say.
func TestTextsThatHoldAStoredValueAreTold(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "gh.token", "long-enough-to-look-for")
	r.set(t, tenant, "pin", "123")
	holds, err := r.Holding(t.Context(), tenant, 4)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"long-enough-to-look-for": true, "https://me:long-enough-to-look-for@host/": true, "123": true,
		"12345": false, "long-enough-to-look": false, "": false,
	} {
		if holds(text) != want {
			t.Errorf("%q: held is %v, want %v", text, !want, want)
		}
	}
}

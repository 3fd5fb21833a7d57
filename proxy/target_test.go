package proxy

import (
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
)

// A Host field that is taken for the authority as it is written is one that the canonical
// form would be taken for too.
func TestAHostThatSpellsTheAuthorityIsIt(t *testing.T) {
	hosts := []string{
		"", "x.test", "x.test:", "x.test:4", "x.test:44", "x.test:443", "x.test:443 ", "x.test:4443", "X.test", "x.test.", "x.tes", "y.test", "x.test:80",
		"[::1]", "[::1]:443", "[::1", "[::1]:", "127.0.0.1", "127.0.0.1:443", "127.0.0.1:", "xn--bcher-kva.test", "b\u00fccher.test",
	}
	spelled := 0
	for _, authority := range []string{"x.test:443", "x.test:4443", "x.test:80", "[::1]:443", "[::1]:8443", "127.0.0.1:443", "xn--bcher-kva.test:443"} {
		for _, host := range hosts {
			for _, port := range []string{"443", "80"} {
				if !spells(host, authority, port) {
					continue
				}
				spelled++
				if got, err := classifier.CanonicalAuthority(host, port); err != nil || got != authority {
					t.Errorf("%q spells %s, but is %s, %v", host, authority, got, err)
				}
			}
		}
	}
	if spelled != 15 {
		t.Errorf("%d of them", spelled)
	}
}

package outfit

import (
	"strings"
	"testing"
)

// Some programs end as if all were well where they do not take the certificate.
func TestTheEndSaysThatTheCertificateWasNotTaken(t *testing.T) {
	for n, want := range map[int64]string{-1: "", 0: "", 1: "certificate for a host (", 2: "certificate for 2 hosts ("} {
		said := strings.Join(Counts{Requests: 1, Untrusting: n}.remarks(false, ""), "\n")
		if want == "" && said != "" || !strings.Contains(said, want) {
			t.Errorf("%d: %q", n, said)
		}
	}
}

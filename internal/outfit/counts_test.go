package outfit

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
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

// Such a program has no use for the proxy, and says little of it: an isolated run needs none.
func TestTheEndSaysThatAProgramAskedWithoutCONNECT(t *testing.T) {
	for n, want := range map[int64]bool{-1: false, 0: false, 1: true, 2: true} {
		said := strings.Join(Counts{Requests: 1, Unconnected: n}.remarks(false, ""), "\n")
		if strings.Contains(said, "kimbap run --isolate -- env -u HTTPS_PROXY -u https_proxy -u ALL_PROXY -u all_proxy CMD") != want || !want && said != "" {
			t.Errorf("%d: %q", n, said)
		}
	}
}

// A 401 to a page of another origin is not for want of a key.
func TestTheEndSaysWhyAPageGotNone(t *testing.T) {
	said := strings.Join(Counts{Requests: 1, Unauthorized: map[string]runtime.CredentialUse{"notes": runtime.CredentialWithheld}}.remarks(false, ""), "\n")
	if !strings.Contains(said, "notes answered 401: a web page") || strings.Contains(said, "kimbap link") {
		t.Errorf("%q", said)
	}
}

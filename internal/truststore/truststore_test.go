package truststore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/certs/stores"
	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/truststore"
)

// Certificates are called by their fingerprints in the stores: an entry without a whole one is
// an error, with the file's name.
func TestAnEntryWithoutAFingerprintIsRefused(t *testing.T) {
	k := truststore.Keeper{Home: home.Folder{Dir: t.TempDir()}}
	if err := os.MkdirAll(k.Home.CA(), 0o700); err != nil {
		t.Fatal(err)
	}
	whole := strings.Repeat("0a", 32)
	for fingerprint, good := range map[string]bool{whole: true, whole[:12]: false, "": false, "../" + whole[3:]: false} {
		text := `[{"kind": "` + stores.NSS + `", "where": "/nss", "fingerprint": "` + fingerprint + `"}]`
		if err := os.WriteFile(k.Home.Anchors(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		entries, err := k.Anchored()
		if (err == nil) != good || good && len(entries) != 1 || !good && !strings.Contains(err.Error(), k.Home.Anchors()) {
			t.Errorf("%q: %v, %v", fingerprint, entries, err)
		}
	}
}

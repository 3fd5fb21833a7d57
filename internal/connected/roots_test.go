package connected

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/runtime"
)

// authorityInMemory is one with a root of its own.
func authorityInMemory(t *testing.T) *certs.Authority {
	t.Helper()
	ca, err := certs.New(certs.Options{Clock: time.Now})
	if err == nil {
		err = ca.Open(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// After a rotation a proxy shows two roots, and signs with the first: who pins the second
// alone trusts nothing that it shows.
func TestThePinMustBeThatOfTheRootThatSigns(t *testing.T) {
	next, old := authorityInMemory(t), authorityInMemory(t)
	sent := slices.Concat(next.RootPEM(), old.RootPEM())
	for about, c := range map[string]struct {
		pinned []byte
		good   bool
	}{
		"the new one": {next.RootPEM(), true}, "both": {sent, true}, "the old one": {old.RootPEM(), false},
	} {
		if err := signsWith("the proxy", sent, c.pinned); (err == nil) != c.good {
			t.Errorf("%s: %v", about, err)
		}
	}
	e := runtime.AsError(signsWith("the proxy", sent, old.RootPEM()))
	if e.Code != runtime.CodeUpstreamTLS || !strings.Contains(e.Msg, next.Fingerprint()) || e.Hint == "" {
		t.Errorf("it does not name the new one: %v", e)
	}
	if root, err := pinned("the proxy", sent, []string{old.Fingerprint(), next.Fingerprint()}); err != nil || !bytes.Equal(root, sent) {
		t.Errorf("both are pinned: %v", err)
	}
}

package runner

import (
	"os"
	"testing"
)

// needRoot leaves a test out for whoever is not root; where changes are gated that is a failure.
func needRoot(t *testing.T, why string) {
	t.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("CI") == "true":
		t.Fatal("only root can " + why)
	default:
		t.Skip("LEFT OUT: only root can " + why + " (sudo make test)")
	}
}

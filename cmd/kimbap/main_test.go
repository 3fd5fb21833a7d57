package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this binary also the programs that the tests start: kimbap
// itself, and a client. As root on Linux all tests run in a network of their
// own, see namespace_linux_test.go.
func TestMain(m *testing.M) {
	programs := map[string]func(){"kimbap": main, "goclient": goclient}
	benchmark := os.Getenv("KIMBAP_BIN") != "" || os.Getenv("KIMBAP_BENCH") != ""
	if programs[base(os.Args[0])] == nil && !benchmark {
		enterNamespace()
	}
	testscript.Main(m, programs)
}

// namespaceVar marks the test process that runs in the network of its own.
const namespaceVar = "KIMBAP_TEST_NAMESPACE"

// leaveNamespaceOut says, so that nobody overlooks it, that the tests with real
// clients will not run. On a machine that gates changes it is a failure.
func leaveNamespaceOut(why string) {
	fmt.Fprintf(os.Stderr, "\n*** THE TESTS WITH REAL CLIENTS ARE LEFT OUT: %s\n*** Run them with: sudo make test\n\n", why)
	if os.Getenv("CI") == "true" {
		os.Exit(1)
	}
}

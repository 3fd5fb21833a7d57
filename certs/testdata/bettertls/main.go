// Command bettertls runs Netflix's BetterTLS suites (name constraints and path
// building) against the verification of upstream certificates, over TCP with the
// very configuration that upstream connections have. It is a module of its own so
// that its dependencies are nobody else's. Run it with: make bettertls
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"

	cases "github.com/Netflix/bettertls/test-suites/test-case"
	executor "github.com/Netflix/bettertls/test-suites/test-executor"

	"github.com/kimbap-run/kimbap/certs"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	suites, err := executor.BuildTestSuites()
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(suites.GetRootCert())
	results, err := executor.ExecuteAllTestsRemote(nil, suites, func(host string, port uint) (bool, error) {
		return accepts(roots, host, port), nil
	})
	if err != nil {
		return err
	}
	failures := 0
	for _, name := range suites.GetProviderNames() {
		wrong, err := report(suites.GetProvider(name), results[name])
		if err != nil {
			return err
		}
		failures += wrong
	}
	if failures > 0 {
		return fmt.Errorf("%d cases went wrong", failures)
	}
	return nil
}

// accepts reports whether we would send a request to the server.
func accepts(roots *x509.CertPool, host string, port uint) bool {
	config := certs.Upstream(roots)
	config.ServerName = host
	c, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))), config)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// report prints what became of one suite and returns how many cases went wrong.
func report(suite cases.TestCaseProvider, results *executor.SuiteTestResults) (wrong int, err error) {
	passed, soft, skipped := 0, 0, 0
	for i, result := range results.TestCaseResults {
		one, err := suite.GetTestCase(uint(i))
		if err != nil {
			return wrong, err
		}
		accepted, expected := result == executor.TestCaseResult_ACCEPTED, one.ExpectedResult()
		switch {
		case result == executor.TestCaseResult_SKIPPED:
			skipped++
		case accepted == (expected == cases.EXPECTED_RESULT_PASS || expected == cases.EXPECTED_RESULT_SOFT_PASS):
			passed++
		case expected == cases.EXPECTED_RESULT_SOFT_PASS || expected == cases.EXPECTED_RESULT_SOFT_FAIL:
			soft++
		default:
			wrong++
			fmt.Printf("%s %d: accepted %t, expected %s: %+v\n", suite.Name(), i, accepted, expected, one)
		}
	}
	for _, f := range results.UnsupportedFeatures {
		fmt.Printf("%s: not supported: %s\n", suite.Name(), suite.DescribeFeature(cases.Feature(f)))
	}
	fmt.Printf("%s: %d as expected, %d otherwise than recommended, %d left out, %d wrong\n", suite.Name(), passed, soft, skipped, wrong)
	return wrong, nil
}

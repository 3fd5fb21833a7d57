package runtimetest

import "testing"

// Alone panics in a test that is parallel: for what changes the process (its umask,
// its limits), which the tests beside it would have to bear. testing keeps the same
// rule for variables of the environment, so one of those is set.
func Alone(t testing.TB) {
	t.Helper()
	t.Setenv("KIMBAP_TEST_ALONE", t.Name())
}

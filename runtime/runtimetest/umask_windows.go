package runtimetest

import "testing"

// Umask does nothing: Windows has none.
func Umask(testing.TB, int) {}

//go:build !linux

package evaluator_test

import "testing"

func begun(*testing.T)    {}
func noneLeft(*testing.T) {}

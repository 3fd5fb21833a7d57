//go:build !linux

package main

// underInit is for the first process of a container, and there is none.
func underInit() (status int, is bool) { return 0, false }

//go:build !linux

package main

import (
	"path/filepath"
	"strings"
)

func base(program string) string { return strings.TrimSuffix(filepath.Base(program), ".exe") }

// enterNamespace cannot: there are no network namespaces here.
func enterNamespace() { leaveNamespaceOut("this system has no network namespaces") }

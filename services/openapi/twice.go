package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/services"
)

// twice refuses valid JSON in which an object has a name of operations two times: readers keep
// the last, and what the first holds would be an ordinary read or write. Of other names, as in
// examples, nothing hangs.
func twice(data []byte) error {
	var open []map[string]bool // what the objects around have; of lists nothing
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			open = append(open, nil)
		case '}', ']':
			open = open[:len(open)-1]
		case '"':
			start := i
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			if rest := bytes.TrimLeft(data[i+1:], " \t\r\n"); len(rest) == 0 || rest[0] != ':' {
				continue
			}
			name := ""
			if json.Unmarshal(data[start:i+1], &name) != nil || !ofOperations(name) {
				continue
			}
			have := &open[len(open)-1]
			if (*have)[name] {
				return fmt.Errorf("line %d: the name %s %w", 1+bytes.Count(data[:start], []byte("\n")), shown(name), services.ErrTwice)
			}
			if *have == nil {
				*have = map[string]bool{}
			}
			(*have)[name] = true
		}
	}
	return nil
}

// ofOperations reports whether a name is one by which operations are found.
func ofOperations(name string) bool {
	return name == "paths" || strings.HasPrefix(name, "/") || slices.Contains(methods(), name)
}

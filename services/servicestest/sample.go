package servicestest

import (
	"encoding/json"
	"strconv"

	"github.com/kimbap-run/kimbap/runtime"
)

// Sample is a value that a parameter takes: text where any will do.
func Sample(p runtime.Param, text string) any {
	if len(p.Enum) > 0 && p.Type == runtime.TypeArray {
		return p.Enum[:1]
	}
	if len(p.Enum) > 0 {
		return p.Enum[0]
	}
	switch p.Type {
	case runtime.TypeInteger, runtime.TypeNumber:
		n := 7.0
		if p.Minimum != nil {
			n = max(n, *p.Minimum)
		}
		if p.Maximum != nil {
			n = min(n, *p.Maximum)
		}
		return json.Number(strconv.FormatFloat(n, 'f', -1, 64))
	case runtime.TypeBoolean:
		return true
	case runtime.TypeArray:
		return []any{"one", "two"}
	case runtime.TypeObject:
		return map[string]any{"member": "one"}
	}
	return text
}

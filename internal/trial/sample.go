package trial

import (
	"encoding/json"
	"regexp"
	"strconv"

	"github.com/kimbap-run/kimbap/runtime"
)

// sampleArgs gives the required arguments of an action values that its schema
// takes. What has none is named.
func sampleArgs(a *runtime.Action) (args runtime.Args, missing string) {
	args = runtime.Args{}
	for i := range a.Params {
		p := &a.Params[i]
		if !p.Required {
			continue
		}
		v := sampleOf(p)
		if v == nil {
			return nil, p.Name
		}
		args[p.Name] = v
	}
	return args, ""
}

func sampleOf(p *runtime.Param) any {
	if len(p.Enum) > 0 && p.Type != runtime.TypeArray {
		return p.Enum[0]
	}
	switch p.Type {
	case runtime.TypeInteger, runtime.TypeNumber:
		for _, bound := range []*float64{p.Minimum, p.Maximum} {
			if bound != nil {
				return json.Number(strconv.FormatFloat(*bound, 'f', -1, 64))
			}
		}
		return json.Number("1")
	case runtime.TypeBoolean:
		return true
	case runtime.TypeObject:
		return map[string]any{"name": "example"}
	case runtime.TypeArray:
		if len(p.Enum) > 0 {
			return []any{p.Enum[0]}
		}
		if text := sampleText(p.Pattern); text != "" {
			return []any{text}
		}
		return nil
	}
	if text := sampleText(p.Pattern); text != "" {
		return text
	}
	return nil
}

// sampleText is a text that the pattern takes, "" when none of ours does.
func sampleText(pattern *regexp.Regexp) string {
	for _, text := range []string{"example", "EXAMPLE", "1", "a1", "A1", "a-1", "2030-01-02", "2030-01-02T03:04:05Z", "a@example.com", "https://example.com/a",
		"0123456789abcdef", "6f1b1c1e-0d3a-4f3c-9a51-0f8e2b7c4d6a", "a/b", "a.b", "+15550100"} {
		if pattern == nil || pattern.MatchString(text) {
			return text
		}
	}
	return ""
}

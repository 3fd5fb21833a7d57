package app

import (
	"bytes"
	"encoding/json"

	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/services/jq"
)

// CheckJQ reports what is wrong with a jq expression before anything is done whose
// answer it would have to show.
func CheckJQ(expression string) error { return jq.Check(expression) }

// Render writes JSON data as indented JSON or YAML, through a jq expression
// when one is given.
func Render(data []byte, format, filter string) ([]byte, error) {
	if filter != "" {
		filtered, err := jq.Filter(filter, data)
		if err != nil {
			return nil, err
		}
		data = filtered
	}
	if format == "yaml" {
		return config.YAMLOf(data)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(data), "", "  "); err != nil {
		out.Reset()
		out.Write(data) // a stream of several values, or of none
	}
	if out.Len() == 0 {
		return nil, nil
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

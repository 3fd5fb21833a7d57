package logline_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/internal/logline"
	"github.com/kimbap-run/kimbap/runtime"
)

// A line of the log is JSON of zerolog's making, and an error in it often quotes
// what it speaks of: the value is found however the two spell it.
func TestTheLogHidesAValueInEverySpelling(t *testing.T) {
	for _, value := range []string{`kbcanary<"7f3a&9c`, `kbcanary\7f3a>9c`, "kbcanary\x7f\"7f3a", "kbcanary\n<7f3a", "kbcanary-7f3a9c", "kbcanaryé\"7f3a<9c"} {
		for name, write := range map[string]func(l zerolog.Logger){
			"text":   func(l zerolog.Logger) { l.Info().Str("said", "x "+value+" y").Msg("m") },
			"quoted": func(l zerolog.Logger) { l.Info().Err(fmt.Errorf("bad %q", value)).Msg("m") },
			"object": func(l zerolog.Logger) { l.Info().Interface("said", map[string]string{"v": value}).Msg("m") },
			"inner": func(l zerolog.Logger) {
				inner, _ := json.Marshal(value)
				l.Info().Str("said", string(inner)).Msg("m")
			},
		} {
			var out bytes.Buffer
			log := logline.New(&out)
			log.Hide(func() []runtime.Secret { return []runtime.Secret{runtime.NewSecret(value)} })
			write(zerolog.New(log))
			if !strings.Contains(out.String(), "[secret]") {
				t.Errorf("%s of %q: %s", name, value, out.String())
			}
			if !json.Valid(out.Bytes()) {
				t.Errorf("%s of %q: no JSON any more: %s", name, value, out.String())
			}
		}
	}
}

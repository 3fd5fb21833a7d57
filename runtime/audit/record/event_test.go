package record_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// Who is asked for a name may give the credential itself.
func TestAnEventHoldsNoCredential(t *testing.T) {
	for value, want := range map[string]string{
		"kmb_I4hl34IXi8MN3cfxj1BgdXQ8g5ddGfmQ13xZKFlrizo37zaVG":    `"***"`,
		"see ghp_16C7e42F292c6912E7710c838347Ae178B4a, or another": `"see ***, or another"`,
		"npm_publish_token":                  `"npm_publish_token"`,
		"tok_06h1kr24q1645c2at8bwmq25m4":     `"tok_06h1kr24q1645c2at8bwmq25m4"`,
		"sk-short":                           `"sk-short"`,
		strings.Repeat("ab12", 16):           `"` + strings.Repeat("ab12", 16) + `"`,
		"github.list-issues sk_live_of_mine": `"github.list-issues sk_live_of_mine"`,
	} {
		line := string(record.AppendEvent(nil, record.Event{Kind: "vault.set", Fields: map[string]string{"name": value}}, time.Unix(0, 0)))
		if !strings.HasSuffix(line, `"fields":{"name":`+want+"}") {
			t.Errorf("%s: %s", value, line)
		}
	}
}

//go:build unix

package audit_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
)

// A sink that refuses every line loses the record of its losses too, of which no other record
// tells: the trail does not feed itself.
func TestARecordOfLossesBringsNoOther(t *testing.T) {
	dir := t.TempDir()
	m := &memory{gate: make(chan struct{}), fail: &outlet.Refused{Err: errors.New("status 401")}}
	o := audittest.Options(dir)
	o.Sinks = []outlet.Sink{m}
	o.After = func(time.Duration) <-chan time.Time { return time.After(time.Millisecond) }
	l := audittest.Open(t, o)
	for _, id := range []string{"req_1", "req_2"} {
		if err := l.Intent(t.Context(), audittest.Record(id)); err != nil {
			t.Fatal(err)
		}
		m.gate <- struct{}{} // the sink refuses it
		m.gate <- struct{}{} // and the record that tells so
	}
	close(m.gate)
	audittest.Shut(t, l)
	var told []string
	for _, line := range audittest.Lines(t, dir) {
		if strings.Contains(line, "audit.sink_lost") {
			told = append(told, regexp.MustCompile(`"(in_all|lines)":"\d+"`).FindAllString(line, -1)...)
		}
	}
	if got := strings.Join(told, " "); got != `"in_all":"1" "lines":"1" "in_all":"3" "lines":"1"` {
		t.Errorf("told of: %s", got)
	}
}

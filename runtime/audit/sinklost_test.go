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

// What a best-effort sink has lost to the end is recorded also while a required one is gone,
// which the next start gives that record to.
func TestTheLastLossesAreRecordedWhileARequiredSinkIsGone(t *testing.T) {
	dir := t.TempDir()
	gone := errors.New("gone")
	needed := &memory{required: true}
	o := audittest.Options(dir)
	o.Sinks = []outlet.Sink{&memory{fail: gone}, needed}
	o.After = func(time.Duration) <-chan time.Time { return nil }
	l := audittest.Open(t, o)
	needed.set(gone)
	if err := l.Intent(t.Context(), audittest.Record("req_1")); err == nil {
		t.Fatal("an intent that no required sink has was let through")
	}
	_ = l.Close(t.Context())
	lines := audittest.Lines(t, dir)
	if last := lines[len(lines)-1]; !strings.Contains(last, "audit.sink_lost") || !strings.Contains(last, `"lines":"1"`) {
		t.Errorf("at the end of the ledger: %s", last)
	}
	needed.set(nil)
	audittest.Shut(t, audittest.Open(t, o))
	if got := needed.lines(); !strings.Contains(got, "audit.sink_lost") {
		t.Errorf("the required sink has\n%s", got)
	}
	audittest.Verified(t, dir)
}

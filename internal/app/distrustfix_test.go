package app

import (
	"strings"
	"testing"
)

// Who started a program with kimbap run is not told to do that.
func TestTheFixForDistrustIsThatOfHowTheProgramWasStarted(t *testing.T) {
	t.Parallel()
	a := &App{}
	for slots, want := range map[string][2]bool{"run": {true, false}, "run-2": {true, false}, "proxy": {false, true}, "runner": {false, true}, "serve": {true, false}, "serve-2": {true, false}, "server": {false, true}, "serve proxy": {true, true}, "run proxy": {true, true}} {
		var records []Record
		for slot := range strings.FieldsSeq(slots) {
			records = append(records, Record{Slot: slot, Host: "api.notes.test:443"})
		}
		d := distrustIn(records)
		fix := a.distrustFix(d)
		if got := [2]bool{strings.Contains(fix, "roots of its own"), strings.Contains(fix, "start the program with kimbap run")}; got != want || len(d.hosts) != 1 {
			t.Errorf("%s: %q for %q", slots, fix, d.hosts)
		}
	}
}

package app_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// The cases that are data, each against a whole kimbap.
func TestSecurityCases(t *testing.T) {
	for _, a := range securityAreas(t) {
		t.Run(a.file, func(t *testing.T) {
			t.Parallel() // mostly they wait for the trail
			var w *caseWorld
			for _, c := range a.cases {
				if len(c.tries) == 0 {
					continue
				}
				if w == nil {
					w = newCaseWorld(t)
				}
				t.Run(c.id, func(t *testing.T) {
					for _, one := range c.tries {
						w.run(t, a.file, one)
					}
				})
			}
			if w != nil {
				w.nothingLeaked(t)
				w.Verify(t)
			}
		})
	}
}

// caseWorld is the kimbap that the cases are sent to.
type caseWorld struct {
	*apptest.Kimbap
	told strings.Builder
}

// casePolicy lets through what the cases want to see arrive.
const casePolicy = `version: 1
defaults: {low: allow, medium: allow, high: require_approval, critical: deny, unmatched: allow}
rules:
  - {name: no-denied, match: {host: denied.test}, then: deny, reason: denied for these cases}
  - {name: not-public, match: {action: good.publish}, when: 'has(args.visibility) && args.visibility == "public"', then: deny}
  - {name: not-quiet, match: {action: good.notify}, when: 'has(args.quiet)', then: deny}
  - {name: not-the-vault, match: {action: good.update-repo}, when: 'args.repo == "vault"', then: deny}
  - {name: large-payouts, match: {action: [pay.payout, good.payout]}, when: '!(args.amount <= 100.0)', then: require_approval}
`

func newCaseWorld(t *testing.T) *caseWorld {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata/cases", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	return &caseWorld{Kimbap: apptest.New(t, apptest.Options{
		Services: []string{read("good.yaml"), read("pay.yaml")}, Policy: casePolicy,
		Resolve:  []string{"api.good.test:443", "pay.good.test:443", "evil.test:443", "api.good.test:8443", "xn--80ak6aa92e.test:443"},
		Upstream: servicestest.Options{Hosts: []string{"*.good.test"}},
	})}
}

// run sends one try and looks at everything that came of it.
func (w *caseWorld) run(t *testing.T, file string, one try) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s.txt:%d: %.200q\n  "+format, append([]any{file, one.line, one.text}, args...)...)
	}
	mark, bytes, before := w.Mark(t), w.Up.Received(), len(w.Up.Requests())
	answer := w.ask(t, one)
	defer w.settled(t)
	fmt.Fprintln(&w.told, answer.Header, answer.Body)
	got := []string{"ends"}
	if p := answer.Problem; p.Code != "" {
		got = []string{"refused", strconv.Itoa(answer.Status), strings.TrimSuffix(p.Code+"/"+p.Reason, "/")}
		if p.Code == "approval_pending" {
			got = []string{"waits", p.Action}
		} else if len(one.want) > 0 && one.want[0] == "stopped" {
			got[0] = "stopped"
		}
	} else if answer.Status != 0 {
		got = []string{"answered", strconv.Itoa(answer.Status)}
	}
	if one.want == nil {
		t.Fatalf("%s.txt:%d: what must come of it?", file, one.line)
	}
	switch one.want[0] {
	case "allowed", "passed":
		if got[0] != "answered" || answer.Status != 200 {
			fail("%v %s (%v), want %v", got, answer.Body, answer.Err, one.want)
			w.Await(t, mark, 1)
			return
		}
		w.arrived(t, fail, one, mark, before)
	default:
		if !slices.Equal(got, one.want) {
			fail("%v %s (%v), want %v", got, answer.Body, answer.Err, one.want)
			w.Await(t, mark, 1)
			return
		}
		if n := w.Up.Received() - bytes; n != 0 {
			fail("the upstream got %d bytes", n)
		}
		w.recorded(t, fail, one, mark, answer)
	}
}

// ask sends the text where it belongs.
func (w *caseWorld) ask(t *testing.T, one try) apptest.Answer {
	t.Helper()
	wire := w.Dial(t)
	defer func() { _ = wire.Close() }()
	if one.place != "listener" {
		answer := wire.Ask("CONNECT " + one.host + " HTTP/1.1\r\nHost: " + one.host + "\r\n\r\n")
		if answer.Status != 200 {
			return answer
		}
	}
	if one.place == "tunnel" {
		name := one.host
		if one.name != "" {
			name = one.name + ":443"
		}
		inside, err := wire.TryTLS(w.Roots(), name)
		if err != nil {
			return apptest.Answer{Err: err}
		}
		wire = inside
	}
	answer := wire.Ask(one.text)
	if slices.Contains(one.checks, [2]string{"closes", ""}) {
		n, err := wire.Read(make([]byte, 1))
		if late := net.Error(nil); n > 0 || err == nil || errors.As(err, &late) && late.Timeout() {
			t.Errorf("line %d: the connection goes on: %d %v", one.line, n, err)
		}
	}
	return answer
}

// recorded looks at what the trail says of a request that did not leave.
func (w *caseWorld) recorded(t *testing.T, fail func(string, ...any), one try, mark map[string]uint64, a apptest.Answer) {
	t.Helper()
	kinds := map[string][]string{"refused": {"refusal"}, "ends": {"refusal"}, "stopped": {"intent", "outcome"}, "waits": {"intent", "outcome"}}[one.want[0]]
	records := w.Await(t, mark, len(kinds))
	var got []string
	for _, r := range records {
		got = append(got, r.Kind)
	}
	last := records[len(records)-1]
	if !slices.Equal(got, kinds) || last.Result != "error" {
		fail("recorded %v", records)
	}
	if one.want[0] == "ends" {
		return
	}
	if last.Code != a.Problem.Code || last.Reason != a.Problem.Reason || last.ID != a.Problem.RequestID {
		fail("answered %+v, recorded %s", a.Problem, last.Line)
	}
	if !strings.HasPrefix(a.Header.Get("Kimbap-Error"), a.Problem.Code) {
		fail("Kimbap-Error: %q", a.Header.Get("Kimbap-Error"))
	}
}

// settled waits for what else a try may have left in the trail, so that it is
// not taken for a record of the next one.
func (w *caseWorld) settled(t *testing.T) {
	t.Helper()
	apptest.Eventually(t, "an end for every intent", func() bool {
		open := 0
		for _, r := range w.Requests(t, nil) {
			open += map[string]int{"intent": 1, "outcome": -1}[r.Kind]
		}
		return open == 0
	})
}

// arrived looks at what the upstream got, and reads it again from its bytes.
func (w *caseWorld) arrived(t *testing.T, fail func(string, ...any), one try, mark map[string]uint64, before int) {
	t.Helper()
	records := w.Await(t, mark, 2)
	requests := w.Up.Requests()[before:]
	if len(records) != 2 || len(requests) != 1 {
		fail("%d records, %d requests at the upstream", len(records), len(requests))
		return
	}
	intent, outcome, r := records[0], records[1], requests[0]
	if intent.Kind != "intent" || intent.Effect != "allow" || intent.Action != one.want[1] || outcome.Result != "ok" {
		fail("recorded %s, %s; want %s", intent.Short(), outcome.Short(), one.want[1])
	}
	auth, stored := r.Fields("Authorization"), one.want[0] == "allowed"
	if stored != slices.Equal(auth, []string{"Bearer " + apptest.Key}) || strings.Contains(string(r.Head)+string(r.Body), apptest.Key) != stored || (outcome.Used == "stored") != stored {
		fail("Authorization %q, recorded as %q", auth, outcome.Used)
	}
	if action, err := reclassify(w.Kimbap, r); stored && (err != nil || action != one.want[1]) {
		fail("what arrived is %q, %v", action, err)
	}
	for _, check := range one.checks {
		name, value, _ := strings.Cut(check[1], ": ")
		values := r.Header.Values(name)
		switch {
		case check[0] == "lacks" && len(values) > 0, check[0] == "has" && !slices.Equal(values, []string{value}):
			fail("%s: %q", name, values)
		case check[0] == "target" && r.Target != check[1]:
			fail("the target arrived as %s", r.Target)
		case check[0] == "raw" && string(r.RawBody) != check[1]:
			fail("the body arrived as %q", r.RawBody)
		}
	}
}

// nothingLeaked looks for the credential wherever it must not be.
func (w *caseWorld) nothingLeaked(t *testing.T) {
	t.Helper()
	places := map[string]string{"what clients were told": w.told.String(), "the log": w.Log.String()}
	addFiles(t, places, w.Dir)
	for place, text := range places {
		if form, found := leaked(text, apptest.Key); found {
			t.Errorf("the credential is in %s as %s", place, form)
		}
	}
}

// addFiles adds the text of every file below a folder, by its path.
func addFiles(t *testing.T, places map[string]string, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		places[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A form that is too large to be held and asks for another method at its end is
// broken off before that.
func TestALargeFormThatAsksForAnotherMethodHasNoEnd(t *testing.T) {
	t.Parallel()
	w := newCaseWorld(t)
	text := "POST /repos/a/b HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 2000015\r\n\r\n" +
		strings.Repeat("x", 2_000_000) + "&_method=DELETE"
	before := w.Up.Received()
	answer := w.ask(t, try{place: "tunnel", host: "api.good.test:443", text: text})
	if answer.Status != 400 || answer.Problem.Code != "ambiguous_target" || answer.Problem.Reason != "method_override" {
		t.Errorf("answered %d %s (%v)", answer.Status, answer.Body, answer.Err)
	}
	if sent := w.Up.Received() - before; sent > 2_000_000 {
		t.Errorf("%d bytes were sent", sent)
	}
}

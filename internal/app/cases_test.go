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

// The security cases. Each file testdata/cases/*.txt is one area: its first
// line is the title, then come the cases, each an id and a sentence, and indented
// below it who holds it:
//
//	held TestName TestOther   tests elsewhere
//	none because …            nothing does, and why
//	open                      its tests are not listed here yet
//	note …                    how kimbap differs from what might be expected
//
// or what is sent to a whole kimbap, and what must come of it:
//
//	listener                  what follows is written to the proxy itself,
//	tunnel HOST:PORT [name]   or into TLS in a CONNECT (the default is api.good.test:443; name is the server name of TLS),
//	clear HOST:PORT           or into a CONNECT without TLS
//	field Name: value         one more field of the next request
//	get TARGET                a GET to the tunnel's host
//	json TARGET BODY          a POST of this body as JSON, form … the same as a form
//	send TEXT                 or a text, with the escapes of Go
//	refused STATUS CODE[/REASON]   this answer, one record that says the same, and not one byte for the upstream
//	stopped STATUS CODE[/REASON]   the same, but the records are an intent and its outcome: it was found out on the way
//	ends                      no answer at all; not one byte for the upstream
//	waits ACTION              a person must decide; not one byte for the upstream
//	allowed ACTION            200; the upstream got this one request, with the stored credential
//	passed ACTION             200; the upstream got this one request, without it
//	lacks Name                and no field of this name in it
//	has Name: value           and exactly this one
//	target TARGET             and this request-target
//	raw TEXT                  and this body as it was on the wire, chunks and trailers included
//	closes                    (after refused) the connection is closed, and what was sent behind is not read
//
// The words listener, tunnel and clear hold until the case ends.
type securityCase struct {
	id, about  string
	held       []string
	none, note string
	open       bool
	tries      []try
}

// try is one thing sent and what must come of it.
type try struct {
	place, host, name string
	text              string
	want              []string // words of the expectation, then of each further check
	checks            [][2]string
	line              int
}

// area is one file.
type area struct {
	file, title string
	cases       []securityCase
}

func securityAreas(t testing.TB) []area {
	t.Helper()
	files, err := filepath.Glob("testdata/cases/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no security cases: ", err)
	}
	var out []area
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, parseArea(t, file, string(text)))
	}
	return out
}

func parseArea(t testing.TB, file, text string) area {
	t.Helper()
	out := area{file: strings.TrimSuffix(filepath.Base(file), ".txt")}
	p := tryParser{}
	for n, line := range strings.Split(text, "\n") {
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case out.title == "":
			out.title = line
		case line[0] != '\t':
			id, about, _ := strings.Cut(line, " ")
			out.cases = append(out.cases, securityCase{id: id, about: about})
			p = tryParser{place: "tunnel", host: "api.good.test:443"}
		case len(out.cases) == 0:
			t.Fatalf("%s:%d: a line of no case", file, n+1)
		default:
			if err := p.line(&out.cases[len(out.cases)-1], line[1:], n+1); err != nil {
				t.Fatalf("%s:%d: %v", file, n+1, err)
			}
		}
	}
	return out
}

// tryParser is what holds from one line of a case to the next.
type tryParser struct {
	place, host, name string
	fields            string
}

func (p *tryParser) line(c *securityCase, text string, n int) error {
	word, rest, _ := strings.Cut(text, " ")
	host, _, _ := strings.Cut(p.host, ":")
	add := func(raw string) {
		c.tries = append(c.tries, try{place: p.place, host: p.host, name: p.name, text: raw, line: n})
		p.fields = ""
	}
	body := func(media string) error {
		target, content, _ := strings.Cut(rest, " ")
		content, err := unescape(content)
		add(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", target, host, p.fields, media, len(content), content))
		return err
	}
	switch word {
	case "held":
		c.held = append(c.held, strings.Fields(rest)...)
	case "none":
		c.none = rest
	case "open":
		c.open = true
	case "note":
		c.note = rest
	case "listener", "tunnel", "clear":
		p.place, p.name = word, ""
		p.host, p.name, _ = strings.Cut(rest, " ")
	case "field":
		p.fields += rest + "\r\n"
	case "get":
		add("GET " + rest + " HTTP/1.1\r\nHost: " + host + "\r\n" + p.fields + "\r\n")
	case "json", "form":
		media := map[string]string{"json": "application/json", "form": "application/x-www-form-urlencoded"}[word]
		return body(media)
	case "send":
		raw, err := unescape(rest)
		add(raw)
		return err
	case "refused", "stopped", "ends", "waits", "allowed", "passed":
		if len(c.tries) == 0 || c.tries[len(c.tries)-1].want != nil {
			return fmt.Errorf("%s without a request", word)
		}
		c.tries[len(c.tries)-1].want = append([]string{word}, strings.Fields(rest)...)
	case "lacks", "has", "target", "raw", "closes":
		value, err := rest, error(nil)
		if word == "raw" {
			value, err = unescape(rest)
		}
		last := &c.tries[len(c.tries)-1]
		last.checks = append(last.checks, [2]string{word, value})
		return err
	default:
		return fmt.Errorf("%q is no word of a case", word)
	}
	return nil
}

// unescape reads the escapes of Go, and $N*TEXT$ as TEXT N times.
func unescape(text string) (string, error) {
	var out strings.Builder
	for text != "" {
		if count, after, ok := strings.Cut(text, "*"); ok && strings.HasPrefix(count, "$") {
			if n, err := strconv.Atoi(count[1:]); err == nil {
				piece, rest, _ := strings.Cut(after, "$")
				piece, err := unescape(piece)
				if err != nil {
					return "", err
				}
				out.WriteString(strings.Repeat(piece, n))
				text = rest
				continue
			}
		}
		c, multi, rest, err := strconv.UnquoteChar(text, 0)
		if err != nil {
			return "", fmt.Errorf("%w in %q", err, text)
		}
		if multi {
			out.WriteRune(c)
		} else {
			out.WriteByte(byte(c))
		}
		text = rest
	}
	return out.String(), nil
}

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
  - {name: large-payouts, match: {action: pay.payout}, when: '!(args.amount <= 100.0)', then: require_approval}
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

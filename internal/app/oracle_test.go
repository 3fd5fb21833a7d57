package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// spelled is a service whose actions are easily taken for one another.
const spelled = `name: notes
version: 1.0.0
description: Notes under many spellings
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  get-note: {description: Read, method: GET, path: "/notes/{id:int}", risk: {level: low}, args: [{name: id, type: integer, required: true}]}
  get-named: {description: Read by name, method: GET, path: "/notes/{name}", risk: {level: low}, args: [{name: name, type: string, required: true}]}
  get-admin: {description: Read what is not for all, method: GET, path: /notes/admin, risk: {level: critical}}
  list: {description: List, method: GET, path: /notes, risk: {level: low}}
  purge: {description: Delete by query, method: GET, path: /notes, match: {query: {do: purge}}, risk: {level: critical}}
  call: {description: A call, method: POST, path: /rpc, match: {jsonrpc: {method: read}}, risk: {level: low}}
  call-admin: {description: A call that is denied, method: POST, path: /rpc, match: {jsonrpc: {method: admin}}, risk: {level: critical}}
  submit: {description: A form, method: POST, path: /form, match: {body: {/do: read}}, risk: {level: low}}
  submit-purge: {description: A form that is denied, method: POST, path: /form, match: {body: {/do: purge}}, risk: {level: critical}}
  write: {description: Write, method: POST, path: "/notes/{name}", risk: {level: medium}, args: [{name: name, type: string, required: true}, {name: fields, type: object, rest: true}]}
`

// plain is a request as an honest client writes it; all others derive from one.
type plain struct{ method, path, query, media, body string }

var plains = []plain{
	{method: "GET", path: "/notes/7"}, {method: "GET", path: "/notes/a"}, {method: "GET", path: "/notes/admin"}, {method: "GET", path: "/notes"},
	{method: "GET", path: "/notes", query: "do=purge"}, {method: "GET", path: "/notes", query: "do=list&x=1"},
	{method: "POST", path: "/rpc", media: "application/json", body: `{"jsonrpc":"2.0","id":1,"method":"read"}`},
	{method: "POST", path: "/rpc", media: "application/json", body: `{"jsonrpc":"2.0","id":1,"method":"admin"}`},
	{method: "POST", path: "/notes/a", media: "application/json", body: `{"text":"x","id":1}`},
	{method: "POST", path: "/form", media: "application/x-www-form-urlencoded", body: "do=read&x=1"},
	{method: "POST", path: "/form", media: "application/x-www-form-urlencoded", body: "do=purge"},
	{method: "POST", path: "/form", media: "application/json", body: `{"do":"read","id":1}`},
}

// spell derives a request from one.
func spell(s apptest.Spellings) plain {
	p := plains[s.IntN(len(plains))]
	p.path, p.query = s.Path(p.path), s.Query(p.query)
	if s.IntN(12) == 0 {
		p.method = s.One("get", "DELETE", "TRACE", "PRI", "POST", "GET", "CONNECT")
	}
	if p.body == "" {
		return p
	}
	if p.media == "application/json" {
		p.body = s.JSON(p.body)
	} else {
		p.body = s.Form(p.body)
	}
	p.media = s.Media(p.media)
	return p
}

// target is the path and query.
func (p plain) target() string {
	if p.query == "" {
		return p.path
	}
	return p.path + "?" + p.query
}

// wire is the request as bytes, in some framing and on some host.
func (p plain) wire(s apptest.Spellings) string {
	target := p.target()
	if s.IntN(12) == 0 {
		target = s.One("https://", "http://", "HTTPS://", "") + s.Authority(apptest.Host) + target
	}
	end := "\r\n"
	if s.IntN(40) == 0 {
		end = "\n"
	}
	out := p.method + " " + target + " HTTP/1." + s.One("1", "1", "1", "1", "1", "0") + end + "Host: " + s.Authority(apptest.Host) + "\r\n" + s.Field()
	if p.body == "" && (p.method != "POST" || s.IntN(2) == 0) {
		return out + "\r\n"
	}
	return out + s.Framed(p.media, p.body)
}

// Whatever reached the upstream, read again from its raw bytes, is the action
// that was judged; and nothing reached it that was not.
func TestWhatArrivesIsWhatWasJudged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		engine            string
		requests, atLeast int // one in some twelve gets through
	}{{"relay", 3500, 150}, {"std", 1500, 50}} {
		t.Run(c.engine, func(t *testing.T) { arrives(t, c.engine, c.requests, c.atLeast) })
	}
}

func arrives(t *testing.T, engine string, requests, atLeast int) {
	k := apptest.New(t, apptest.Options{Services: []string{spelled}, Engine: engine})
	seed := rand.Uint64()
	s := apptest.NewSpellings(seed)
	t.Logf("seed %d", seed)
	var w *apptest.Wire
	for range requests {
		if w == nil {
			w = k.Tunnel(t, apptest.Authority)
		}
		_ = w.SetDeadline(time.Now().Add(time.Second)) // some wait for a body that never comes
		a := w.Ask(spell(s).wire(s))
		if a.Problem.Code == string(runtime.CodeInternal) {
			t.Errorf("an undeclared change, or worse: %+v", a)
		}
		// What is left on a connection belongs to no request: a new one for what
		// cannot be told apart.
		if a.Err != nil || a.Status != 200 || a.Header.Get("Connection") == "close" {
			_ = w.Close()
			w = nil
		}
	}
	compareWithTrail(t, k, atLeast)
	k.Verify(t)
}

// An upstream that decodes, folds, cleans and guesses takes no spelling for a
// riskier action than the one that was judged.
func TestNoSpellingIsMorePrivileged(t *testing.T) {
	t.Parallel()
	set := servicestest.Set(t, "notes.yaml", spelled)
	seed := rand.Uint64()
	s := apptest.NewSpellings(seed)
	t.Logf("seed %d", seed)
	judged, read := map[string]int{}, 0
	for range 30000 {
		p := spell(s)
		action := actionOf(set, p)
		if action == "" {
			continue
		}
		judged[action]++
		for _, loose := range looseReadings(p) {
			if taken := actionOf(set, loose); risk(set, taken) > risk(set, action) {
				t.Errorf("%s %s %q %q is judged %s; an upstream that reads %s %q takes it for %s", p.method, p.target(), p.media, p.body, action, loose.target(), loose.body, taken)
			}
			read++
		}
		if t.Failed() {
			return
		}
	}
	for _, a := range set.Services()[0].Actions {
		if judged[string(a.Ref)] == 0 {
			t.Errorf("no spelling was judged %s", a.Ref)
		}
	}
	if read < 50000 {
		t.Errorf("only %d readings", read)
	}
}

// actionOf judges a request as the proxy does, "" when it is refused.
func actionOf(set *services.Set, p plain) string {
	in := classifier.Input{Scheme: "https", Authority: apptest.Authority, Method: p.method, Target: p.target(), Header: http.Header{}}
	m, err := set.Table().Match(in)
	if err == nil && m.NeedBody {
		if in.Body, err = classifier.ParseBody(p.media, "", []byte(p.body)); err == nil {
			m, err = set.Table().Match(in)
		}
	}
	if err != nil {
		return ""
	}
	return m.Action
}

// risk orders actions; what is refused is below all.
func risk(set *services.Set, ref string) int {
	action, ok := set.Action(ref)
	if !ok {
		return -1
	}
	return slices.Index([]runtime.Risk{runtime.RiskLow, runtime.RiskMedium, runtime.RiskHigh, runtime.RiskCritical}, action.Risk)
}

// looseReadings are what lenient servers make of a request.
func looseReadings(p plain) []plain {
	var out []plain
	decoded, err := url.PathUnescape(p.path)
	if err != nil {
		decoded = p.path
	}
	parameters := func(text string) string {
		segments := strings.Split(text, "/")
		for i := range segments {
			segments[i], _, _ = strings.Cut(segments[i], ";")
		}
		return strings.Join(segments, "/")
	}
	slashes := strings.NewReplacer("\\", "/").Replace
	for _, text := range []string{p.path, decoded, slashes(decoded), parameters(p.path), parameters(slashes(decoded)), strings.TrimRight(decoded, "/")} {
		for _, clean := range []string{text, path.Clean("/" + text)} {
			loose := p
			loose.path = (&url.URL{Path: clean}).EscapedPath()
			out = append(out, loose)
		}
	}
	for _, query := range looseQueries(p.query) {
		loose := p
		loose.query = query
		out = append(out, loose)
	}
	bodies := looseQueries(p.body)
	if strings.Contains(p.media, "json") {
		bodies = looseJSON(p.body)
	}
	for _, body := range bodies {
		loose := p
		loose.body = body
		out = append(out, loose)
	}
	return out
}

// looseJSON reads the first document of a body with the last of each member,
// and with names in lower case.
func looseJSON(body string) []string {
	var members map[string]any
	if json.NewDecoder(strings.NewReader(strings.TrimPrefix(body, "\ufeff"))).Decode(&members) != nil {
		return nil
	}
	folded := map[string]any{}
	for name, value := range members {
		folded[strings.ToLower(name)] = value
	}
	exact, _ := json.Marshal(members)
	lower, _ := json.Marshal(folded)
	return []string{string(exact), string(lower)}
}

// looseQueries reads a query or form with the first or the last of each name,
// "&" or also ";" between pairs, names as they are or cut and in lower case.
func looseQueries(query string) []string {
	var out []string
	for _, separators := range []string{"&", "&;"} {
		for _, last := range []bool{false, true} {
			for _, fold := range []bool{false, true} {
				kept := url.Values{}
				for _, pair := range strings.FieldsFunc(query, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
					key, value, _ := strings.Cut(pair, "=")
					key, value = unescaped(key), unescaped(value)
					if fold {
						key, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(key)), "[")
						key, _, _ = strings.Cut(key, "\x00")
					}
					if _, there := kept[key]; !there || last {
						kept.Set(key, value)
					}
				}
				out = append(out, kept.Encode())
			}
		}
	}
	return out
}

func unescaped(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// compareWithTrail holds the upstream's requests against the intents, one by one: a single
// client made them in order. Of one that ended in an error nothing may have arrived.
func compareWithTrail(t *testing.T, k *apptest.Kimbap, atLeast int) {
	t.Helper()
	var judged []apptest.Record
	failed := map[uint64]bool{}
	apptest.Eventually(t, "an end for every intent", func() bool {
		judged = nil
		open := map[uint64]apptest.Record{}
		for _, r := range k.Records(t) {
			switch {
			case r.Slot == "proxy" && r.Kind == "intent":
				open[r.Seq] = r
				judged = append(judged, r)
			case r.Slot == "proxy" && r.Kind == "outcome":
				delete(open, r.Intent)
				failed[r.Intent] = strings.Contains(r.Short(), " error ")
			}
		}
		return len(open) == 0
	})
	seen := k.Up.Requests()
	if len(seen) > len(judged) || len(seen) < atLeast {
		t.Fatalf("the upstream saw %d requests, %d were let through", len(seen), len(judged))
	}
	arrived := make([]string, len(seen))
	for i, r := range seen {
		var err error
		if arrived[i], err = reclassify(k, r); err != nil {
			t.Errorf("arrived, but cannot be judged: %v:\n%s%s", err, r.Head, r.Body)
		}
		if got := r.Fields("Authorization"); len(got) != 1 || got[0] != "Bearer "+apptest.Key {
			t.Errorf("%d values of Authorization in\n%s", len(got), r.Line)
		}
	}
	var actions []string
	var lost []bool
	for _, r := range judged {
		if r.Effect != "allow" {
			t.Errorf("an intent of %s was judged %s", r.Action, r.Effect)
		}
		actions, lost = append(actions, r.Action), append(lost, failed[r.Seq])
	}
	if at := aligned(actions, lost, arrived); at >= 0 {
		t.Errorf("the order of what arrived is not that of what was judged from %d on: %q, then %q", at, actions[max(0, at-3):], arrived[min(len(arrived), max(0, at-3)):])
	}
}

// aligned returns -1 when what arrived is what was judged, in its order, but for some of what
// was lost, and else the first index of what was judged at which that fails.
func aligned(judged []string, lost []bool, arrived []string) int {
	can := map[int]bool{0: true} // how many of those that arrived the judged so far may be
	for i, action := range judged {
		next := map[int]bool{}
		for n := range can {
			if n < len(arrived) && arrived[n] == action {
				next[n+1] = true
			}
			if lost[i] {
				next[n] = true
			}
		}
		if len(next) == 0 {
			return i
		}
		can = next
	}
	if !can[len(arrived)] {
		return len(judged)
	}
	return -1
}

// reclassify reads a request from the bytes on the wire.
func reclassify(k *apptest.Kimbap, r servicestest.Request) (string, error) {
	hosts := r.Header["Host"]
	if len(hosts) != 1 {
		return "", fmt.Errorf("%d Host fields", len(hosts))
	}
	authority, err := classifier.CanonicalAuthority(hosts[0], "443")
	if err != nil {
		return "", err
	}
	in := classifier.Input{Scheme: "https", Authority: authority, Method: r.Method, Target: r.Target, Header: http.Header(r.Header)}
	m, err := k.App.Services().Table().Match(in)
	if err == nil && m.NeedBody {
		text, uerr := classifier.Unpack(http.Header(r.Header), r.Body, 1<<20)
		if in.Body, err = classifier.ParseBody(r.Header.Get("Content-Type"), "", text); err == nil {
			m, err = k.App.Services().Table().Match(in)
		}
		err = errors.Join(uerr, err)
	}
	return m.Action, err
}

package app_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
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
  write: {description: Write, method: POST, path: "/notes/{name}", risk: {level: medium}, args: [{name: name, type: string, required: true}, {name: fields, type: object, rest: true}]}
`

// spellings makes requests that two readers might read in two ways. The same
// seed makes the same requests.
type spellings struct{ *rand.Rand }

func (s spellings) one(words ...string) string { return words[s.IntN(len(words))] }

// target is a request-target, mostly almost right.
func (s spellings) target() string {
	segment := func() string {
		return s.one("notes", "admin", "7", "a", "rpc", "Admin", "%61dmin", "ad%6Din", "admin%2F", "%2e%2e", "..", ".", "", "%00", "a;b", "x%2Fadmin", "7%20", "é", "%zz", "a\\b", "admin%3Fx", "%37", "+7", "07", "admin.", "*")
	}
	out := "/" + s.one("notes", "notes", "notes", "rpc", segment())
	for range s.IntN(3) {
		out += s.one("/", "/", "/", "//", "\\", "%2f") + segment()
	}
	if s.IntN(4) == 0 {
		out += "?" + s.one("do=purge", "do=list", "do=purge&do=list", "do=list&do=purge", "d%6f=purge", "DO=purge", "do=pur%67e", ";do=purge", "do", "do=purge#x", "%", "do[]=purge")
	}
	switch s.IntN(12) {
	case 0:
		out = s.one("https://", "http://", "HTTPS://") + s.host() + out
	case 1:
		out = s.one("", " ", "*", "//elsewhere.test", "notes/7") + out
	}
	return out
}

func (s spellings) host() string {
	if s.IntN(3) > 0 {
		return apptest.Host
	}
	return s.one("API.Notes.Test", "api.notes.test.", "api.notes.test:443", "api.notes.test:80", "elsewhere.test", "api.notes.test@elsewhere.test", "xapi.notes.test", "", "api.notes.test,elsewhere.test", "api.notes.test/x")
}

// body is a body with the fields that declare it.
func (s spellings) body() string {
	text := s.one(`{"jsonrpc":"2.0","id":1,"method":"read"}`, `{"jsonrpc":"2.0","id":1,"method":"admin"}`,
		`{"method":"admin","jsonrpc":"2.0","id":1,"method":"read"}`, `{"jsonrpc":"2.0","id":1,"meth\u006fd":"admin"}`, `{"jsonrpc":"2.0","id":1,"Method":"admin","method":"read"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"read"},{"jsonrpc":"2.0","id":2,"method":"admin"}]`, `{"jsonrpc":"2.0","id":1,"method":"read"}{"method":"admin"}`,
		"\ufeff"+`{"jsonrpc":"2.0","id":1,"method":"read"}`, `{"a":1}`, "", "GET /notes/admin HTTP/1.1\r\nHost: api.notes.test\r\n\r\n")
	media := "Content-Type: " + s.one("application/json", "application/json", "application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16") + "\r\n"
	chunked := fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(text), text)
	if text == "" {
		chunked = "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	}
	switch length := fmt.Sprintf("Content-Length: %d\r\n", len(text)); s.IntN(10) {
	case 0:
		return media + length + chunked
	case 1:
		return media + length + length + "\r\n" + text
	case 2:
		return media + fmt.Sprintf("Content-Length: +%d\r\n\r\n%s", len(text), text)
	case 3, 4:
		return media + chunked
	case 5:
		return media + "Transfer-Encoding: " + s.one("Chunked", "xchunked", "identity, chunked", " chunked", "chunked, chunked") + "\r\n\r\n" + "0\r\n\r\n"
	default:
		return media + length + "\r\n" + text
	}
}

// request is all of one request.
func (s spellings) request() string {
	method := s.one("GET", "GET", "GET", "POST", "POST", "get", "DELETE", "TRACE", "PRI")
	end := "\r\n"
	if s.IntN(40) == 0 {
		end = "\n"
	}
	out := method + " " + s.target() + " HTTP/1.1" + end + "Host: " + s.host() + "\r\n"
	if s.IntN(8) == 0 {
		out += s.one("X-HTTP-Method-Override: DELETE\r\n", "Host: elsewhere.test\r\n", "X-Original-URL: /notes/admin\r\n", " folded\r\n", "Authorization: Bearer mine\r\n",
			"Connection: Host\r\n", "Connection: Authorization\r\n", "Forwarded: host=elsewhere.test\r\n", "Transfer-Encoding : chunked\r\n")
	}
	if method == "POST" || s.IntN(10) == 0 {
		return out + s.body()
	}
	return out + "\r\n"
}

// Whatever reached the upstream, read again from its raw bytes, is the action
// that was judged; and nothing reached it that was not.
func TestWhatArrivesIsWhatWasJudged(t *testing.T) {
	k := apptest.New(t, apptest.Options{Services: []string{spelled}})
	seed := rand.Uint64()
	s := spellings{rand.New(rand.NewPCG(seed, 1))}
	t.Logf("seed %d", seed)
	var w *apptest.Wire
	for range 3500 { // one in some twenty-five gets through
		if w == nil {
			w = k.Tunnel(t, apptest.Authority)
		}
		_ = w.SetDeadline(time.Now().Add(time.Second)) // some wait for a body that never comes
		a := w.Ask(s.request())
		// What is left on a connection belongs to no request: a new one for what
		// cannot be told apart.
		if a.Err != nil || a.Status != 200 || a.Header.Get("Connection") == "close" {
			_ = w.Close()
			w = nil
		}
	}
	compareWithTrail(t, k, 100)
	k.Verify(t)
}

// compareWithTrail holds the upstream's requests against the intents that had
// an answer, one by one: a single client made them in order.
func compareWithTrail(t *testing.T, k *apptest.Kimbap, atLeast int) {
	t.Helper()
	var judged []apptest.Record
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
			}
		}
		return len(open) == 0
	})
	seen := k.Up.Requests()
	if len(seen) != len(judged) || len(seen) < atLeast {
		for _, r := range k.Records(t) {
			if r.Slot == "proxy" && r.Kind == "outcome" && r.Status == 0 {
				t.Logf("%+v", r)
			}
		}
		t.Fatalf("the upstream saw %d requests, %d were let through", len(seen), len(judged))
	}
	for i, r := range seen {
		action, err := reclassify(k, r)
		if err != nil || action != judged[i].Action || judged[i].Effect != "allow" {
			t.Errorf("judged %s (%s), arrived %q %v:\n%s%s", judged[i].Action, judged[i].Effect, action, err, r.Head, r.Body)
		}
		if got := r.Fields("Authorization"); len(got) != 1 || got[0] != "Bearer "+apptest.Key {
			t.Errorf("%d values of Authorization in\n%s", len(got), r.Line)
		}
	}
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
		if in.Body, err = classifier.ParseBody(r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"), r.Body); err == nil {
			m, err = k.App.Services().Table().Match(in)
		}
	}
	return m.Action, err
}

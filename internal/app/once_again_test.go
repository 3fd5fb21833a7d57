package app_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// stranger is a service with no credential stored, nowhere one whose host may not be reached.
const stranger = `name: stranger
version: 1.0.0
description: For tests
base_url: https://api.stranger.test
auth: {type: bearer, credential_ref: stranger.token}
actions:
  write: {description: Write, method: POST, path: /notes, risk: {level: low}}
`

const nowhere = `name: nowhere
version: 1.0.0
description: For tests
base_url: https://169.254.169.254
auth: {type: none}
actions:
  write: {description: Write, method: POST, path: /notes, risk: {level: low}}
`

// What failed before anything was sent is done when it is asked for again under its key.
func TestWhatWasNotSentIsDoneUnderTheSameKey(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{
		Services: []string{apptest.Notes, stranger, nowhere},
		Policy:   "version: 1\nrules:\n  - {name: closed, match: {action: notes.create-note}, then: deny}\n  - {name: rest, match: {action: \"*\"}, then: allow}\n",
	})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	do := func(action, key string) heard {
		return c.ask(t, agent, "POST", "/v1/actions/"+action+":execute", `{"input":{"text":"x"}}`, "Idempotency-Key", key)
	}
	bare := func(action string) heard {
		return c.ask(t, agent, "POST", "/v1/actions/"+action+":execute", `{}`, "Idempotency-Key", action)
	}
	if got := do("notes/create-note", "k1"); got.Status != 403 || got.problem(t).Code != runtime.CodeForbidden {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	for action, code := range map[string]runtime.Code{
		"notes/create-note": runtime.CodeInvalidInput, "notes/nothing": runtime.CodeUnknownAction,
		"stranger/write": runtime.CodeNoCredential, "nowhere/write": runtime.CodeEgressDenied,
	} {
		for range 2 {
			if got := bare(action); got.problem(t).Code != code || got.Header.Get("Idempotent-Replayed") != "" {
				t.Errorf("%s: %d %s, replayed %q", action, got.Status, got.Body, got.Header.Get("Idempotent-Replayed"))
			}
		}
	}
	k.Write(t, "policy.yaml", "version: 1\nrules:\n  - {name: open, match: {action: \"*\"}, then: allow}\n")
	apptest.Within(t, 20*time.Second, "the new policy", func() bool { return do("notes/create-note", "k1").Status == 200 })
	before := len(k.Up.Requests())
	if got := do("notes/create-note", "k1"); got.Status != 200 || got.Header.Get("Idempotent-Replayed") == "" || len(k.Up.Requests()) != before {
		t.Errorf("once it was done: %d %s", got.Status, got.Body)
	}
}

const tooMany = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"

// What an upstream has not done, since there were too many, is asked of it again.
func TestWhatWasTooMuchIsSentAgainUnderItsKey(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	k := apptest.New(t, apptest.Options{Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
		"/notes": func(c *servicestest.Conn, r *servicestest.Request) bool {
			if c.ReadBody(r) != nil {
				return false
			}
			if seen.Add(1) == 1 {
				return c.Send(tooMany)
			}
			return c.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		},
	}}})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	for _, want := range []int{429, 200, 200} {
		got := c.ask(t, agent, "POST", "/v1/actions/notes/create-note:execute", `{"input":{"text":"x"}}`, "Idempotency-Key", "k1")
		if got.Status != want {
			t.Errorf("%d %s, want %d", got.Status, got.Body, want)
		}
	}
	if n := seen.Load(); n != 2 {
		t.Errorf("it was sent %d times", n)
	}
}

// What was sent is not sent again for what came after it: its redirect is refused,
// held for a person or too much, with the same errors as the request itself would be.
func TestWhatWasSentIsNotDoneTwiceForItsRedirect(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]string{
		"denied": "then: deny", "held": "then: require_approval", "of another host": "then: allow", "over a limit": "then: allow",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := "/notes/7"
			if name == "of another host" {
				to = "https://evil.test/"
			}
			k := apptest.New(t, apptest.Options{
				Policy: fmt.Sprintf("version: 1\nrules:\n  - {name: reads, match: {action: notes.get-note}, %s}\n  - {name: rest, match: {action: \"*\"}, then: allow}\n", then),
				Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
					"/notes": func(c *servicestest.Conn, r *servicestest.Request) bool {
						return c.ReadBody(r) == nil && c.Send("HTTP/1.1 303 See Other\r\nLocation: "+to+"\r\nContent-Length: 0\r\n\r\n")
					},
					"/notes/7": func(c *servicestest.Conn, _ *servicestest.Request) bool { return c.Send(tooMany) },
				}},
			})
			c := newAPI(t, k)
			agent, _ := tokenOf(t, k, app.TokenGrant{})
			posts := func() (n int) {
				for _, r := range k.Up.Requests() {
					if strings.HasPrefix(r.Line, "POST ") {
						n++
					}
				}
				return n
			}
			var answers []heard
			for range 3 {
				answers = append(answers, c.ask(t, agent, "POST", "/v1/actions/notes/create-note:execute", `{"input":{"text":"x"}}`, "Idempotency-Key", "k1"))
			}
			if n := posts(); n != 1 {
				t.Errorf("it was sent %d times: %+v", n, answers)
			}
			if answers[0].Status < 400 || answers[2].Status != answers[0].Status || answers[2].Header.Get("Idempotent-Replayed") == "" {
				t.Errorf("%+v", answers)
			}
		})
	}
}

// Nor is it for the page after it.
func TestWhatWasSentIsNotDoneTwiceForItsNextPage(t *testing.T) {
	t.Parallel()
	var posts atomic.Int32
	k := apptest.New(t, apptest.Options{
		Services: []string{strings.Replace(apptest.Notes, "method: POST, path: /notes,", "method: POST, path: /notes, pagination: {type: cursor, next: .next, param: text},", 1)},
		Policy:   "version: 1\nrules:\n  - {name: more, match: {action: notes.create-note}, when: 'args.text == \"more\"', then: deny}\n  - {name: rest, match: {action: \"*\"}, then: allow}\n",
		Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{"/notes": func(c *servicestest.Conn, r *servicestest.Request) bool {
			posts.Add(1)
			return c.ReadBody(r) == nil && c.Send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"next\":\"more\"}")
		}}},
	})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	for range 3 {
		got := c.ask(t, agent, "POST", "/v1/actions/notes/create-note:execute", `{"input":{"text":"x"},"all":true}`, "Idempotency-Key", "k1")
		if got.Status != 403 || got.problem(t).Rule != "more" {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	if n := posts.Load(); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}

// What the service refuses with 429 was not done, also where all pages were asked for.
func TestAFirstPageOfTooManyIsAskedForAgain(t *testing.T) {
	t.Parallel()
	var posts atomic.Int32
	k := apptest.New(t, apptest.Options{
		Services: []string{strings.Replace(apptest.Notes, "method: POST, path: /notes,", "method: POST, path: /notes, pagination: {type: cursor, next: .next, param: text},", 1)},
		Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{"/notes": func(c *servicestest.Conn, r *servicestest.Request) bool {
			if c.ReadBody(r) != nil {
				return false
			}
			if posts.Add(1) == 1 {
				return c.Send(tooMany)
			}
			return c.Send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"next\":\"\"}")
		}}},
	})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	for _, want := range []int{429, 200} {
		got := c.ask(t, agent, "POST", "/v1/actions/notes/create-note:execute", `{"input":{"text":"x"},"all":true}`, "Idempotency-Key", "k1")
		if got.Status != want {
			t.Errorf("%d %s, want %d (replayed %q, sent %d)", got.Status, got.Body, want, got.Header.Get("Idempotent-Replayed"), posts.Load())
		}
	}
}

// A 429 says that the attempt that it answers was not done. Of one before it that was sent
// again by itself, since it was not answered or was answered by a gateway, it says nothing.
func TestATooManyAfterAnAttemptOfUnknownFateIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first string // how the upstream ends the first attempt
		sent  int32  // of three requests under one key
	}{
		"not answered":          {"", 2},
		"answered by a gateway": {"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", 2},
		"too many as well":      {tooMany, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen atomic.Int32
			k := apptest.New(t, apptest.Options{
				Services: []string{strings.Replace(apptest.Notes, "method: POST, path: /notes,", "method: POST, path: /notes, idempotent: true, retry: {attempts: 2, on: [429, 502]},", 1)},
				Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{"/notes": func(conn *servicestest.Conn, r *servicestest.Request) bool {
					if conn.ReadBody(r) != nil {
						return false
					}
					switch seen.Add(1) {
					case 1:
						return c.first != "" && conn.Send(c.first)
					case 2:
						return conn.Send(tooMany)
					}
					return conn.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}}},
			})
			api := newAPI(t, k)
			agent, _ := tokenOf(t, k, app.TokenGrant{})
			var got []int
			for range 3 {
				got = append(got, api.ask(t, agent, "POST", "/v1/actions/notes/create-note:execute", `{"input":{"text":"x"}}`, "Idempotency-Key", "k1").Status)
			}
			if n := seen.Load(); n != c.sent || got[0] != 429 || (got[2] == 429) != (c.sent == 2) {
				t.Errorf("it was sent %d times, want %d: %v", n, c.sent, got)
			}
		})
	}
}

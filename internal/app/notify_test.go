package app_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// told is a kimbap with a webhook that arrives, and stores its key.
func told(t *testing.T, more string) *apptest.Kimbap {
	t.Helper()
	return apptest.New(t, apptest.Options{
		Policy: askWrites, Resolve: []string{"hooks.test:443", "slack.com:443"},
		Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{"/in": func(c *servicestest.Conn, r *servicestest.Request) bool {
			return c.ReadBody(r) == nil && c.Send("HTTP/1.1 204 No Content\r\n\r\n")
		}}},
		Config: "approval:\n  notify:\n    - {type: webhook, url: https://hooks.test/in, secret: notify.key}\n" + more,
		Prepare: func(k *apptest.Kimbap) {
			for name, host := range map[string]string{"notify.key": "hooks.test:443", "notify.slack": "slack.com:443"} {
				if _, _, err := k.App.SetSecret(t.Context(), name, runtime.NewSecret("key-of-"+name+"-5e77"), app.SecretOptions{Hosts: []string{host}}); err != nil {
					t.Fatal(err)
				}
			}
		},
	})
}

// hooked are the messages that arrived at the webhook.
func hooked(k *apptest.Kimbap) (out []string) {
	for _, r := range k.Up.Requests() {
		if r.Target == "/in" && r.Whole {
			out = append(out, string(r.Head)+string(r.Body))
		}
	}
	return out
}

// A message that has arrived means that somebody can answer: the request is held,
// and executed when they say yes. What it says is what is asked, and no more.
func TestToldRequestIsHeld(t *testing.T) {
	t.Parallel()
	k := told(t, "")
	person := k.Open(t, "")
	got := make(chan apptest.Answer, 1)
	client := k.Client(t, "")
	go func() { got <- apptest.Send(t, client, write, `{"text":"the body stays here"}`) }()
	id := waiting(t, person)
	apptest.Eventually(t, "the message", func() bool { return len(hooked(k)) == 1 })
	message := hooked(k)[0]
	for _, want := range []string{"Kimbap-Signature: v1=", "notes.create-note", "POST " + apptest.Authority + "/notes", "kimbap approve show apr_"} {
		if !strings.Contains(message, want) {
			t.Errorf("%q is not in\n%s", want, message)
		}
	}
	for _, hidden := range []string{"the body stays here", apptest.Key, "key-of-", "approve accept"} {
		if strings.Contains(message, hidden) {
			t.Errorf("%q is in\n%s", hidden, message)
		}
	}
	apptest.Eventually(t, "that it arrived to be known", func() bool {
		watched, err := app.Watched(k.App, t.Context())
		return err == nil && watched
	})
	select {
	case a := <-got: // on a slow machine the message came after the tenth of a second that it has
		if a.Problem.Code != "approval_pending" {
			t.Fatalf("%d %+v", a.Status, a.Problem)
		}
		go func() { got <- apptest.Send(t, client, write, `{"text":"the body stays here"}`) }()
	case <-time.After(200 * time.Millisecond):
	}
	if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.Status != http.StatusOK {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
}

// A notifier that is down holds nothing up: the question stays, can be decided,
// and status and log say that nobody was told, without the key.
func TestNotifierThatIsDownHoldsNothingUp_CR012(t *testing.T) {
	k := apptest.New(t, apptest.Options{
		Policy: askWrites, Resolve: []string{"slack.com:443"},
		Config: "approval: {notify: [{type: slack, token: notify.slack, channel: C1}]}\n",
	})
	person := k.Open(t, "")
	start := time.Now()
	a := k.Do(t, write, `{"text":"one"}`)
	if took := time.Since(start); a.Problem.Code != "approval_pending" || took > 5*time.Second {
		t.Errorf("%+v after %s", a.Problem, took)
	}
	apptest.Eventually(t, "status to say so", func() bool {
		s, err := person.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(s.Proxies) == 1 && len(s.Proxies[0].Notify) == 1 && strings.Contains(s.Proxies[0].Notify[0].Problem, "nothing is stored as notify.slack")
	})
	if !strings.Contains(k.Log.String(), "nobody was told of an approval") {
		t.Error("the log does not say so")
	}
	if _, err := person.Accept(t.Context(), a.Problem.Approval, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if a := k.Do(t, write, `{"text":"one"}`); a.Status != http.StatusOK {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	if err := k.App.Health(t.Context()); err != nil {
		t.Errorf("health: %v", err)
	}
}

// CR-012: the same for one that is there and does not take its messages: it says
// nothing at all, it fails, or its name leads nowhere.
func TestNotifiersThatFailHoldNothingUp_CR012(t *testing.T) {
	hang := make(chan struct{})
	k := apptest.New(t, apptest.Options{
		Policy: askWrites, Resolve: []string{"hooks.test:443"},
		Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
			"/hang": func(c *servicestest.Conn, r *servicestest.Request) bool { <-hang; return false },
			"/fail": func(c *servicestest.Conn, r *servicestest.Request) bool {
				return c.ReadBody(r) == nil && c.Send("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
			},
		}},
		Config: "approval:\n  notify:\n    - {type: webhook, url: https://hooks.test/hang, secret: notify.key}\n" +
			"    - {type: webhook, url: https://hooks.test/fail, secret: notify.key}\n    - {type: webhook, url: https://nowhere.invalid/in, secret: notify.key}\n",
		Prepare: func(k *apptest.Kimbap) {
			hosts := app.SecretOptions{Hosts: []string{"hooks.test:443", "nowhere.invalid:443"}}
			if _, _, err := k.App.SetSecret(t.Context(), "notify.key", runtime.NewSecret("key-of-the-hook-5e77-and-more"), hosts); err != nil {
				t.Fatal(err)
			}
		},
	})
	defer close(hang)
	person := k.Open(t, "")
	start := time.Now()
	a := k.Do(t, write, `{"text":"one"}`)
	if took := time.Since(start); a.Problem.Code != "approval_pending" || took > 5*time.Second {
		t.Errorf("%+v after %s", a.Problem, took)
	}
	k.Up.Await(t, func(all []servicestest.Request) bool { return len(all) >= 2 }) // both were told
	start = time.Now()
	if list, err := person.ListApprovals(t.Context(), false); err != nil || len(list) != 1 || list[0].ID != a.Problem.Approval {
		t.Errorf("%+v %v", list, err)
	}
	if _, err := person.Accept(t.Context(), a.Problem.Approval, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if a := k.Do(t, write, `{"text":"one"}`); a.Status != http.StatusOK || time.Since(start) > 5*time.Second {
		t.Errorf("%d %+v after %s", a.Status, a.Problem, time.Since(start))
	}
}

// AP-011: nothing that comes to a listener decides, signed or not: the pages are
// read only, and decisions are made with kimbap itself.
func TestAP011NothingOnTheWireDecides(t *testing.T) {
	t.Parallel()
	k := told(t, "  hold: 0s\n")
	person := k.Open(t, "")
	asked := k.Do(t, write, `{"text":"one"}`)
	id := asked.Problem.Approval
	apptest.Eventually(t, "the message", func() bool { return len(hooked(k)) == 1 })
	const body = `{"type":"block_actions","action":"approve"}`
	for _, line := range []string{
		"POST /kimbap/approvals/" + id, "PUT /kimbap/approvals/" + id, "POST /kimbap/approvals/" + id + "/accept",
		"GET /kimbap/approvals/" + id + "?decision=accept", "GET /kimbap/approvals/" + id + "/accept", "POST /slack/actions", "POST /telegram",
		"DELETE /kimbap/approvals/" + id,
	} {
		for _, fields := range []string{
			"", "X-Slack-Signature: v0=" + strings.Repeat("0", 64) + "\r\nX-Slack-Request-Timestamp: 1\r\n",
			"X-Telegram-Bot-Api-Secret-Token: x\r\n", "Kimbap-Signature: v1=00\r\nKimbap-Timestamp: 1\r\n", "Origin: https://evil.test\r\n",
		} {
			text := line + " HTTP/1.1\r\nHost: " + k.Proxy + "\r\n" + fields
			if !strings.HasPrefix(line, "GET") {
				text += "Content-Type: application/json\r\nContent-Length: 43\r\n\r\n" + body
			} else {
				text += "\r\n"
			}
			w := k.Dial(t)
			a := w.Ask(text)
			_ = w.Close()
			if a.Status == http.StatusOK && !strings.HasPrefix(line, "GET /kimbap/approvals/"+id+"?") {
				t.Errorf("%s: %d %s", line, a.Status, a.Body)
			}
		}
	}
	list, err := person.ListApprovals(t.Context(), false)
	if err != nil || len(list) != 1 || list[0].State != "pending" {
		t.Errorf("%+v %v", list, err)
	}
}

// SS-017: a notification goes where the owner said, through the guard of every other
// connection: to this machine and to a cloud's metadata service it is not even dialled.
// A redirect there is not followed either (webhook's TestWhatCannotBeMendedIsNotSentAgain).
func TestNotificationsGoThroughTheGuard_SS017(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var dialled atomic.Int64
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	var config strings.Builder
	config.WriteString("egress: {private: deny}\napproval:\n  notify:\n")
	hosts := []string{"127.0.0.1:" + port, "[::ffff:127.0.0.1]:" + port, "localhost:" + port, "169.254.169.254", "10.0.0.1"}
	for _, host := range hosts {
		fmt.Fprintf(&config, "    - {type: webhook, url: 'https://%s/in', secret: notify.key}\n", host)
	}
	fmt.Fprintf(&config, "    - {type: smtp, server: 'localhost:%s', from: a@x.test, to: [b@x.test]}\n", port)
	k := apptest.New(t, apptest.Options{Config: config.String()})
	bound := append(slices.Clone(hosts), "169.254.169.254:443", "10.0.0.1:443")
	if _, _, err := k.App.SetSecret(t.Context(), "notify.key", runtime.NewSecret("a key of thirty-two letters, or so"), app.SecretOptions{Hosts: bound}); err != nil {
		t.Fatal(err)
	}
	results, err := k.App.TestNotify(t.Context())
	if err != nil || len(results) != len(hosts)+1 {
		t.Fatalf("%+v %v", results, err)
	}
	for i, r := range results {
		if r.Sent || !strings.Contains(r.Problem, "may not be reached") && !strings.Contains(r.Problem, "is kimbap itself") {
			t.Errorf("%d %s: %+v", i, r.Sender, r)
		}
	}
	if n := dialled.Load(); n > 0 {
		t.Errorf("%d connections to this machine", n)
	}
}

// What a process could tell nobody of before it ended, the next one that serves tells at its
// start, once; and then nobody any more.
func TestWhatNobodyWasToldOfIsTold(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	down.Store(true)
	id := ""
	k := apptest.New(t, apptest.Options{
		Policy: askWrites, Resolve: []string{"hooks.test:443"},
		Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{"/in": func(c *servicestest.Conn, r *servicestest.Request) bool {
			if err := c.ReadBody(r); err != nil || down.Load() {
				return false
			}
			return c.Send("HTTP/1.1 204 No Content\r\n\r\n")
		}}},
		Config: "approval:\n  notify:\n    - {type: webhook, url: https://hooks.test/in, secret: notify.key}\n",
		Prepare: func(k *apptest.Kimbap) {
			if _, _, err := k.App.SetSecret(t.Context(), "notify.key", runtime.NewSecret("key-of-the-hook-5e77-and-more"), app.SecretOptions{Hosts: []string{"hooks.test:443"}}); err != nil {
				t.Fatal(err)
			}
			a := apptest.OpenWith(t, apptest.OptionsOver(k.Dir, "", k.Log, false))
			err := a.Pipeline().Do(t.Context(), &runtime.Request{
				Surface: runtime.SurfaceCall, Caller: a.Local(), Action: "notes.create-note", Args: runtime.Args{"text": "one"},
			}, &app.Answer{})
			id = runtime.AsError(err).ApprovalID
			if err := a.Close(); err != nil || id == "" {
				t.Fatalf("asked as %q: %v", id, err)
			}
			down.Store(false)
		},
	})
	told := func() (n int) {
		for _, message := range hooked(k) {
			if strings.Contains(message, id) {
				n++
			}
		}
		return n
	}
	apptest.Eventually(t, "the question to be told of", func() bool { return told() == 2 }) // once in vain
	apptest.Eventually(t, "that to be known", func() bool {
		left, err := app.Untold(k.App, t.Context())
		return err == nil && left == 0
	})
	if next := k.Open(t, "run"); app.TellLeft(next, t.Context()) != 0 {
		t.Error("the next process tells of it again")
	}
}

package notify_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/approval/notify"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

// courier is a sender that does as it is told.
type courier struct {
	mu   sync.Mutex
	got  []notify.Message
	at   []time.Time
	fail func(try int) error // may be nil
}

func (c *courier) Name() string { return "courier" }

func (c *courier) Send(_ context.Context, m notify.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, time.Now())
	if c.fail != nil {
		if err := c.fail(len(c.at)); err != nil {
			return err
		}
	}
	c.got = append(c.got, m)
	return nil
}

func (c *courier) messages() []notify.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]notify.Message{}, c.got...)
}

func post(t *testing.T, c *courier, change func(*notify.Options)) *notify.Post {
	t.Helper()
	var n atomic.Int64 // each sender makes its own messages
	o := notify.Options{Senders: []notify.Sender{c}, Clock: time.Now, NewID: func() string { return fmt.Sprint("msg_", n.Add(1)) }}
	if change != nil {
		change(&o)
	}
	p, err := notify.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(t.Context()) })
	return p
}

func question(n int) approval.Notice {
	return approval.Notice{
		ID: fmt.Sprintf("apr_%04d", n), Tenant: "default", Action: "github.merge", Risk: "high", Rule: "merges", Agent: "claude",
		Principal: "token:1", Surface: "proxy", Request: "PUT api.github.com:443/repos/a/b", Expires: time.Now().Add(time.Hour),
	}
}

// One question is one message, and whoever asked learns that it arrived.
func TestQuestionIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &courier{}
		reached := ""
		p := post(t, c, func(o *notify.Options) {
			o.Link = "https://console.test/approvals/{id}"
			o.Reached = func(_ context.Context, tenant runtime.Tenant, sender string) { reached = string(tenant) + " " + sender }
		})
		<-p.Tell(question(1))
		if reached != "default courier" {
			t.Errorf("reached %q", reached)
		}
		m := c.messages()
		if len(m) != 1 || m[0].Link != "https://console.test/approvals/apr_0001" {
			t.Fatalf("%+v", m)
		}
		for _, want := range []string{"claude asks for github.merge (high)", "merges", "PUT api.github.com:443/repos/a/b", "kimbap approve show apr_0001"} {
			if !strings.Contains(m[0].Text(), want) {
				t.Errorf("%q is not in\n%s", want, m[0].Text())
			}
		}
		if strings.Contains(m[0].Text(), "approve accept") {
			t.Error("the message tells the command that accepts")
		}
	})
}

// What waits in a tenant is found there alone, and a message leads to it.
func TestAMessageLeadsToItsTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &courier{}
		p := post(t, c, nil)
		for n := range 3 {
			q := question(n)
			q.Tenant = "acme"
			p.Tell(q)
			synctest.Wait() // the first goes out by itself
		}
		<-p.Tell(question(3))
		messages := c.messages()
		if len(messages) != 3 {
			t.Fatalf("%d messages", len(messages))
		}
		for _, m := range messages {
			text, one := m.Text(), len(m.Notices) == 1
			want := []string{"tenant   acme", "kimbap --tenant acme approve list"}
			switch {
			case m.Notices[0].Tenant == runtime.DefaultTenant:
				want = []string{"kimbap approve show apr_0003"}
				if strings.Contains(text, "tenant") {
					t.Errorf("of the default one:\n%s", text)
				}
			case one:
				want[1] = "kimbap --tenant acme approve show apr_0000"
			}
			for _, line := range want {
				if !strings.Contains(text, line) {
					t.Errorf("%q is not in\n%s", line, text)
				}
			}
		}
	})
}

// A message that some did not get was sent: nobody gets it twice, and it is said.
func TestAMessageThatSomeDidNotGetIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &courier{fail: func(int) error { return &notify.Partly{Err: errors.New("not for bob")} }}
		var done []string
		p := post(t, c, func(o *notify.Options) {
			o.Done = func(_ context.Context, _ runtime.Tenant, ids []string) { done = append(done, ids...) }
		})
		<-p.Tell(question(1))
		synctest.Wait()
		s := p.Status()[0]
		if len(c.at) != 1 || len(done) != 1 || s.Sent != 1 || s.Failed != 0 || s.Problem != "" || s.Missed != "not for bob" {
			t.Errorf("%d tries, done %q, %+v", len(c.at), done, s)
		}
		c.mu.Lock()
		c.fail = nil
		c.mu.Unlock()
		<-p.Tell(question(2))
		synctest.Wait()
		if s := p.Status()[0]; s.Sent != 2 || s.Missed != "" {
			t.Errorf("%+v", s)
		}
	})
}

// AP-015: a thousand questions are a few messages; none is missing from them.
func TestAP015ManyQuestionsAreADigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &courier{}
		p := post(t, c, nil)
		for n := range 1000 {
			p.Tell(question(n))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		messages, told := c.messages(), 0
		for _, m := range messages {
			told += len(m.Notices)
			if len(m.Lines) > 20 {
				t.Errorf("a message of %d lines", len(m.Lines))
			}
		}
		if len(messages) > 3 || told != 1000 {
			t.Errorf("%d messages about %d questions", len(messages), told)
		}
	})
}

// A sender that fails is tried again, slower each time and not for ever; the
// failure is seen, and the next message starts afresh.
func TestRetriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		c := &courier{fail: func(int) error {
			if down {
				return errors.New("no route")
			}
			return nil
		}}
		var seen []notify.Status
		p := post(t, c, func(o *notify.Options) { o.Changed = func(s notify.Status) { seen = append(seen, s) } })
		told := p.Tell(question(1))
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case <-told:
			t.Error("nobody was reached, and it says so")
		default:
		}
		if len(c.at) != 5 {
			t.Fatalf("%d tries", len(c.at))
		}
		for i, least := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second} {
			if gap := c.at[i+1].Sub(c.at[i]); gap < least || gap > 2*least {
				t.Errorf("try %d came after %s", i+2, gap)
			}
		}
		if len(seen) != 1 || seen[0].Failed != 1 || seen[0].Problem != "no route" {
			t.Errorf("%+v", seen)
		}
		down = false
		<-p.Tell(question(2))
		if s := p.Status()[0]; s.Sent != 1 || s.Failed != 1 || s.Problem != "" {
			t.Errorf("%+v", s)
		}
	})
}

// What the other side says about when, and about never, is kept to.
func TestRefusalsAndTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &courier{fail: func(try int) error {
			if try == 1 {
				return &notify.Later{Err: errors.New("busy"), After: 30 * time.Second}
			}
			return &notify.Refused{Err: errors.New("no such channel")}
		}}
		p := post(t, c, nil)
		p.Tell(question(1))
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(c.at) != 2 || c.at[1].Sub(c.at[0]) != 30*time.Second || p.Status()[0].Problem != "no such channel" {
			t.Errorf("%v, %+v", c.at, p.Status())
		}
	})
}

// A sender that hangs costs Tell nothing; a full queue drops and counts.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		c := &courier{fail: func(int) error { <-hang; return nil }}
		p := post(t, c, func(o *notify.Options) { o.Queue = 10 })
		p.Tell(question(0))
		synctest.Wait() // it is on its way
		start := time.Now()
		for n := range 100 {
			p.Tell(question(n))
		}
		if time.Since(start) != 0 {
			t.Error("Tell waited")
		}
		if s := p.Status()[0]; s.Dropped != 90 {
			t.Errorf("%+v", s)
		}
		close(hang)
	})
}

// At the end what waits is sent, with one try, and no longer than may be.
func TestCloseSendsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &courier{}
		p := post(t, c, nil)
		p.Tell(question(1))
		synctest.Wait()
		p.Tell(question(2)) // in the gap
		if err := p.Close(t.Context()); err != nil || len(c.messages()) != 2 {
			t.Errorf("%d messages, %v", len(c.messages()), err)
		}
		p.Tell(question(3))
		if len(c.messages()) != 2 {
			t.Error("sent after the end")
		}
		dead := &courier{fail: func(int) error { return errors.New("down") }}
		q := post(t, dead, nil)
		q.Tell(question(1))
		start := time.Now()
		if err := q.Close(t.Context()); err != nil || time.Since(start) > time.Second || len(dead.at) > 2 {
			t.Errorf("%v after %s, %d tries", err, time.Since(start), len(dead.at))
		}
	})
}

// Tenants do not see each other's questions, and a panic ends nothing.
func TestTenantsApartAndPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &courier{fail: func(try int) error {
			if try == 1 {
				panic("boom")
			}
			return nil
		}}
		p := post(t, c, nil)
		p.Tell(question(1))
		synctest.Wait()
		for n := range 4 {
			q := question(n)
			q.Tenant = runtime.Tenant(fmt.Sprint("tenant", n%2))
			p.Tell(q)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, m := range c.messages() {
			for _, n := range m.Notices {
				if n.Tenant != m.Notices[0].Tenant {
					t.Errorf("%s and %s in one message", n.Tenant, m.Notices[0].Tenant)
				}
			}
		}
		if s := p.Status()[0]; s.Sent != 2 || s.Failed != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestIncompleteOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]notify.Options{
		"nothing": {}, "negative": {Senders: []notify.Sender{&courier{}}, Clock: time.Now, NewID: func() string { return "" }, Tries: -1},
	} {
		if _, err := notify.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A question is done once all senders have done with it, if one has told somebody; not while one
// tries yet, not when nobody was told, and not when the end of the process cut it off.
func TestWhenAQuestionIsDone(t *testing.T) {
	well := func(int) error { return nil }
	down := func(int) error { return errors.New("no route") }
	slow := func(try int) error {
		if try < 3 {
			return errors.New("no route")
		}
		return nil
	}
	for name, of := range map[string]struct {
		senders []func(int) error
		closed  bool
		at      time.Duration // -1: never
	}{
		"one":                   {[]func(int) error{well}, false, 0},
		"none is reached":       {[]func(int) error{down, down}, false, -1},
		"one of two":            {[]func(int) error{well, down}, false, 7500 * time.Millisecond},
		"the later of two":      {[]func(int) error{well, slow}, false, 1500 * time.Millisecond},
		"one, at the end":       {[]func(int) error{well}, true, 0},
		"one of two at the end": {[]func(int) error{well, down}, true, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var done []string
				var at time.Time
				p := post(t, &courier{fail: of.senders[0]}, func(o *notify.Options) {
					for _, fail := range of.senders[1:] {
						o.Senders = append(o.Senders, &courier{fail: fail})
					}
					o.Done = func(_ context.Context, tenant runtime.Tenant, ids []string) {
						mu.Lock()
						defer mu.Unlock()
						done, at = append(done, string(tenant)+" "+strings.Join(ids, " ")), time.Now()
					}
				})
				begun := time.Now()
				p.Tell(question(1))
				if of.closed {
					_ = p.Close(t.Context())
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if of.at < 0 {
					if len(done) > 0 {
						t.Errorf("done: %q", done)
					}
					return
				}
				if len(done) != 1 || done[0] != "default apr_0001" || at.Sub(begun) < of.at {
					t.Errorf("%q after %s, want one after %s", done, at.Sub(begun), of.at)
				}
			})
		})
	}
}

package console

import (
	"crypto/sha256"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// There are only so many sessions, and the oldest makes room; none outlives its time.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := newSessions(func() time.Time { return now })
	of := func(value string) *session {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Cookie", "kimbap-console="+value)
		return s.of(r, "kimbap-console")
	}
	var values []string
	for range maxSessions + 1 {
		now = now.Add(time.Second)
		values = append(values, s.begin(runtime.Caller{}, strconv.Itoa(len(values))))
	}
	if len(s.have) != maxSessions || of(values[0]) != nil || of(values[1]) == nil {
		t.Errorf("%d sessions, the first %v, the second %v", len(s.have), of(values[0]), of(values[1]))
	}
	now = now.Add(sessionLife - time.Second)
	if of(values[maxSessions]) == nil {
		t.Error("the last one has ended before its time")
	}
	if now = now.Add(time.Second); of(values[maxSessions]) != nil || len(s.have) > 0 {
		t.Error("the last one has outlived its time")
	}
}

// Who signs in on and on ends sessions of its own, and of nobody else.
func TestSessionsOfOneEndThoseOfNobodyElse(t *testing.T) {
	t.Parallel()
	s := newSessions(time.Now)
	other := s.begin(runtime.Caller{}, "other")
	for range maxSessions + 1 {
		s.begin(runtime.Caller{}, "eager")
	}
	if len(s.have) != ownSessions+1 || s.have[sha256.Sum256([]byte(other))] == nil {
		t.Errorf("%d sessions, of the other one %v", len(s.have), s.have[sha256.Sum256([]byte(other))])
	}
}

// A link opens once, and only the newest does.
func TestOnlyTheNewestLinkOpens(t *testing.T) {
	t.Parallel()
	s := newSessions(time.Now)
	if s.redeem("") {
		t.Error("nothing opens before there is a link")
	}
	old, next := s.invite(), s.invite()
	if s.redeem(old) || !s.redeem(next) || s.redeem(next) || s.redeem("") {
		t.Error("another than the newest opens, or that not once")
	}
}

// A session that was begun in the evening, and a link, are over in the morning: a machine that slept
// makes neither longer.
func TestSessionsAndLinksEndWhileAMachineSleeps(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newSessions(func() time.Time { return now })
	value, code := s.begin(runtime.Caller{}, "one"), s.invite()
	now = runtimetest.Asleep(now, sessionLife)
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Cookie", "kimbap-console="+value)
	if s.of(r, "kimbap-console") != nil {
		t.Error("the session lives on")
	}
	if s.redeem(code) || !s.stale() {
		t.Error("the link opens")
	}
}

// A browser that is told how long a cookie lasts keeps it on its disk, where other programs of the
// user read it. This one is to be forgotten with the window; at a sign-out it goes at once.
func TestNoBrowserIsToldToKeepASession(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		c := &Console{o: Options{Base: "/somewhere/", Secure: secure}}
		if text := c.cookie("value").String(); strings.Contains(text, "Max-Age") || strings.Contains(text, "Expires") {
			t.Errorf("signed in: %s", text)
		}
		if text := c.cookie("").String(); !strings.Contains(text, "Max-Age=0") {
			t.Errorf("signed out: %s", text)
		}
	}
}

// After a sign-in one goes on to a page of the console, never to one of somebody else.
func TestNextIsAPageOfOurs(t *testing.T) {
	t.Parallel()
	c := &Console{o: Options{Base: "/console/"}}
	for name, want := range map[string]string{
		"approvals/apr_1": "approvals/apr_1", "trail": "trail", "trail?kind=refusal": "trail?kind=refusal",
		"trail?a=b\r\nc://evil.test/?d": "trail?a=b%0D%0Ac%3A%2F%2Fevil.test%2F%3Fd", "trail?%zz": "trail", "trail//evil.test?a=b": "approvals", "trail/..?a": "approvals", "tokens": "tokens", "": "approvals",
		"//evil.test": "approvals", "https://evil.test": "approvals", "approvals//evil.test": "approvals",
		"approvals/%2e%2e/%2e%2e/v1": "approvals", "approvals/a;b": "approvals", "approvals/a\r\nb": "approvals", "approvals/a&code=b": "approvals", "approvals/\t/evil.test": "approvals",
		"approvals/../../v1": "approvals", `approvals\evil`: "approvals", "approvalsx": "approvals", "approvals/a?b": "approvals",
	} {
		if got := c.next(name); got != want {
			t.Errorf("%q leads to %q", name, got)
		}
	}
}

// Words for a distance in time.
func TestWithin(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		30 * time.Second: "in 30 s", -90 * time.Second: "1 min ago", 7*time.Hour + 5*time.Minute: "in 7 h 05 min", -72 * time.Hour: "3 days ago",
	} {
		if got := within(d); got != want {
			t.Errorf("%v: %q, not %q", d, got, want)
		}
	}
}

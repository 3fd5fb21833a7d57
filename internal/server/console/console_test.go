package console

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
)

// desk lets everybody in and shows nothing; what a test sets happens first.
type desk struct {
	Desk
	enter, note, tokens func() error
	waiting             []Approval
	records             func(f Filter, after string) []Record
	have                []Token
	token               string // by which everybody decides; "": as the owner
	question            Question
	refuses             error // of a decision
}

func (d *desk) Enter(context.Context, runtime.Caller) (runtime.Principal, error) {
	return runtime.Principal{ID: "local:1", TokenID: d.token, Tenant: runtime.DefaultTenant, Kind: runtime.KindOperator}, did(d.enter)
}
func (d *desk) Note(context.Context, runtime.Principal, string, string) error { return did(d.note) }
func (d *desk) Tokens(context.Context, runtime.Principal) ([]Token, error) {
	return d.have, did(d.tokens)
}
func (d *desk) Decided(context.Context, runtime.Principal, int) ([]Approval, error) {
	return nil, nil
}
func (d *desk) Standing(context.Context, runtime.Principal) ([]Standing, error) { return nil, nil }
func (d *desk) Waiting(context.Context, runtime.Principal, int, time.Duration) ([]Approval, error) {
	return d.waiting, nil
}
func (d *desk) Records(_ context.Context, _ runtime.Principal, f Filter, after string, _ int) ([]Record, error) {
	return d.records(f, after), nil
}

func (d *desk) Question(context.Context, runtime.Principal, string) (Question, error) {
	return d.question, nil
}

func (d *desk) Decide(context.Context, runtime.Principal, string, Decision) (Approval, error) {
	return Approval{}, d.refuses
}

func did(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

// served is a console for an owner on a real socket, with room for so many connections.
func served(t *testing.T, d *desk, room int) (c *Console, browser *http.Client, base string, links chan string) {
	t.Helper()
	links = make(chan string, 8)
	c, err := New(Options{
		Desk: d, Base: "/c/", Owner: &runtime.Caller{}, SignedIn: func(string) { links <- c.Invite() }, Keep: socket.Keep,
		Status: func(err error) int { return runtime.AsError(err).Status() },
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: c}
	socket.Watch(s)
	t.Cleanup(func() { _ = s.Close() })
	go func() {
		_ = s.Serve(socket.Bounded(ln, socket.Bounds{Most: room, Patience: time.Minute, Clock: time.Now}))
	}()
	jar, _ := cookiejar.New(nil)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	browser = &http.Client{Jar: jar, Transport: transport, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, browser, "http://" + ln.Addr().String() + "/c/", links
}

// ask sends a form, or asks for a page where there is none.
func ask(t *testing.T, browser *http.Client, at string, form url.Values) (*http.Response, string) {
	t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

func codeOf(t *testing.T, link string) url.Values {
	t.Helper()
	_, code, ok := strings.Cut(link, "?code=")
	if !ok {
		t.Fatal(link)
	}
	return url.Values{"code": {code}}
}

// A sign-in that cannot be recorded does not happen, and the link that it has used up is
// replaced: nobody has to end the sessions of others to get in.
func TestASignInThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	full := true
	d := &desk{note: func() error {
		if full {
			return &runtime.Error{Code: runtime.CodeAuditUnavailable, Msg: "the disk is full"}
		}
		return nil
	}}
	c, browser, base, links := served(t, d, 8)
	answer, text := ask(t, browser, base+"sign-in", codeOf(t, c.Invite()))
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Set-Cookie") != "" || !strings.Contains(text, "the disk is full") || len(c.sessions.have) != 0 {
		t.Fatalf("%d %v %s", answer.StatusCode, answer.Header, text)
	}
	full = false
	if answer, text = ask(t, browser, base+"sign-in", codeOf(t, <-links)); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("the next link: %d %s", answer.StatusCode, text)
	}
}

// What says nothing of who somebody is ends no session; a token that is none any more does.
func TestOnlyARefusalEndsASession(t *testing.T) {
	t.Parallel()
	var fails error
	d := &desk{enter: func() error { return fails }}
	c, browser, base, _ := served(t, d, 8)
	ask(t, browser, base+"sign-in", codeOf(t, c.Invite()))
	for _, one := range []struct {
		fails error
		then  int
	}{
		{&runtime.Error{Code: runtime.CodeStorageBusy, Msg: "busy"}, http.StatusOK},
		{errors.New("broken"), http.StatusOK},
		{&runtime.Error{Code: runtime.CodeUnauthenticated, Msg: "revoked"}, http.StatusSeeOther},
	} {
		fails = one.fails
		if answer, text := ask(t, browser, base+"approvals", nil); answer.StatusCode < 400 || strings.Contains(text, "Waiting") {
			t.Errorf("%v: %d %s", one.fails, answer.StatusCode, text)
		}
		fails = nil
		if answer, _ := ask(t, browser, base+"approvals", nil); answer.StatusCode != one.then {
			t.Errorf("after %v: %d", one.fails, answer.StatusCode)
		}
	}
}

// Whose requests all wait leaves connections to others, as with the API.
func TestRequestsOfASessionAreBounded(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}, 8), make(chan struct{})
	d := &desk{tokens: func() error {
		began <- struct{}{}
		<-end
		return nil
	}}
	c, browser, base, _ := served(t, d, 4)
	ask(t, browser, base+"sign-in", codeOf(t, c.Invite()))
	var wg sync.WaitGroup
	for range 3 { // three quarters
		wg.Go(func() { ask(t, browser, base+"tokens", nil) })
		<-began
	}
	if answer, text := ask(t, browser, base+"approvals", nil); answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more: %d %s", answer.StatusCode, text)
	}
	close(end)
	wg.Wait()
	if answer, text := ask(t, browser, base+"approvals", nil); answer.StatusCode != http.StatusOK {
		t.Errorf("with all answered: %d %s", answer.StatusCode, text)
	}
}

// Who reads with the keyboard has the page stand still: a reload takes the focus away.
func TestThePageCanStandStill(t *testing.T) {
	t.Parallel()
	c, browser, base, _ := served(t, &desk{}, 8)
	ask(t, browser, base+"sign-in", codeOf(t, c.Invite()))
	for path, reloads := range map[string]bool{"approvals": true, "approvals?reload=off": false} {
		if _, text := ask(t, browser, base+path, nil); strings.Contains(text, `http-equiv="refresh"`) != reloads {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// Whoever watches sees the approvals again when what was in the way has passed: a page that
// stood still would have them wait for nobody. What does not pass by itself is not asked again.
func TestThePageComesBackByItself(t *testing.T) {
	t.Parallel()
	var away error
	d := &desk{enter: func() error { return away }}
	c, browser, base, _ := served(t, d, 8)
	ask(t, browser, base+"sign-in", codeOf(t, c.Invite()))
	for _, one := range []struct {
		err     error
		path    string
		reloads bool
	}{
		{&runtime.Error{Code: runtime.CodeStorageBusy, Msg: "the store does not answer"}, "approvals", true},
		{&runtime.Error{Code: runtime.CodeRateLimited, Msg: "too many"}, "approvals", true},
		{&runtime.Error{Code: runtime.CodeStorageBusy, Msg: "the store does not answer"}, "approvals?reload=off", false},
		{&runtime.Error{Code: runtime.CodeStorageBusy, Msg: "the store does not answer"}, "tokens", false},
		{&runtime.Error{Code: runtime.CodeInvalidInput, Msg: "no"}, "approvals", false},
	} {
		away = one.err
		if _, text := ask(t, browser, base+one.path, nil); strings.Contains(text, `http-equiv="refresh"`) != one.reloads || strings.Contains(text, "tries again every 3 seconds") != one.reloads {
			t.Errorf("%s, %v: %s", one.path, one.err, text)
		}
	}
}

// Who is not known is led to the sign-in, and back; and told a command that works.
func TestWhoIsNotKnownIsLedToTheSignIn(t *testing.T) {
	t.Parallel()
	d := &desk{enter: func() error {
		return &runtime.Error{Code: runtime.CodeUnauthenticated, Reason: runtime.ReasonTokenRevoked, Msg: "the token was revoked"}
	}}
	c, browser, base, _ := served(t, d, 8)
	form := codeOf(t, c.Invite())
	form.Set("next", "approvals/apr_1")
	_, text := ask(t, browser, base+"sign-in", form)
	for _, want := range []string{`<a href="/c/sign-in?next=approvals%2Fapr_1">Sign in</a>`, "kimbap token create --agent NAME --scope GLOB --role kimbap.operator"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// A token is revoked on a page of its own, which says what it is and what that does to whoever
// asks for it; and the list says that it is done.
func TestRevokingIsAskedFor(t *testing.T) {
	t.Parallel()
	d := &desk{token: "tok_mine", have: []Token{
		{ID: "tok_mine", Agent: "ada", State: "valid"}, {ID: "tok_ci", Agent: "ci", Creator: "ada (tok_mine)", State: "valid"}, {ID: "tok_old", Agent: "old", State: "revoked"},
	}}
	c, browser, base, _ := served(t, d, 8)
	ask(t, browser, base+"sign-in", codeOf(t, c.Invite()))
	for path, want := range map[string]string{
		"tokens":                  `<a class="no" href="/c/tokens/tok_ci/revoke" aria-label="Revoke tok_ci of ci">Revoke</a>`,
		"tokens/tok_ci/revoke":    `<form method="post" action="/c/tokens/tok_ci/revoke">`,
		"tokens/tok_mine/revoke":  "this ends your session",
		"tokens?revoked=tok_old":  `Revoked: <code>tok_old</code> of old.`,
		"tokens/tok_old/revoke":   "there is no valid token of this id",
		"tokens/tok_other/revoke": "there is no valid token of this id",
	} {
		if _, text := ask(t, browser, base+path, nil); !strings.Contains(text, want) {
			t.Errorf("%s: no %s in %s", path, want, text)
		}
	}
	if _, text := ask(t, browser, base+"tokens/tok_ci/revoke", nil); strings.Contains(text, "ends your session") {
		t.Error("another's token ends no session")
	}
	for _, id := range []string{"tok_ci", "tok_other"} { // which is still valid, or is not there
		if _, text := ask(t, browser, base+"tokens?revoked="+id, nil); strings.Contains(text, "Revoked:") {
			t.Errorf("%s is said to be revoked", id)
		}
	}
	if _, text := ask(t, browser, base+"tokens", nil); strings.Contains(text, `<th></th>`) || !strings.Contains(text, `title="ada (tok_mine)">ada <span class="dim">…mine</span>`) {
		t.Errorf("%s", text)
	}
}

// The page of the trail takes what the API takes, and says what it does not know.
func TestTheTrailIsFiltered(t *testing.T) {
	t.Parallel()
	var got Filter
	d := &desk{records: func(f Filter, _ string) []Record {
		got = f
		return []Record{{Line: []byte(`{"kind":"event","time":"2026-11-29T08:00:00Z","principal":"token:tok_1","event":"x"}`), By: "ada (tok_1)"}}
	}}
	c, browser, base, _ := served(t, d, 8)
	ask(t, browser, base+"sign-in", codeOf(t, c.Invite()))
	_, text := ask(t, browser, base+"trail?kind=refusal&code=forbidden&effect=deny&since=24h&after=x", nil)
	if got.Kind != "refusal" || got.Code != "forbidden" || got.Effect != "deny" || got.Since.IsZero() {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{
		"<option selected>refusal</option>", "<option selected>forbidden</option>", `title="ada (tok_1)">ada <span`,
		`<a href="/c/trail?code=forbidden&amp;effect=deny&amp;kind=refusal&amp;since=24h">← Newest</a>`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	for _, query := range []string{"kind=junk", "effect=junk", "code=junk", "since=zz"} {
		if answer, text := ask(t, browser, base+"trail?"+query, nil); answer.StatusCode != http.StatusBadRequest || !strings.Contains(text, "is one of ") {
			t.Errorf("%s: %d %s", query, answer.StatusCode, text)
		}
	}
}

// Who sends a form after the session has ended is told that it was not taken, once; and who
// comes to the trail by a link keeps its filters over the sign-in.
func TestASignInSaysWhatWasNotTaken(t *testing.T) {
	t.Parallel()
	c, browser, base, _ := served(t, &desk{}, 8)
	const said = "what you sent was not taken"
	if _, text := ask(t, browser, base+"sign-in", nil); strings.Contains(text, said) {
		t.Error("nothing was sent")
	}
	answer, _ := ask(t, browser, base+"approvals/apr_1/accept", url.Values{"form": {"old"}})
	at := strings.TrimSuffix(base, "/c/") + answer.Header.Get("Location")
	for _, want := range []bool{true, false} {
		if _, text := ask(t, browser, at, nil); strings.Contains(text, said) != want {
			t.Errorf("said: %v: %s", !want, text)
		}
	}
	answer, _ = ask(t, browser, base+"trail?kind=refusal&text=a%26b", nil)
	to, err := url.Parse(answer.Header.Get("Location"))
	if err != nil || to.Query().Get("next") != "trail?kind=refusal&text=a%26b" {
		t.Fatal(to)
	}
	form := codeOf(t, c.Invite())
	form.Set("next", to.Query().Get("next"))
	if answer, _ := ask(t, browser, base+"sign-in", form); answer.Header.Get("Location") != "/c/trail?kind=refusal&text=a%26b" {
		t.Error(answer.Header.Get("Location"))
	}
}

// Whatever an agent calls itself, nobody sees anything else than what stands there.
func TestRA012WhatNobodySeesIsWrittenOut(t *testing.T) {
	t.Parallel()
	d := &desk{waiting: []Approval{{
		ID: "apr_1", Agent: "a\u202egnp.exe", Action: "x\u0000\u001b[2J\u200b", Rule: "r\ufe0f\u3164\u2066", Summary: "DELETE e\u0301\u0301\u0301\u0301\u0301 \xff\xfe\ufffd \u2028 \u00a0",
	}}}
	c, browser, base, _ := served(t, d, 8)
	ask(t, browser, base+"sign-in", codeOf(t, c.Invite()))
	_, text := ask(t, browser, base+"approvals", nil)
	for _, want := range []string{`a\u{202e}gnp.exe`, `\u{1b}[2J\u{200b}`, `r\u{fe0f}\u{3164}\u{2066}`, "e\u0301\u0301\u0301" + `\u{301}\u{301} \xff\xfe` + "\ufffd" + ` \u{2028} \u{a0}`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if found := regexp.MustCompile(`[^\P{C}\n\t]|\p{Zl}|\p{Zp}`).FindString(text); found != "" {
		t.Errorf("the page has %q", found)
	}
	if _, text = ask(t, browser, base+"sign-in?code=%E2%80%AE%ff", nil); strings.Contains(text, "\u202e") || strings.Contains(text, "\xff") {
		t.Errorf("the page shows what was asked for as it is: %s", text)
	}
}

// What leads out of the console in a browser's eyes is no page of it.
func TestPathsHaveOneForm(t *testing.T) {
	t.Parallel()
	c, browser, base, _ := served(t, &desk{}, 8)
	ask(t, browser, base+"sign-in", codeOf(t, c.Invite()))
	for _, path := range []string{"../v1/approvals", "..", "./approvals", "approvals/..", "/evil.test", "//evil.test", "%61pprovals", "%2e%2e/v1", "approvals;x", `\evil.test`, "approvals/", "approvals%2fx", "approvals%00"} {
		answer, text := ask(t, browser, base+path, nil)
		if answer.StatusCode < 400 || answer.Header.Get("Location") != "" || !strings.Contains(text, "no such page") {
			t.Errorf("%s: %d %s %s", path, answer.StatusCode, answer.Header.Get("Location"), text)
		}
	}
}

// Who follows "Older" reads on where the page ends, with the same filter.
func TestOlderRecordsAreOnePageOn(t *testing.T) {
	t.Parallel()
	d := &desk{records: func(f Filter, after string) (out []Record) {
		if f.Action != "github.*" || f.Text != "a&b=c d" || f.Since.IsZero() {
			t.Errorf("asked for %+v", f)
		}
		if after != "" {
			return []Record{{Key: "last", Line: fmt.Appendf(nil, `{"id":"after %s"}`, after)}}
		}
		for i := range trailPage + 1 {
			out = append(out, Record{Key: fmt.Sprintf("2026-11-29T08:00:00.1Z %d serve", i+1), Line: []byte(`{}`)})
		}
		return out
	}}
	c, browser, base, _ := served(t, d, 8)
	ask(t, browser, base+"sign-in", codeOf(t, c.Invite()))
	_, text := ask(t, browser, base+"trail?"+url.Values{"action": {"github.*"}, "text": {"a&b=c d"}, "since": {"24h"}}.Encode(), nil)
	older := regexp.MustCompile(`href="/c/(trail\?[^"]*)">Older`).FindStringSubmatch(text)
	if older == nil {
		t.Fatal(text)
	}
	answer, text := ask(t, browser, base+html.UnescapeString(older[1]), nil)
	if want := "after 2026-11-29T08:00:00.1Z 100 serve"; answer.StatusCode != http.StatusOK || !strings.Contains(text, want) || strings.Contains(text, "Older") {
		t.Errorf("%s is %d without %q: %s", older[1], answer.StatusCode, want, text)
	}
}

// Where a PIN is demanded, who decides by a token is offered the people who have one, and not
// themselves: no PIN is a token's. Where none is, or the owner decides, it is as ever.
func TestATokenIsOfferedWhoCanShowAPIN(t *testing.T) {
	t.Parallel()
	const operator, ann, accept = ">the operator<", "<option>ann</option>", `class="yes"`
	for name, c := range map[string]struct {
		token    string
		pin      bool
		persons  []string
		has, not []string
	}{
		"a token":                   {"tok_1", true, []string{"ann"}, []string{ann, accept, `<select name="as" required>`}, []string{operator}},
		"a token, nobody to name":   {"tok_1", true, nil, []string{"kimbap approve pin --as NAME", "Reject"}, []string{operator, accept, `name="pin"`}},
		"a token, no PIN demanded":  {"tok_1", false, []string{"ann"}, []string{ann, accept, operator}, nil},
		"the owner":                 {"", true, []string{"ann"}, []string{ann, accept, operator}, nil},
		"the owner, nobody to name": {"", true, nil, []string{accept, `name="pin"`}, []string{operator}},
	} {
		d := &desk{token: c.token, question: Question{Approval: Approval{ID: "apr_1", State: "pending"}, PIN: c.pin, Persons: c.persons}}
		console, browser, base, _ := served(t, d, 8)
		ask(t, browser, base+"sign-in", codeOf(t, console.Invite()))
		_, text := ask(t, browser, base+"approvals/apr_1", nil)
		for _, want := range c.has {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s in %s", name, want, text)
			}
		}
		for _, other := range c.not {
			if strings.Contains(text, other) {
				t.Errorf("%s: %s in %s", name, other, text)
			}
		}
	}
}

// Whoever is refused since a PIN is to be shown is told what to do in this page: one who decides by
// a token, that people who have a PIN are named there; the owner, how to get one.
func TestWhoMustShowAPINIsToldHow(t *testing.T) {
	t.Parallel()
	const named, own = "under &#34;Decide as&#34;", "set one on a terminal"
	for name, c := range map[string]struct {
		ask, has, not string
	}{
		"a token":   {`with "as": "NAME" and "pin": their own`, named + ", which stands there once they have a PIN: kimbap approve pin --as NAME", own},
		"the owner": {"", own, named},
	} {
		d := &desk{question: Question{Approval: Approval{ID: "apr_1", State: "pending"}}, refuses: &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonPresenceRequired, Msg: "only a person may", Hint: own + ": kimbap approve pin", Ask: c.ask,
		}}
		console, browser, base, _ := served(t, d, 8)
		ask(t, browser, base+"sign-in", codeOf(t, console.Invite()))
		_, page := ask(t, browser, base+"approvals/apr_1", nil)
		form := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(page)
		if form == nil {
			t.Fatal(page)
		}
		answer, text := ask(t, browser, base+"approvals/apr_1/accept", url.Values{"form": {html.UnescapeString(form[1])}})
		if answer.StatusCode != http.StatusForbidden || !strings.Contains(text, c.has) || strings.Contains(text, c.not) {
			t.Errorf("%s: %d %s", name, answer.StatusCode, text)
		}
	}
}

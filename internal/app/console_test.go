package app_test

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// browser is one that shows pages as they come, and follows nothing by itself.
type browser struct {
	client *http.Client
	base   string // of the console, with its slash
}

// page is what it shows.
type page struct {
	heard
	at string // the path that it was asked for
}

// openConsole serves the console to the owner until the test ends. Link gives the newest
// link; it waits for one.
func openConsole(t testing.TB, k *apptest.Kimbap, tenant runtime.Tenant) (link func() string, stop func()) {
	t.Helper()
	a := k.OpenAs(t, tenant)
	ctx, cancel := context.WithCancel(context.Background())
	links, done := make(chan string, 8), make(chan error, 1)
	go func() {
		done <- a.ServeConsole(ctx, app.ConsoleOptions{Listen: "127.0.0.1:0", Link: func(url, _ string) { links <- url }})
	}()
	ended := false
	stop = func() {
		if cancel(); !ended {
			ended = true
			if err := <-done; err != nil {
				t.Errorf("console: %v", err)
			}
		}
	}
	t.Cleanup(stop)
	return func() string {
		select {
		case at := <-links:
			return at
		case <-time.After(20 * time.Second):
			t.Fatal("no link")
		}
		return ""
	}, stop
}

func newBrowser(t testing.TB, link string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	at.Path, at.RawQuery = strings.TrimSuffix(at.Path, "sign-in"), ""
	return &browser{
		base: at.String(),
		client: &http.Client{Jar: jar, Transport: transport, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
	}
}

// signedIn is a browser of whoever has the link.
func signedIn(t testing.TB, link string) *browser {
	t.Helper()
	b := newBrowser(t, link)
	_, code, _ := strings.Cut(link, "?code=")
	if got := b.send(t, "sign-in", url.Values{"code": {code}}); got.Status != http.StatusSeeOther {
		t.Fatalf("sign in: %d %s", got.Status, got.Body)
	}
	return b
}

// get asks for a page; headers are pairs.
func (b *browser) get(t testing.TB, path string, headers ...string) page {
	t.Helper()
	return b.do(t, http.MethodGet, path, nil, headers...)
}

// send sends a form as a browser does, from a page of the console.
func (b *browser) send(t testing.TB, path string, form url.Values, headers ...string) page {
	t.Helper()
	at, _ := url.Parse(b.base)
	own := []string{"Origin", at.Scheme + "://" + at.Host, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/x-www-form-urlencoded"}
	return b.do(t, http.MethodPost, path, form, append(own, headers...)...)
}

func (b *browser) do(t testing.TB, method, path string, form url.Values, headers ...string) page {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Del(headers[i]); headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	answer, err := b.client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return page{heard{answer.StatusCode, answer.Header, string(data)}, r.URL.Path}
}

var formValue = regexp.MustCompile(`name="form" value="([^"]+)"`)

// form is the value that a page's forms hold.
func (p page) form(t testing.TB) string {
	t.Helper()
	found := formValue.FindStringSubmatch(p.Body)
	if found == nil {
		t.Fatalf("%s has no form: %d %s", p.at, p.Status, p.Body)
	}
	return html.UnescapeString(found[1])
}

// says fails the test unless a page says all of it.
func (p page) says(t testing.TB, status int, words ...string) {
	t.Helper()
	text := html.UnescapeString(p.Body)
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s: no %q in %d %s", p.at, word, p.Status, p.Body)
		}
	}
	if p.Status != status {
		t.Errorf("%s: %d, not %d: %s", p.at, p.Status, status, p.Body)
	}
}

// asked has an agent ask for something that a person must decide, and returns the approval.
func asked(t testing.TB, k *apptest.Kimbap, method, path, body string) string {
	t.Helper()
	answer := k.Do(t, method+" https://"+apptest.Host+path, body)
	if answer.Problem.Approval == "" {
		t.Fatalf("nobody is asked: %d %s", answer.Status, answer.Body)
	}
	return answer.Problem.Approval
}

// A person signs in with the link, sees what is asked and accepts it; the program that
// waits meanwhile, since a page is open, gets the upstream's own answer.
func TestTheConsoleDecides(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	b.get(t, "approvals").says(t, http.StatusOK, "Nothing waits")

	done := make(chan apptest.Answer, 1)
	go func() { done <- k.Do(t, "DELETE https://"+apptest.Host+"/notes/7", "") }()
	var id string
	apptest.Eventually(t, "the question is on the page", func() bool {
		found := regexp.MustCompile(`approvals/(apr_[a-z0-9]+)"`).FindStringSubmatch(b.get(t, "approvals").Body)
		if found != nil {
			id = found[1]
		}
		return found != nil
	})
	shown := b.get(t, "approvals/"+id)
	shown.says(t, http.StatusOK, "notes.delete-note", "DELETE", "/notes/7", "pending")
	if got := b.send(t, "approvals/"+id+"/accept", url.Values{"form": {shown.form(t)}, "also": {"once"}}); got.Status != http.StatusSeeOther {
		t.Fatalf("accept: %d %s", got.Status, got.Body)
	}
	if answer := <-done; answer.Status >= 300 {
		t.Errorf("the program that waited: %d %s", answer.Status, answer.Body)
	}
	apptest.Eventually(t, "it says that it was executed", func() bool { return strings.Contains(b.get(t, "approvals/"+id).Body, ">executed<") })
	b.get(t, "approvals/"+id).says(t, http.StatusOK, "presence none")
	b.get(t, "approvals").says(t, http.StatusOK, "Nothing waits", "Decided lately", "notes.delete-note")
	apptest.Eventually(t, "the trail has its end", func() bool { return strings.Contains(b.get(t, "trail?action=notes.*").Body, "<span>outcome</span>") })
	b.get(t, "trail?text=console.sign_in").says(t, http.StatusOK, "console.sign_in", "127.0.0.1")
}

// A no reaches who asked, with the reason; and so does the end of what an earlier yes allows.
func TestTheConsoleRejectsAndEnds(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())

	id := asked(t, k, http.MethodDelete, "/notes/7", "")
	form := b.get(t, "approvals/"+id).form(t)
	b.send(t, "approvals/"+id+"/reject", url.Values{"form": {form}, "reason": {"not on a Friday"}})
	if answer := k.Do(t, "DELETE https://"+apptest.Host+"/notes/7", ""); answer.Problem.Code != "approval_rejected" || !strings.Contains(answer.Body, "not on a Friday") {
		t.Errorf("who asked hears %d %s", answer.Status, answer.Body)
	}

	id = asked(t, k, http.MethodDelete, "/notes/8", "")
	b.send(t, "approvals/"+id+"/accept", url.Values{"form": {form}, "also": {"1h"}})
	if answer := k.Do(t, "DELETE https://"+apptest.Host+"/notes/8", ""); answer.Status >= 300 {
		t.Errorf("accepted: %d %s", answer.Status, answer.Body)
	}
	b.get(t, "approvals").says(t, http.StatusOK, "Still allowed by an earlier yes", "End it")
	b.send(t, "approvals/"+id+"/revoke", url.Values{"form": {form}})
	if got := b.get(t, "approvals"); strings.Contains(got.Body, "End it") {
		t.Errorf("it still stands: %s", got.Body)
	}
	b.send(t, "approvals/"+id+"/accept", url.Values{"form": {form}, "also": {"1000h"}}).says(t, http.StatusBadRequest, "offers no such time")
	b.send(t, "approvals/apr_unknown/accept", url.Values{"form": {form}}).says(t, http.StatusNotFound)
}

// Where a PIN is demanded the page asks for it, and a wrong one decides nothing.
func TestTheConsoleAsksForThePIN(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: "version: 1\nrules:\n  - name: careful\n    match: {action: notes.delete-note}\n    then: require_approval\n    approval: {presence: pin}\n"})
	owner := k.Open(t, "")
	if err := owner.SetPin(t.Context(), app.NewPin{PIN: runtime.NewSecret("290417")}); err != nil {
		t.Fatal(err)
	}
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	id := asked(t, k, http.MethodDelete, "/notes/7", "")
	shown := b.get(t, "approvals/"+id)
	shown.says(t, http.StatusOK, `name="pin"`)
	accept := func(pin string) page {
		return b.send(t, "approvals/"+id+"/accept", url.Values{"form": {shown.form(t)}, "pin": {pin}})
	}
	accept("").says(t, http.StatusForbidden, "PIN")
	accept("111111").says(t, http.StatusForbidden, "not the PIN")
	b.get(t, "approvals/"+id).says(t, http.StatusOK, "pending")
	if got := accept("290417"); got.Status != http.StatusSeeOther {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	b.get(t, "approvals/"+id).says(t, http.StatusOK, "approved", "presence pin")
	if strings.Contains(k.Log.String(), "290417") {
		t.Error("the PIN is in the log")
	}
}

// Where several must say yes, the page says how to; the operator alone counts once.
func TestTheConsoleTakesSeveralApprovers(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: "version: 1\nrules:\n  - {name: two, match: {action: '*'}, then: require_approval, approval: {count: 2}}\n"})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	id := asked(t, k, http.MethodDelete, "/notes/7", "")
	accept := func(as, pin string) page {
		return b.send(t, "approvals/"+id+"/accept", url.Values{"form": {b.get(t, "tokens").form(t)}, "as": {as}, "pin": {pin}})
	}
	got := accept("", "") // the owner has asked
	got.says(t, http.StatusForbidden, "who asks is not one of them", "Decide as", "kimbap approve pin --as NAME")
	if strings.Contains(html.UnescapeString(got.Body), `"as"`) {
		t.Errorf("words for programs: %s", got.Body)
	}
	owner := k.Open(t, "")
	for _, one := range []app.NewPin{
		{PIN: runtime.NewSecret("771204")},
		{As: "ann", PIN: runtime.NewSecret("290417"), Proved: runtime.NewSecret("771204")}, {As: "bob", PIN: runtime.NewSecret("550192"), Proved: runtime.NewSecret("771204")},
	} {
		if err := owner.SetPin(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	b.get(t, "approvals/"+id).says(t, http.StatusOK, "<option>ann</option>", "<option>bob</option>")
	if got := accept("ann", "290417"); got.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	b.get(t, "approvals/"+id).says(t, http.StatusOK, ">pending<", "yes from   person:ann, presence pin")
	accept("ann", "290417").says(t, http.StatusBadRequest, "you have said yes already; 1 of 2")
	if got := accept("bob", "550192"); got.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	b.get(t, "approvals/"+id).says(t, http.StatusOK, ">approved<", "person:ann, person:bob")
}

// What is too long for a page is shown in part, and accepted where all of it can be read.
func TestTheConsoleAcceptsNothingThatIsTooLongForIt(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askOfAll})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	long := asked(t, k, http.MethodPost, "/notes", `{"text":"x","more":[`+strings.Repeat("1,", 300<<10)+`1]}`)
	got := b.get(t, "approvals/"+long)
	got.says(t, http.StatusOK, "too long for a page", "kimbap approve accept "+long+" --full", ">Reject</button>", "NOT FULLY SHOWN")
	if strings.Contains(got.Body, ">Accept</button>") || len(got.Body) > 64<<10 {
		t.Errorf("a page of %d bytes that accepts it", len(got.Body))
	}
	short := asked(t, k, http.MethodPost, "/notes", `{"text":"x","more":[`+strings.Repeat("1,", 1000)+`1]}`)
	form := url.Values{"form": {got.form(t)}}
	b.get(t, "approvals/"+short).says(t, http.StatusOK, "I have read all of the request", "[1000]: 1")
	b.send(t, "approvals/"+short+"/accept", form).says(t, http.StatusBadRequest, "too long to be shown in full")
	form.Set("whole", "yes")
	for path, form := range map[string]url.Values{short + "/accept": form, long + "/reject": form} {
		if got := b.send(t, "approvals/"+path, form); got.Status != http.StatusSeeOther {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
}

package app_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

const askOfAll = "version: 1\nrules:\n  - {name: ask, match: {action: '*'}, then: require_approval}\n"

// A line of the request is one on the page: each has its number, and what a browser breaks
// to fit its window begins no line that could be taken for another.
func TestTheConsoleNumbersTheLines(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askOfAll})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	forged := "request    GET https://" + apptest.Host + ":443/harmless"
	id := asked(t, k, http.MethodPost, "/notes", `{"text":"x`+strings.Repeat(" ", 300)+forged+`"}`)
	shown := b.get(t, "approvals/"+id)
	lines := regexp.MustCompile(`(?s)<span>([^<]*\n)</span>`).FindAllStringSubmatch(shown.Body, -1)
	_, text, err := k.Open(t, "").ShowApproval(t.Context(), id, true)
	if err != nil {
		t.Fatal(err)
	}
	var all string
	for _, line := range lines {
		if all += html.UnescapeString(line[1]); strings.Contains(line[1], "harmless") && !strings.HasPrefix(line[1], "  text: ") {
			t.Errorf("a line of its own: %q", line[1])
		}
	}
	if all != text {
		t.Errorf("the page has %q, not %q", all, text)
	}
	b.get(t, "console.css").says(t, http.StatusOK, ".request span::before { counter-increment: line; content: counter(line);")
}

// Whose session has ended is led back to the request, by a link that is printed then and can
// be pasted; and a refusal leads back to it too.
func TestTheConsoleLeadsBack(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	k := apptest.New(t, apptest.Options{Policy: askOfAll, Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	link() // for another browser, which nobody uses
	ahead.Add(int64(13 * time.Hour))
	id := asked(t, k, http.MethodDelete, "/notes/7", "")
	at, _ := url.Parse(b.base)
	got := b.send(t, "approvals/"+id+"/accept", url.Values{"form": {"old"}})
	if to := got.Header.Get("Location"); got.Status != http.StatusSeeOther || to != at.Path+"sign-in?next="+url.QueryEscape("approvals/"+id) {
		t.Fatalf("%d %s", got.Status, to)
	}
	b.get(t, "sign-in?next=approvals/"+id).says(t, http.StatusOK, "paste it here", `name="next" value="approvals/`+id+`"`)
	got = b.send(t, "sign-in", url.Values{"next": {"approvals/" + id}, "code": {" " + link() + "\n"}})
	if to := got.Header.Get("Location"); got.Status != http.StatusSeeOther || to != at.Path+"approvals/"+id {
		t.Fatalf("%d %s %s", got.Status, to, got.Body)
	}
	b.send(t, "approvals/"+id+"/accept", url.Values{"form": {"old"}}).says(t, http.StatusForbidden, "another session", at.Path+"approvals/"+id+`">Go back`)
	b.get(t, "approvals/"+id).says(t, http.StatusOK, ">pending<")
}

// Of two who decide at once, or use a link at once, one does.
func TestTheConsoleDecidesOnce(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askOfAll})
	link, _ := openConsole(t, k, "")
	first := link()
	_, code, _ := strings.Cut(first, "?code=")
	atOnce := func(send func(i int) page) (done int) {
		var wg sync.WaitGroup
		var n atomic.Int64
		for i := range 8 {
			wg.Go(func() {
				if send(i).Status == http.StatusSeeOther {
					n.Add(1)
				}
			})
		}
		wg.Wait()
		return int(n.Load())
	}
	var browsers [8]*browser
	for i := range browsers {
		browsers[i] = newBrowser(t, first)
	}
	if n := atOnce(func(i int) page { return browsers[i].send(t, "sign-in", url.Values{"code": {code}}) }); n != 1 {
		t.Errorf("the link has opened %d times", n)
	}
	one, other := signedIn(t, link()), signedIn(t, link())
	forms := []url.Values{{"form": {one.get(t, "tokens").form(t)}, "reason": {"no"}}, {"form": {other.get(t, "tokens").form(t)}}}
	id := asked(t, k, http.MethodDelete, "/notes/7", "")
	n := atOnce(func(i int) page {
		if i%2 == 0 {
			return one.send(t, "approvals/"+id+"/reject", forms[0])
		}
		return other.send(t, "approvals/"+id+"/accept", forms[1])
	})
	if n != 1 {
		t.Errorf("%d decisions", n)
	}
}

// The owner's console over a tenant sees and decides that tenant's alone, and says whose it is.
func TestTheConsoleOfATenant(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askOfAll})
	if err := k.Open(t, "").CreateTenant(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	id := asked(t, k, http.MethodDelete, "/notes/7", "")
	_, token := tokenOf(t, k, app.TokenGrant{Agent: "ours"})
	link, _ := openConsole(t, k, "acme")
	b := signedIn(t, link())
	b.get(t, "approvals").says(t, http.StatusOK, "Nothing waits", "owner of acme")
	b.get(t, "approvals/"+id).says(t, http.StatusNotFound)
	for _, path := range []string{"trail", "trail?since=all", "tokens", "approvals"} {
		if got := b.get(t, path); strings.Contains(got.Body, token) || strings.Contains(got.Body, id+`"`) || strings.Contains(got.Body, "delete-note") {
			t.Errorf("%s: %s", path, got.Body)
		}
	}
	form := url.Values{"form": {b.get(t, "tokens").form(t)}}
	for _, path := range []string{"approvals/" + id + "/accept", "approvals/" + id + "/reject", "approvals/" + id + "/revoke", "tokens/" + token + "/revoke"} {
		b.send(t, path, form).says(t, http.StatusNotFound)
	}
}

// One request with a path as long as a book does not push the others off the list: a line of it
// is cut there, and whole on its own page.
func TestTheConsoleCutsLongLines(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askOfAll})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	long := "/" + strings.Repeat("a", 20000)
	id := asked(t, k, http.MethodGet, long, "")
	got := b.get(t, "approvals")
	got.says(t, http.StatusOK, "GET "+apptest.Host, "aaa…")
	if strings.Contains(got.Body, strings.Repeat("a", 400)) {
		t.Errorf("a list of %d bytes", len(got.Body))
	}
	b.get(t, "approvals/"+id).says(t, http.StatusOK, long)
	b.send(t, "approvals/"+id+"/accept", url.Values{"form": {b.get(t, "tokens").form(t)}, "also": {"1h"}, "whole": {"yes"}})
	got = b.get(t, "approvals")
	if got.says(t, http.StatusOK, "End it", "aaa…"); strings.Contains(got.Body, strings.Repeat("a", 400)) {
		t.Errorf("what still stands: %d bytes", len(got.Body))
	}
}

// The page says what the like of a request is, and offers nothing that is refused then.
func TestTheConsoleOffersWhatItTakes(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: "version: 1\nrules:\n  - {name: two, match: {action: notes.delete-note}, then: require_approval, approval: {count: 2}}\n  - {name: one, match: {action: '*'}, then: require_approval}\n"})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	id := asked(t, k, http.MethodPost, "/notes?x=1", `{"text":"one"}`)
	second := asked(t, k, http.MethodDelete, "/notes/7", "") // before the list is open, while which it would wait
	one := b.get(t, "approvals/"+id)
	one.says(t, http.StatusOK, "The like of it: notes.create-note by local to POST https://"+apptest.Authority+"/notes?x=1, whatever its body says", "and the like of it for 1h")
	b.send(t, "approvals/"+id+"/accept", url.Values{"form": {one.form(t)}, "also": {"1h"}})
	b.get(t, "approvals").says(t, http.StatusOK, `approvals/`+id+`">notes.create-note</a></td><td><code>POST`, "Whatever the body says")

	two := b.get(t, "approvals/"+second)
	two.says(t, http.StatusOK, "0 of 2 people have said yes", "this exact request, once")
	if strings.Contains(two.Body, "the like of it") {
		t.Errorf("several people are offered more than this once: %s", two.Body)
	}
}

// Who may not say yes, or could not be heard, is shown no form for it.
func TestTheConsoleHasNoFormForWhoCannotDecide(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askOfAll})
	token, own := tokenOf(t, k, app.TokenGrant{Agent: "mate", Roles: []string{runtime.RoleOperator}})
	answer := apptest.Send(t, k.Client(t, token), "DELETE https://"+apptest.Host+"/notes/7", "")
	id := answer.Problem.Approval
	b := newBrowser(t, serveWithConsole(t, k, app.APIOptions{}))
	b.send(t, "sign-in", url.Values{"token": {token}})
	page := b.get(t, "approvals/"+id)
	page.says(t, http.StatusOK, "You cannot decide this", "another operator decides")
	if strings.Contains(page.Body, "/accept") || strings.Contains(page.Body, "/reject") {
		t.Errorf("a form for one's own: %s", page.Body)
	}
	if _, err := k.Open(t, "").RevokeToken(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	link, _ := openConsole(t, k, "")
	page = signedIn(t, link()).get(t, "approvals/"+id)
	page.says(t, http.StatusOK, "nobody could use a yes", "/reject")
	if strings.Contains(page.Body, "/accept") {
		t.Errorf("a form for nobody: %s", page.Body)
	}
}

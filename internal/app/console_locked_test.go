package app_test

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// While the vault is locked the page of an approval shows what is not sealed, says how it is
// opened, and takes a no; a yes is refused, whoever makes up the form for it.
func TestTheConsoleOfALockedVault(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	id := asked(t, k, http.MethodDelete, "/notes/7", "")
	closed := asked(t, k, http.MethodDelete, "/notes/8", "")
	stands := asked(t, k, http.MethodDelete, "/notes/9", "")
	form := b.get(t, "approvals/"+id).form(t)
	b.send(t, "approvals/"+closed+"/reject", url.Values{"form": {form}})
	b.send(t, "approvals/"+stands+"/accept", url.Values{"form": {form}, "also": {"1h"}})
	b.get(t, "approvals").says(t, http.StatusOK, "End it")
	owner := k.Open(t, "")
	if _, err := owner.LockVault(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "the console knows of the lock", func() bool { return strings.Contains(b.get(t, "approvals/"+id).Body, "kimbap unlock") })
	shown := b.get(t, "approvals/"+id)
	shown.says(t, http.StatusOK, "notes.delete-note", "DELETE "+apptest.Host, "pending", "kimbap unlock", "locked", "/reject")
	if strings.Contains(shown.Body, "/notes/7") || strings.Contains(shown.Body, "/accept") || strings.Contains(shown.Body, "The request, exactly") {
		t.Errorf("it shows what nobody can mask, or takes a yes: %s", shown.Body)
	}
	b.get(t, "approvals/"+closed).says(t, http.StatusOK, "rejected", "kimbap unlock")
	b.get(t, "approvals/apr_unknown").says(t, http.StatusNotFound)
	b.get(t, "approvals?reload=off").says(t, http.StatusOK, id, closed, "notes.delete-note", "What an earlier yes still allows cannot be shown: the vault is locked")
	b.get(t, "trail").says(t, http.StatusOK, "vault.lock")
	b.get(t, "tokens").says(t, http.StatusOK)
	if got := b.send(t, "approvals/"+id+"/accept", url.Values{"form": {form}}); got.Status < 400 {
		t.Errorf("a yes in a locked vault: %d", got.Status)
	}
	if got := b.send(t, "approvals/"+id+"/reject", url.Values{"form": {form}, "reason": {"not now"}}); got.Status != http.StatusSeeOther {
		t.Errorf("a no: %d %s", got.Status, got.Body)
	}
	b.get(t, "approvals/"+id).says(t, http.StatusOK, "rejected", "not now")
	if err := owner.UnlockVault(t.Context(), runtime.Secret{}); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "it is shown again", func() bool { return strings.Contains(b.get(t, "approvals/"+id).Body, "/notes/7") })
}

// Also while the vault is locked a token decides nothing that a token of its making asked for.
func TestALockedVaultHidesNobodysOwnRequest(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	mate, _ := tokenOf(t, k, app.TokenGrant{Agent: "mate", Roles: []string{runtime.RoleOperator}})
	b := newBrowser(t, serveWithConsole(t, k, app.APIOptions{}))
	b.send(t, "sign-in", url.Values{"token": {mate}})
	c := newAPI(t, k)
	made := c.ask(t, mate, "POST", "/v1/tokens", `{"agent":"child","scopes":["notes.*"],"ttl":"5m"}`)
	var child struct{ Token string }
	if err := json.Unmarshal([]byte(made.Body), &child); err != nil || child.Token == "" {
		t.Fatalf("%d %s", made.Status, made.Body)
	}
	id := apptest.Send(t, k.Client(t, child.Token), "DELETE https://"+apptest.Host+"/notes/9", "").Problem.Approval
	if id == "" {
		t.Fatal("nobody is asked")
	}
	form := url.Values{"form": {b.get(t, "tokens").form(t)}}
	if _, err := k.Open(t, "").LockVault(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "the vault is locked", func() bool { return strings.Contains(b.get(t, "approvals/"+id).Body, "locked") })
	for _, verb := range []string{"accept", "reject"} {
		b.send(t, "approvals/"+id+"/"+verb, form).says(t, http.StatusForbidden, "own_request")
	}
}

// An approval that somebody has edited in the database has a page too, which says so: it can be
// rejected, and not accepted.
func TestTheConsoleOfAnEditedApproval(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	id := asked(t, k, http.MethodDelete, "/notes/7", "")
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	db, err := sql.Open("sqlite", filepath.Join(k.Dir, "kimbap.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE approvals SET path = '/harmless' WHERE id = ?", id); err != nil {
		t.Fatal(err)
	}
	shown := b.get(t, "approvals/"+id)
	shown.says(t, http.StatusOK, "somebody has edited it", "pending", "/reject")
	if strings.Contains(shown.Body, "/accept") || strings.Contains(shown.Body, "/harmless") {
		t.Errorf("it can be accepted, or shows what was written there: %s", shown.Body)
	}
	form := url.Values{"form": {shown.form(t)}}
	b.send(t, "approvals/"+id+"/accept", form).says(t, http.StatusForbidden, "somebody has edited it")
	b.send(t, "approvals/"+id+"/reject", form)
	b.get(t, "approvals/"+id).says(t, http.StatusOK, ">rejected<")
}

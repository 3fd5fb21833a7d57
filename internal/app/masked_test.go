package app_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// A stored credential that an agent has written into what it asks for is on no page, and in
// nothing else that whoever decides is shown (G16).
func TestNoApprovalShowsAStoredCredential(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askOfAll})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	ids := []string{
		asked(t, k, http.MethodPost, "/notes", `{"text":"say\n`+apptest.Key+`\tand \\`+apptest.Key+`, `+apptest.Key+`\u001b`+apptest.Key+`","`+apptest.Key+`":["`+apptest.Key+`"]}`),
		asked(t, k, http.MethodGet, "/"+apptest.Key, ""),
	}
	a := k.Open(t, "")
	err := a.Pipeline().Do(t.Context(), &runtime.Request{Surface: runtime.SurfaceCall, Caller: a.Local(), Action: "notes.create-note", Args: runtime.Args{"text": "the key " + apptest.Key}}, &app.Answer{})
	if e := runtime.AsError(err); e.ApprovalID == "" {
		t.Fatal(err)
	} else {
		ids = append(ids, e.ApprovalID)
	}
	b.get(t, "approvals").says(t, http.StatusOK, "/[stored credential]", "text=the key [stored credential]")
	for _, id := range ids {
		for _, full := range []bool{false, true} {
			shown, text, err := a.ShowApproval(t.Context(), id, full)
			if err != nil {
				t.Fatal(err)
			}
			asJSON, err := json.Marshal(shown)
			if err != nil || strings.Contains(text+string(asJSON), apptest.Key) || !strings.Contains(text, "[stored credential]") {
				t.Errorf("%s %s %v", text, asJSON, err)
			}
		}
		b.get(t, "approvals/"+id).says(t, http.StatusOK, "[stored credential]")
		form := url.Values{"form": {b.get(t, "tokens").form(t)}}
		b.send(t, "approvals/"+id+"/reject", form)
		for _, path := range []string{"approvals/" + id, "approvals", "trail?text=" + id} {
			if got := b.get(t, path); got.Status != http.StatusOK || strings.Contains(got.Body, apptest.Key) {
				t.Errorf("%s: %d %s", path, got.Status, got.Body)
			}
		}
	}
}

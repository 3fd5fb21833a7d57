package app_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// inEscapes writes every byte of a text as an escape.
func inEscapes(text, form string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, form, text[i])
	}
	return b.String()
}

// A stored credential that an agent has written in an encoding is shown to whoever decides as
// little as the value itself: in no place of a request, and not where a long text is cut.
func TestNoApprovalShowsAnEncodedCredential(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askOfAll})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	a := k.Open(t, "")
	b64 := base64.StdEncoding.EncodeToString([]byte("user:" + apptest.Key))
	forms := map[string]string{
		"base64": b64, "base64url": base64.RawURLEncoding.EncodeToString([]byte(apptest.Key)), "hex": hex.EncodeToString([]byte(apptest.Key)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(apptest.Key))),
		"percent": inEscapes(apptest.Key, "%%%02X"), "json": inEscapes(apptest.Key, `\u%04x`),
	}
	ids, cores := map[string][]string{}, map[string]string{}
	for name, form := range forms { // all, before a page is open for which requests wait
		cores[name] = form
		if name == "base64" {
			cores[name] = form[len(form)/2 : len(form)/2+16]
		}
		quoted := strings.ReplaceAll(form, `\`, `\\`)
		ids[name] = []string{asked(t, k, http.MethodPost, "/notes", `{"text":"say `+quoted+`,","`+quoted+`":["`+strings.Repeat("x ", 245)+apptest.Key+`"]}`)}
		if name != "json" {
			ids[name] = append(ids[name], asked(t, k, http.MethodGet, "/"+strings.ReplaceAll(form, "+", "%2B"), ""))
		}
		err := a.Pipeline().Do(t.Context(), &runtime.Request{Surface: runtime.SurfaceCall, Caller: a.Local(), Action: "notes.create-note", Args: runtime.Args{"text": "the key " + form}}, &app.Answer{})
		if e := runtime.AsError(err); e.ApprovalID == "" {
			t.Fatal(err)
		} else {
			ids[name] = append(ids[name], e.ApprovalID)
		}
	}
	for name, core := range cores {
		hidden := func(where, text string) {
			t.Helper()
			text = html.UnescapeString(text)
			for _, shown := range []string{core, strings.ReplaceAll(core, `\`, `\\`), apptest.Key[:8]} {
				if strings.Contains(text, shown) {
					t.Errorf("%s: %s shows %q: %s", name, where, shown, text)
				}
			}
		}
		for _, id := range ids[name] {
			for _, full := range []bool{false, true} {
				shown, text, err := a.ShowApproval(t.Context(), id, full)
				if err != nil || !strings.Contains(text, "[stored credential]") {
					t.Errorf("%s: %s %v", name, text, err)
				}
				hidden("show", text+fmt.Sprint(shown))
			}
			hidden("the page", b.get(t, "approvals/"+id).Body)
			hidden("the list", b.get(t, "approvals").Body)
			b.send(t, "approvals/"+id+"/reject", url.Values{"form": {b.get(t, "tokens").form(t)}})
			hidden("the page behind it", b.get(t, "approvals/"+id).Body)
		}
	}
}

// What a yes still allows names no stored credential that stands in its target.
func TestNoStandingYesShowsACredential(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askOfAll})
	link, _ := openConsole(t, k, "")
	b := signedIn(t, link())
	ids := map[string]string{}
	for _, form := range []string{apptest.Key, hex.EncodeToString([]byte(apptest.Key))} {
		ids[form] = asked(t, k, http.MethodGet, "/"+form, "")
	}
	for form, id := range ids {
		b.send(t, "approvals/"+id+"/accept", url.Values{"form": {b.get(t, "tokens").form(t)}, "also": {"1h"}})
		if got := b.get(t, "approvals"); !strings.Contains(got.Body, "End it") || strings.Contains(got.Body, form) {
			t.Errorf("what it still allows: %s", got.Body)
		}
	}
	list, err := k.Open(t, "").Standing(t.Context())
	if err != nil || len(list) != 2 || time.Until(list[0].Expires) < 0 || !strings.Contains(list[0].Target, "[stored credential]") {
		t.Errorf("%+v %v", list, err)
	}
}

// Who is told of a question on another channel is told no stored credential either.
func TestNoNoticeShowsACredential(t *testing.T) {
	t.Parallel()
	k := told(t, "  hold: 1s\n")
	k.Write(t, "policy.yaml", askOfAll)
	encoded := hex.EncodeToString([]byte(apptest.Key))
	apptest.Eventually(t, "both are told of", func() bool {
		k.Do(t, "GET https://"+apptest.Host+"/"+encoded, "")
		k.Do(t, "GET https://"+apptest.Host+"/"+apptest.Key, "")
		return len(hooked(k)) >= 2
	})
	for _, message := range hooked(k) {
		if strings.Contains(message, encoded) || strings.Contains(message, apptest.Key) || !strings.Contains(message, "[stored credential]") {
			t.Error(message)
		}
	}
}

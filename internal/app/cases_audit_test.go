package app_test

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
)

// AU-005: the heads of all writers are signed, wherever they run, and a writer
// that was removed shows, to who kept a checkpoint elsewhere also when the
// checkpoints went with it.
func TestARemovedWriterShows(t *testing.T) {
	t.Parallel()
	kept := filepath.Join(t.TempDir(), "kept.jsonl")
	k := apptest.New(t, apptest.Options{Config: "audit: {anchor: {file: " + kept + ", every: 1s}}\n"})
	if a := k.Do(t, "GET https://"+apptest.Host+"/notes/7", ""); a.Status != 200 {
		t.Fatal(a.Status)
	}
	operator := k.Open(t, "")
	var signed checkpoint.Signed
	apptest.Within(t, 20*time.Second, "the proxy's head", func() bool { // once its outcome is in
		var err error
		if signed, err = operator.AnchorTrail(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, ok := signed.Head("proxy")
		return ok
	})
	for _, slot := range []string{"cli", "proxy"} {
		if head, ok := signed.Head(slot); !ok || head.Sequence == 0 {
			t.Errorf("%s is not named: %s", slot, signed.Line)
		}
	}
	if report, err := operator.VerifyTrail(t.Context()); err != nil || !report.OK || report.Anchor != proof.AnchoredOutside || !report.Proven {
		t.Errorf("%v\n%s", err, report)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(k.Dir, "audit"))); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"cli", "checkpoints.jsonl"} {
		if err := os.RemoveAll(filepath.Join(copied, gone)); err != nil {
			t.Fatal(err)
		}
		report, err := operator.VerifyFolder(t.Context(), copied, kept)
		first, bad := report.First()
		if err != nil || !bad || first.Kind != proof.ProblemWriter || first.Slot != "cli" {
			t.Errorf("without %s: %v\n%s", gone, err, report)
		}
	}
}

// AU-006: a stored value in a place where nobody expects one is not in the trail,
// and who has the value can ask for it. What was never stored is plain.
func TestStoredValuesUnderOtherNamesAreNotInTheTrail(t *testing.T) {
	t.Parallel()
	const stored, plain = "Zq-unusual-7781", "qz-ordinary-1877"
	k := apptest.New(t, apptest.Options{Prepare: func(k *apptest.Kimbap) {
		if _, _, err := k.App.SetSecret(t.Context(), "other.token", runtime.NewSecret("user:"+stored), app.SecretOptions{Hosts: []string{"other.test:443"}}); err != nil {
			t.Fatal(err)
		}
	}})
	for _, word := range []string{stored, plain, "%5Aq-unusual%2D7781"} {
		k.Do(t, "GET https://"+apptest.Host+"/"+word, "")
	}
	trail := ledger(t, k)
	if strings.Contains(trail, "unusual") || strings.Contains(trail, "other.token:") {
		t.Errorf("the trail shows a stored value:\n%s", trail)
	}
	if !strings.Contains(trail, plain) {
		t.Error("a value that is not stored is not plain")
	}
	asked := func(value string) (n int) {
		t.Helper()
		found, err := k.App.SearchValue(t.Context(), app.RecordQuery{Kind: "intent"}, runtime.NewSecret(value))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	for value, want := range map[string]int{stored: 2, plain: 1, "something-else-1": 0} {
		if n := asked(value); n != want {
			t.Errorf("%q was found %d times, want %d", value, n, want)
		}
	}
}

// AU-008: each act of an operator, and each change that kimbap takes over, leaves
// one record of its kind that says who did it.
func TestEveryActLeavesOneRecord(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askDeletes})
	ctx, a := t.Context(), k.App
	ask := func() string {
		t.Helper()
		k.Do(t, fmt.Sprintf("DELETE https://%s/notes/%d", apptest.Host, len(k.Records(t))), "")
		pending, err := a.ListApprovals(ctx, false)
		if err != nil || len(pending) == 0 {
			t.Fatal(pending, err)
		}
		return pending[0].ID
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var token string
	for _, act := range []struct {
		kind string
		do   func()
	}{
		{"vault.set", func() {
			_, _, err := a.SetSecret(ctx, "x", runtime.NewSecret("value-1"), app.SecretOptions{Hosts: []string{"x.test:443"}})
			must(err)
		}},
		{"vault.remove", func() { _, err := a.RemoveSecret(ctx, "x"); must(err) }},
		{"token.create", func() {
			_, info, err := a.CreateToken(ctx, app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
			must(err)
			token = info.ID
		}},
		{"token.revoke", func() { _, err := a.RevokeToken(ctx, token); must(err) }},
		{"approval.accept", func() { _, err := a.Accept(ctx, ask(), app.Yes{}); must(err) }},
		{"approval.reject", func() { _, err := a.Reject(ctx, ask(), "no"); must(err) }},
		{"service.install", func() {
			file := filepath.Join(t.TempDir(), "s.yaml")
			must(os.WriteFile(file, []byte("name: extra\nversion: 1.0.0\ndescription: More\nbase_url: https://extra.test\nauth: {type: none}\nactions:\n  get: {description: Get, method: GET, path: /x, risk: {level: low}}\n"), 0o600))
			_, err := a.InstallService(ctx, file, nil)
			must(err)
		}},
		{"service.remove", func() { must(a.RemoveService(ctx, "extra")) }},
		{"reload", func() { k.Write(t, "policy.yaml", askDeletes+"# changed\n") }},
	} {
		events := func() (out []apptest.Record) {
			for _, r := range k.Records(t) {
				if r.Kind == "event" && r.Event == act.kind {
					out = append(out, r)
				}
			}
			return out
		}
		before := len(events())
		act.do()
		apptest.Within(t, soon, "the record of "+act.kind, func() bool { return len(events()) > before })
		if got := events()[before:]; len(got) != 1 || got[0].Principal == "" {
			t.Errorf("%s left %+v", act.kind, got)
		}
		if strings.HasPrefix(act.kind, "service.") {
			apptest.Followed(t, a) // a reload, which counts for no other act
		}
	}
	k.Verify(t)
}

// AU-007: whatever a program writes into a request, each request is its own
// records, one valid line each, and no line of the program's.
func TestHostileRequestsAreOneRecordEach_AU007(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askDeletes})
	const fake = `{"seq":1,"kind":"outcome","effect":"allow","action":"forged"}`
	coded := url.PathEscape("x\n" + fake + "\u2028\x1b[2J\u202e\x00")
	head := func(target, fields string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: " + apptest.Host + "\r\n" + fields + "\r\n"
	}
	text := `{"text":"x\n` + strings.ReplaceAll(fake, `"`, `\"`) + `\u2028\u001b[2J\ud800` + "\u2028\u0085" + `"}`
	for name, raw := range map[string]string{
		"path":         head("/"+coded, ""),
		"query":        head("/notes/1?q="+coded, ""),
		"raw line end": head("/x\n"+fake, ""),
		"raw UTF-8":    head("/x\u2028\u202e", ""),
		"raw bytes":    head("/x\xff\xfe\xc3(", ""),
		"user agent":   head("/notes/1", "User-Agent: \xff\u2028\u202e"+fake+"\r\n"),
		"escapes":      head("/notes/1", "User-Agent: \x1b[2J\x1b]0;t\x07\r\n"),
		"a mebibyte":   head("/notes/1", "User-Agent: "+strings.Repeat("x", 1<<20)+"\r\n"),
		"body":         fmt.Sprintf("POST /notes HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", apptest.Host, len(text), text),
		"method":       "GE\x1bT /notes/1 HTTP/1.1\r\nHost: " + apptest.Host + "\r\n\r\n",
	} {
		mark := k.Mark(t)
		w := k.Tunnel(t, apptest.Authority)
		go func() { _, _ = io.WriteString(w.Conn, raw) }() // the answer may come before its end
		a := w.Answer()
		_ = w.Close()
		got := k.Await(t, mark, 1)
		if got[0].Kind == "intent" {
			got = k.Await(t, mark, 2)
		}
		whole := len(got) == 1 && got[0].Kind == "refusal" || len(got) == 2 && got[1].Kind == "outcome" && got[1].ID == got[0].ID
		if !whole || a.Problem.Code != "" && got[len(got)-1].ID != a.Problem.RequestID {
			t.Errorf("%s: %d %+v, recorded %v", name, a.Status, a.Problem, got)
		}
	}
	for line := range strings.Lines(ledger(t, k)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, fake[:8]+"1,\"kind\":\"outcome\",\"effect\"") || !utf8.ValidString(line) {
			t.Errorf("a line of a program's: %.100q", line)
		}
		for _, c := range line {
			if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 || c == '\u2028' || c == '\u202e' {
				t.Errorf("a line holds %U: %.100q", c, line)
				break
			}
		}
	}
	for _, r := range k.Records(t) {
		if r.Action == "forged" {
			t.Errorf("forged: %s", r.Line)
		}
	}
	k.Verify(t)
}

// AU-012: over the API an operator finds the records of their own tenant, by
// whatever filter, wildcard or cursor.
func TestATenantsOperatorFindsItsOwnRecords_AU012(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	agent := acmes(t, k)
	theirs, _, err := k.OpenAs(t, acme).CreateToken(t.Context(), app.TokenGrant{Agent: "op", Roles: []string{runtime.RoleOperator}, Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	mine, _ := tokenOf(t, k, app.TokenGrant{Agent: "boss", Roles: []string{runtime.RoleOperator}})
	mark := k.Mark(t)
	for n := range 3 {
		k.Do(t, fmt.Sprintf("GET https://%s/notes/%d", apptest.Host, 7000+n), "")
		apptest.Send(t, k.Client(t, agent), fmt.Sprintf("GET https://%s/notes/%d", apptest.Host, 8000+n), "")
	}
	ours := k.Await(t, mark, 12)
	c := newAPI(t, k)
	items, next := c.ask(t, mine, "GET", "/v1/audit?limit=1", "").items(t)
	if len(items) != 1 || next == "" {
		t.Fatalf("%v %q", items, next)
	}
	if got := c.ask(t, theirs.Reveal(), "GET", "/v1/audit?cursor="+next, ""); got.Status != 400 {
		t.Errorf("a cursor of another tenant: %d %s", got.Status, got.Body)
	}
	queries := []string{"", "?limit=1000", "?agent=*", "?agent=%25", "?action=*", "?action=notes.*", "?action=%25", "?action=_%25", "?host=*", "?text=7001", "?text=%25", "?text=_", "?text=default",
		"?kind=event", "?kind=intent", "?tenant=default", "?tenant=*", "?tenant=%25"}
	for _, r := range ours {
		queries = append(queries, "?request="+r.ID)
	}
	found := 0
	for _, query := range queries {
		got := c.ask(t, theirs.Reveal(), "GET", "/v1/audit"+query, "")
		if got.Status != 200 && got.Status != 400 {
			t.Errorf("%s: %d %s", query, got.Status, got.Body)
		}
		if strings.Contains(got.Body, `"default"`) || strings.Contains(got.Body, "/notes/700") || strings.Contains(got.Body, "boss") {
			t.Errorf("%s: another tenant's records: %s", query, got.Body)
		}
		found += strings.Count(got.Body, "/notes/800")
	}
	if found == 0 {
		t.Error("they do not find their own either")
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// estate is what one tenant has, and how its agent and its operator come in.
type estate struct {
	tenant, token string
	operator      string            // a token that the API takes for an operator's
	ids           map[string]string // by kind
	heard         *bytes.Buffer     // the log of commands, all of it; nil: it is not asked for
}

// entrance is one way to name a thing by its id. Whoever comes in as a tenant
// gets back what it is told, all of it, with the time and the id left out.
type entrance struct {
	name, kind string
	enter      func(t *testing.T, as estate, id string) string
}

// TestIdsOfAnotherTenantAreUnknown goes in by every entrance with every id of the
// other tenant, and holds what it is told to what it is told of an id that nobody
// ever had, word for word. Its own id must get another answer, or the entrance
// would say nothing. A new entrance (REST, MCP) is one more row.
func TestIdsOfAnotherTenantAreUnknown(t *testing.T) {
	k := apptest.New(t, apptest.Options{Policy: asksWrites, Unlinked: true})
	command(t, k, "", "tenant", "create", "acme")
	k.Write(t, filepath.Join("tenants", "acme", "policy.yaml"), asksWrites)
	estates := []estate{settle(t, k, "default"), settle(t, k, "acme")}
	api := k.ServeAPI(t, app.APIOptions{})
	for _, e := range entrances(k, api) {
		t.Run(e.name, func(t *testing.T) {
			for i, as := range estates {
				foreign := estates[1-i].ids[e.kind]
				never := invented(foreign)
				got, want := e.enter(t, as, foreign), e.enter(t, as, never)
				sameWork(t, k, e, as, foreign, never)
				if got != want {
					t.Errorf("as %s, %s of %s:\n%s\nand one that never was:\n%s", as.tenant, e.kind, estates[1-i].tenant, got, want)
				}
				if got == "" {
					t.Errorf("as %s: nothing at all is said", as.tenant)
				}
			}
		})
	}
	for _, e := range entrances(k, api) { // last, since this changes things
		for _, as := range estates {
			id := as.ids[e.kind]
			if own, unknown := e.enter(t, as, id), e.enter(t, as, invented(id)); own == unknown {
				t.Errorf("%s: as %s, its own %s is unknown too:\n%s", e.name, as.tenant, e.kind, own)
			}
		}
	}
	k.Verify(t)
}

// sameWork holds what is done for a foreign id to what is done for one that never
// was: the same statements of the store in the same order, and the same records. Then
// the time they take can say nothing either. What processes do by themselves may come
// between, in one go or another, but not each time.
func sameWork(t *testing.T, k *apptest.Kimbap, e entrance, as estate, foreign, never string) {
	t.Helper()
	got, want := "", ""
	for range 8 {
		got, want = work(t, k, e, as, foreign), work(t, k, e, as, never)
		if got == want {
			break
		}
	}
	reads := strings.HasPrefix(e.name, "audit tail") || strings.HasPrefix(e.name, "audit export") // the files of the trail, line by line
	if got != want || got == "" && !reads {
		t.Errorf("as %s: what is done for a foreign id:\n%s\nand for one that never was:\n%s", as.tenant, got, want)
	}
}

// work is what an entrance has the store do, and what it records.
func work(t *testing.T, k *apptest.Kimbap, e entrance, as estate, id string) string {
	t.Helper()
	as.heard = &bytes.Buffer{}
	mark, before := k.Mark(t), len(k.Log.String())
	e.enter(t, as, id)
	var out strings.Builder
	for line := range strings.Lines(as.heard.String() + k.Log.String()[before:]) {
		var said struct{ Statement string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Statement != "" {
			fmt.Fprintln(&out, strings.Join(strings.Fields(said.Statement), " "))
		}
	}
	for _, r := range k.Records(t) {
		if r.Seq > mark[r.Slot] {
			fmt.Fprintln(&out, r.Slot, r.Short(), r.Event, r.Effect, slices.Sorted(maps.Keys(r.Fields)))
		}
	}
	return strings.ReplaceAll(out.String(), id, "ID")
}

// asksWrites has a person decide every write of the notes.
const asksWrites = `version: 1
rules:
  - name: writes
    match: {action: notes.create-note}
    then: require_approval
`

// settle gives a tenant one of everything that has an id.
func settle(t *testing.T, k *apptest.Kimbap, tenant string) estate {
	as := []string{"--tenant", tenant}
	say := func(stdin string, args ...string) string {
		t.Helper()
		return strings.TrimSpace(command(t, k, stdin, append(slices.Clone(as), args...)...))
	}
	say("value-of-"+tenant+"-1f6b2", "vault", "set", "notes.token", "--host", apptest.Authority)
	say("other-of-"+tenant+"-8c1d4", "vault", "set", "only."+tenant, "--host", apptest.Authority)
	say("more-of-"+tenant+"-5d0e7", "vault", "set", "spare."+tenant, "--host", apptest.Authority)
	e := estate{tenant: tenant, ids: map[string]string{"secret": "only." + tenant, "spare secret": "spare." + tenant}}
	made := say("", "token", "create", "--agent", "claude", "--scope", "*", "-o", "json")
	var token struct{ ID, Token string }
	check(t, json.Unmarshal([]byte(made), &token))
	e.token, e.ids["token"] = token.Token, token.ID
	e.ids["spare token"] = strings.Trim(say("", "token", "create", "--agent", "spare", "--scope", "*", "-o", "json", "--jq", ".id"), `"`)
	e.operator = say("", "token", "create", "--agent", "chief", "--scope", "*", "--role", "kimbap.admin")
	client := k.Client(t, e.token)
	if tenant != "default" {
		apptest.Eventually(t, "the proxy knows the tenant", func() bool {
			return apptest.Send(t, client, "GET https://api.notes.test/notes/1", "").Status == http.StatusOK
		})
	}
	read := apptest.Send(t, client, "GET https://api.notes.test/notes/7", "")
	if read.Status != http.StatusOK {
		t.Fatalf("%s: %d %+v", tenant, read.Status, read.Problem)
	}
	e.ids["request"] = say("", "audit", "search", "--action", "notes.get-note", "--kind", "intent", "--limit", "1", "-o", "json", "--jq", ".[0].id")
	e.ids["request"] = strings.Trim(e.ids["request"], `"`)
	held := func(text string) string {
		id := apptest.Send(t, client, "POST https://api.notes.test/notes", `{"text":"`+text+`"}`).Problem.Approval
		if id == "" {
			t.Fatalf("%s: no approval", tenant)
		}
		return id
	}
	e.ids["approval"] = held("waits")
	e.ids["accepted"] = held("accepted") // its result is there for its requester
	say("", "approve", "accept", e.ids["accepted"])
	e.ids["standing"] = held("standing")
	say("", "approve", "accept", e.ids["standing"], "--for", "10m")
	return e
}

// invented is an id of the same form that nobody has.
func invented(id string) string {
	n := len(id) - 4
	return id[:n] + strings.Map(func(r rune) rune {
		if r == 'q' {
			return 'r'
		}
		return 'q'
	}, id[n:])
}

// entrances are all ways in.
func entrances(k *apptest.Kimbap, api string) []entrance {
	// An operator names the tenant; the words before the id, then those behind it.
	operator := func(name, kind, stdin string, after []string, before ...string) entrance {
		return entrance{name, kind, func(t *testing.T, as estate, id string) string {
			t.Helper()
			return bare(id, loud(t, k, as.heard, stdin, nil, slices.Concat([]string{"--tenant", as.tenant}, before, []string{id}, after)...))
		}}
	}
	// An agent of the command line shows its token.
	agent := func(name, kind string, before ...string) entrance {
		return entrance{name, kind, func(t *testing.T, as estate, id string) string {
			t.Helper()
			return bare(id, loud(t, k, as.heard, "", []string{"KIMBAP_TOKEN=" + as.token}, append(before, id)...))
		}}
	}
	proxied := entrance{"proxy GET /kimbap/approvals/ID", "approval", func(t *testing.T, as estate, id string) string {
		return bare(id, visit(t, k, as.token, "/kimbap/approvals/"+id))
	}}
	decided := proxied
	decided.name, decided.kind = "proxy GET /kimbap/approvals/ID, accepted", "accepted"
	// The API, for the agent and for the operator of a tenant.
	rest := func(kind string, operator bool, method, before, after string) entrance {
		return entrance{"REST " + method + " " + before + "ID" + after, kind, func(t *testing.T, as estate, id string) string {
			t.Helper()
			token := as.token
			if operator {
				token = as.operator
			}
			return bare(id, asked(t, api, token, method, before+id+after))
		}}
	}
	return []entrance{
		rest("approval", false, "GET", "/v1/approvals/", ""),
		rest("approval", true, "GET", "/v1/approvals/", "?full=true"),
		rest("request", true, "GET", "/v1/audit?request=", ""),
		rest("token", true, "GET", "/v1/audit?text=", ""),
		rest("approval", false, "POST", "/v1/approvals/", ":result"),
		proxied, decided,
		operator("explain", "request", "", nil, "explain"),
		operator("audit search --request", "request", "", nil, "audit", "search", "-o", "json", "--request"),
		operator("audit tail --request", "request", "", nil, "audit", "tail", "-o", "json", "--request"),
		operator("audit export --request", "request", "", []string{"--slots"}, "audit", "export", "--request"),
		operator("audit search --text", "token", "", nil, "audit", "search", "-o", "json", "--text"),
		operator("token inspect", "token", "", nil, "token", "inspect"),
		operator("approve show", "approval", "", nil, "approve", "show"),
		operator("approve show, accepted", "accepted", "", nil, "approve", "show"),
		operator("approve revoke", "standing", "", nil, "approve", "revoke"),
		operator("approve accept --always", "approval", "", []string{"--always"}, "approve", "accept"),
		agent("approve wait, accepted", "accepted", "approve", "wait"),
		rest("approval", true, "POST", "/v1/approvals/", ":reject"),
		rest("approval", true, "POST", "/v1/approvals/", ":accept"),
		operator("approve accept", "approval", "", nil, "approve", "accept"),
		operator("approve reject", "approval", "", nil, "approve", "reject"),
		operator("vault rotate", "secret", "new-value-77aa1", nil, "vault", "rotate"),
		operator("vault export", "secret", "", []string{"--recipient", recipient}, "vault", "export"),
		rest("spare secret", true, "DELETE", "/v1/vault/", ""),
		operator("vault remove", "secret", "", nil, "vault", "remove"),
		rest("spare token", true, "DELETE", "/v1/tokens/", ""),
		operator("token revoke", "token", "", nil, "token", "revoke"),
	}
}

// asked asks the API.
func asked(t *testing.T, api, token, method, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, api+path, nil)
	check(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	answer, err := client.Do(r)
	check(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	check(t, err)
	return strings.ReplaceAll(fmt.Sprintln(answer.StatusCode, string(body)), answer.Header.Get("X-Request-Id"), "REQUEST")
}

// recipient can open an export; nobody does.
const recipient = "age1mehlqgtx940j7f4q4q72rk27ye9m8c0hafedsqjunud37n9djvrsrpgvpu"

// moving is what differs from one moment to the next.
var moving = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ][0-9:.]+Z?|\d+[ms]\d*s?( ago)?`)

// bare leaves the id and the time out.
func bare(id, text string) string {
	return moving.ReplaceAllString(strings.ReplaceAll(text, id, "ID"), "TIME")
}

// invoke runs kimbap in this process over the home, as without a terminal.
func invoke(t *testing.T, k *apptest.Kimbap, stdin string, env []string, args ...string) string {
	t.Helper()
	var out, said bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code := execute(ctx, &cli{
		in: strings.NewReader(stdin), out: &out, err: &said, args: args, uid: os.Getuid(),
		env: append([]string{"KIMBAP_HOME=" + k.Dir, "HOME=" + t.TempDir()}, env...),
	})
	return fmt.Sprintf("exit %d\n%s%s", code, out.String(), said.String())
}

// loud is invoke with the whole log, which goes to heard instead.
func loud(t *testing.T, k *apptest.Kimbap, heard *bytes.Buffer, stdin string, env []string, args ...string) string {
	t.Helper()
	if heard == nil {
		return invoke(t, k, stdin, env, args...)
	}
	var kept strings.Builder
	for line := range strings.Lines(invoke(t, k, stdin, env, append([]string{"-vvv"}, args...)...)) {
		if strings.HasPrefix(line, `{"level":`) {
			heard.WriteString(line)
			continue
		}
		kept.WriteString(line)
	}
	return kept.String()
}

// command is invoke for what must go well, and gives its data alone.
func command(t *testing.T, k *apptest.Kimbap, stdin string, args ...string) string {
	t.Helper()
	said := invoke(t, k, stdin, nil, append(args, "-q")...)
	data, ok := strings.CutPrefix(said, "exit 0\n")
	if !ok {
		t.Fatalf("kimbap %s: %s", strings.Join(args, " "), said)
	}
	return data
}

// visit asks the proxy for one of its own pages.
func visit(t *testing.T, k *apptest.Kimbap, token, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+k.Proxy+path, nil)
	check(t, err)
	r.Header.Set("Proxy-Authorization", "Bearer "+token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	answer, err := client.Do(r)
	check(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	check(t, err)
	answer.Header.Del("Content-Length") // of the id too
	if answer.Header.Get("Date") != "" {
		answer.Header.Set("Date", "TIME") // two visits may lie on either side of a second's turn
	}
	return fmt.Sprintln(answer.StatusCode, answer.Header, string(body))
}

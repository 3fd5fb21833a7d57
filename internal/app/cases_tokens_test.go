package app_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// TK-002: once one open connection refuses a revoked token, all do.
func TestTK002RevocationReachesEveryConnection(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Serve: app.ServeOptions{RequireToken: true}})
	owner := k.Open(t, "")
	token, info, err := owner.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"notes.*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	tunnels := make([]*apptest.Wire, 100)
	for i := range tunnels {
		tunnels[i] = k.Tunnel(t, apptest.Authority, "Proxy-Authorization: Bearer "+token.Reveal())
	}
	if a := tunnels[0].Ask(getNote); a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	if revoked, err := owner.RevokeToken(t.Context(), info.ID); err != nil || !revoked {
		t.Fatal(revoked, err)
	}
	apptest.Within(t, soon, "the first refusal", func() bool { return tunnels[0].Ask(getNote).Status == http.StatusProxyAuthRequired })
	before := len(k.Up.Requests())
	var mu sync.Mutex
	passed := 0
	var wg sync.WaitGroup
	for _, w := range tunnels[1:] {
		wg.Go(func() {
			if a := w.Ask(getNote); a.Status != http.StatusProxyAuthRequired || a.Problem.Reason != string(runtime.ReasonTokenRevoked) {
				mu.Lock()
				passed++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if after := len(k.Up.Requests()); passed != 0 || after != before {
		t.Errorf("%d passed, %d requests left", passed, after-before)
	}
}

// TK-005: nothing that a request says of a tenant is heard: it is judged by the
// policy of its token's tenant, with that tenant's credential, in its trail.
func TestTK005TheTenantIsTheTokens(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Prepare: func(k *apptest.Kimbap) {
		if err := k.App.CreateTenant(t.Context(), "acme", false); err != nil {
			t.Fatal(err)
		}
	}})
	theirs := k.OpenAs(t, "acme")
	const key = "sk-live-of-acme-33c1d0"
	if _, _, err := theirs.SetSecret(t.Context(), apptest.Secret, runtime.NewSecret(key), app.SecretOptions{}); err != nil {
		t.Fatal(err)
	}
	token, _, err := theirs.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	client := k.Client(t, token.Reveal())
	apptest.Eventually(t, "the tenant's policy", func() bool {
		return apptest.Send(t, client, "GET https://api.notes.test/notes/1", "").Status == 200
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.notes.test/notes?tenant=default", strings.NewReader(`{"text":"x","tenant":"default"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "X-Tenant": "default", "X-Kimbap-Tenant": "default", "Tenant": "default"} {
		r.Header.Set(name, value)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if got := k.Up.Last(t).Header.Get("Authorization"); answer.StatusCode != 200 || got != "Bearer "+key {
		t.Errorf("%d with %q", answer.StatusCode, got)
	}
	var both []apptest.Record // of the write alone: what was asked before may be recorded later
	apptest.Eventually(t, "both records", func() bool {
		both = slices.DeleteFunc(k.Requests(t, nil), func(r apptest.Record) bool { return r.Action != "notes.create-note" })
		return len(both) == 2
	})
	for _, rec := range both {
		if !strings.Contains(rec.Line, `"tenant":"acme"`) && rec.Kind == "intent" {
			t.Errorf("recorded as %s", rec.Line)
		}
	}
	c := newAPI(t, k)
	for page, want := range map[string]int{
		"GET /v1/services?tenant=default": 400, "GET /v1/tenants/default/approvals": 404, "GET /v1/services": 200,
		`POST /v1/actions/notes/get-note:execute {"input":{"id":1},"tenant":"default"}`: 400, `POST /v1/actions/notes/get-note:execute {"input":{"id":1}}`: 200,
	} {
		words := append(strings.SplitN(page, " ", 3), "")
		if got := c.ask(t, token.Reveal(), words[0], words[1], words[2], "X-Tenant", "default", "X-Kimbap-Tenant", "default"); got.Status != want {
			t.Errorf("%s: %d %s", page, got.Status, got.Body)
		}
	}
	if got := k.Up.Last(t).Header.Get("Authorization"); got != "Bearer "+key {
		t.Errorf("over REST it was sent with %q", got)
	}
	for _, path := range []string{"/v1/tenants/default/approvals", "/kimbap/tenants/default"} {
		if a := apptest.Send(t, &http.Client{}, "GET http://"+k.Proxy+path, ""); a.Status != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.Status)
		}
	}
}

// TK-008: an agent's token decides nothing, not its own request either: not over
// REST, and not by way of the proxy or of a service to the port of REST.
func TestTK008AnAgentDecidesNowhere(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites, Config: "egress: {allow: [\"127.0.0.1/32\"]}\n"})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	held := c.ask(t, agent, "POST", "/v1/actions/notes/create-note:execute", `{"input":{"text":"x"}}`).problem(t).ApprovalID
	if held == "" {
		t.Fatal("nothing is held")
	}
	const key = `{"value":"spare-value-1234","hosts":["api.notes.test:443"]}`
	for page, body := range map[string]string{
		"POST /v1/approvals/" + held + ":accept": "", "POST /v1/approvals/" + held + ":reject": "", "PUT /v1/vault/spare": key,
		"PUT /v1/policy": "{}", "POST /v1/tokens": `{"agent":"x","scopes":["*"],"ttl":"1m"}`,
	} {
		method, path, _ := strings.Cut(page, " ")
		if got := c.ask(t, agent, method, path, body); got.Status != http.StatusForbidden {
			t.Errorf("%s: %d %s", page, got.Status, got.Body)
		}
		client := k.Client(t, agent)
		if a := apptest.Send(t, client, method+" "+c.base+path, body); a.Status != http.StatusForbidden || a.Problem.Code != "egress_denied" || a.Problem.Reason != string(runtime.ReasonSelfConnection) {
			t.Errorf("by the proxy: %s: %d %s", page, a.Status, a.Body)
		}
	}
	list, err := k.Open(t, "").ListApprovals(t.Context(), false)
	if err != nil || len(list) != 1 || list[0].State != "pending" {
		t.Errorf("%+v %v", list, err)
	}
}

// TK-010: callers without a name leave some records and one sum, whatever their
// number, are told to wait, and do not stand in anybody's way.
func TestTK010WrongTokensDoNotFillTheTrail(t *testing.T) {
	t.Parallel()
	const wrong = "kmb_0000000000000000000000000000000000000000000000000"
	now := time.Now() // all of them in one minute
	k := apptest.New(t, apptest.Options{Clock: func() time.Time { return now }})
	known, _, err := k.Open(t, "").CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	mark := k.Mark(t)
	var late atomic.Int64
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 100 {
				switch _, a := k.Connect(t, apptest.Authority, "Proxy-Authorization: Bearer "+wrong); {
				case a.Status == http.StatusTooManyRequests && a.Header.Get("Retry-After") != "":
					late.Add(1)
				case a.Status != http.StatusProxyAuthRequired:
					t.Errorf("%d %+v", a.Status, a.Problem)
				}
			}
		})
	}
	wg.Wait()
	if late.Load() == 0 {
		t.Error("nobody is told to wait")
	}
	if _, a := k.Connect(t, apptest.Authority, "Proxy-Authorization: Bearer "+known.Reveal()); a.Status != http.StatusOK {
		t.Errorf("a valid token from the same address: %d %+v", a.Status, a.Problem)
	}
	if a := k.Do(t, "GET https://api.notes.test/notes/1", ""); a.Status != 200 {
		t.Errorf("the owner: %d %+v", a.Status, a.Problem)
	}
	if err := k.App.TellCrowds(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused, sums := 0, ""
	for _, r := range k.Records(t) {
		switch {
		case r.Seq <= mark[r.Slot]:
		case r.Kind == "refusal":
			refused++
		case r.Event == "callers.refused":
			sums += r.Fields["refused"] + " "
		}
		if strings.Contains(r.Line, wrong[4:20]) {
			t.Errorf("what was shown is recorded: %s", r.Line)
		}
	}
	if refused != 50 || sums != "950 " {
		t.Errorf("%d refusals by themselves, then %s", refused, sums)
	}
}

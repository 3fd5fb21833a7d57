//go:build unix

package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// sharing starts a kimbap whose store is in PostgreSQL, behind a line that can be cut.
func sharing(t *testing.T, o apptest.Options) (*apptest.Kimbap, *postgrestest.Server, *postgrestest.Line, string) {
	t.Helper()
	server := postgrestest.Start(t)
	line, name := server.Line(t), server.Database(t)
	o.Config += fmt.Sprintf("store: {dsn: %q}\n", line.DSN(name))
	k := apptest.New(t, o)
	t.Cleanup(func() {
		line.Mend()
		if strings.Contains(k.Log.String(), postgrestest.Password) || strings.Contains(k.Log.String(), "pass%2F") {
			t.Error("the log has the password of the database")
		}
	})
	return k, server, line, line.DSN(name)
}

// joining starts another home that shares the store of the first.
func joining(t *testing.T, first *apptest.Kimbap, dsn string, o apptest.Options) *apptest.Kimbap {
	t.Helper()
	o.Joins, o.Unlinked = first, true
	o.Config += fmt.Sprintf("store: {dsn: %q}\n", dsn)
	return apptest.New(t, o)
}

// What one home stores another that shares its store works with: credentials, tokens and
// their end, a yes of a person, the lock of the vault.
func TestHomesShareAStore(t *testing.T) {
	t.Parallel()
	one, _, _, dsn := sharing(t, apptest.Options{Policy: askWrites, Config: "proxy: {auth: token}\n"})
	two := joining(t, one, dsn, apptest.Options{Policy: askWrites, Config: "proxy: {auth: token}\n"})
	token, minted, err := one.App.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	client := two.Client(t, token.Reveal())
	get := "GET https://" + apptest.Host + "/notes/1"
	if a := apptest.Send(t, client, get, ""); a.Status != 200 || two.Up.Last(t).Header.Get("Authorization") != "Bearer "+apptest.Key {
		t.Fatalf("a token and a credential of the other home: %d %+v", a.Status, a.Problem)
	}

	id := apptest.Send(t, client, write, `{"text":"a"}`).Problem.Approval
	if _, err := one.App.Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if a := apptest.Send(t, client, write, `{"text":"a"}`); a.Status != 200 {
		t.Errorf("what a person said yes to through the other home: %d %+v", a.Status, a.Problem)
	}
	if a := apptest.Send(t, client, write, `{"text":"a"}`); a.Status != 403 {
		t.Errorf("and once more: %d %+v", a.Status, a.Problem)
	}

	const newer = "sk-live-newer-7c1d9e0a5b6f4d21"
	if _, _, err := one.App.SetSecret(t.Context(), apptest.Secret, runtime.NewSecret(newer), app.SecretOptions{}); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, soon, "the newer credential", func() bool {
		return apptest.Send(t, client, get, "").Status == 200 && two.Up.Last(t).Header.Get("Authorization") == "Bearer "+newer
	})

	if _, err := one.App.LockVault(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, soon, "the lock", func() bool { return two.App.Locked() != nil })
	if _, err := one.App.RevokeToken(t.Context(), minted.ID); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, soon, "the end of the token", func() bool {
		answer, err := client.Get("https://" + apptest.Host + "/notes/1")
		if err != nil {
			return strings.Contains(err.Error(), http.StatusText(http.StatusProxyAuthRequired))
		}
		_ = answer.Body.Close()
		return false
	})
	if len(one.Up.Requests()) != 0 {
		t.Error("a request went out by the other home's proxy")
	}
}

// Each home has the trail of what went through it.
func TestHomesThatShareAStoreHaveTheirOwnTrails(t *testing.T) {
	t.Parallel()
	one, _, _, dsn := sharing(t, apptest.Options{})
	two := joining(t, one, dsn, apptest.Options{})
	for i, k := range []*apptest.Kimbap{one, two, two} {
		if a := k.Do(t, fmt.Sprintf("GET https://%s/notes/%d", apptest.Host, i), ""); a.Status != 200 {
			t.Fatalf("%d %+v", a.Status, a.Problem)
		}
	}
	for _, c := range []struct {
		k    *apptest.Kimbap
		want int
	}{{one, 1}, {two, 2}} {
		found, err := c.k.Open(t, "").SearchTrail(t.Context(), app.RecordQuery{Kind: "intent"})
		if err != nil || len(found) != c.want {
			t.Errorf("%d intents, want %d: %v", len(found), c.want, err)
		}
		c.k.Verify(t)
	}
}

// healthOf is the status of what a proxy says of its health.
func healthOf(t *testing.T, k *apptest.Kimbap) int {
	t.Helper()
	answer, err := http.Get("http://" + k.Proxy + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// CR-011: while the database is gone, silent or read-only, no credential leaves and the
// caller hears why; when it is back the next request goes, without anybody's help.
func TestADatabaseServerThatStops_CR011(t *testing.T) {
	t.Parallel()
	k, server, line, dsn := sharing(t, apptest.Options{Policy: askDeletes})
	database := dsn[strings.LastIndexByte(dsn, '/')+1:]
	readOnly := func(setting string) func() {
		return func() {
			server.Exec(t, "postgres", "ALTER DATABASE "+database+" "+setting)
			line.Cut()
			line.Mend()
		}
	}
	get := "GET https://" + apptest.Host + "/notes/1"
	for i, c := range []struct {
		name         string
		breaks, mend func()
		reading      bool
	}{
		{"cut", line.Cut, line.Mend, false},
		{"silent", line.Silence, func() { line.Cut(); line.Mend() }, false},
		{"stopped", func() { server.Stop(t) }, func() { server.Resume(t) }, false},
		{"read-only", readOnly("SET default_transaction_read_only = on"), readOnly("RESET default_transaction_read_only"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a := k.Do(t, get, ""); a.Status != 200 {
				t.Fatalf("before: %d %+v", a.Status, a.Problem)
			}
			c.breaks()
			if !c.reading { // what was read before is forgotten within a second
				apptest.Within(t, soon, "the end of what is remembered", func() bool { return k.Do(t, get, "").Status == 503 })
			}
			if !c.reading {
				apptest.Within(t, soon, "a health that says so", func() bool { return healthOf(t, k) == http.StatusServiceUnavailable })
			}
			asked := fmt.Sprintf("DELETE https://%s/notes/%d", apptest.Host, i) // of which nobody was asked yet
			seen := len(k.Up.Requests())
			ask := []string{asked}
			if !c.reading {
				ask = append(ask, get)
			}
			for _, request := range ask {
				begun := time.Now()
				a := k.Do(t, request, "")
				if strings.Contains(a.Body, "127.0.0.1") {
					t.Errorf("%s: an agent is told where the database is: %s", request, a.Body)
				}
				if a.Status != 503 || a.Problem.Reason != "storage_unavailable" || a.Header.Get("Retry-After") == "" {
					t.Errorf("%s: %d %+v", request, a.Status, a.Problem)
				}
				if took := time.Since(begun); took > 30*time.Second {
					t.Errorf("%s: refused after %s", request, took)
				}
			}
			if n := len(k.Up.Requests()); n != seen {
				t.Errorf("%d requests left", n-seen)
			}
			c.mend()
			apptest.Within(t, soon, "an end of the fault", func() bool { return k.Do(t, get, "").Status == 200 })
			apptest.Within(t, soon, "a health that is well again", func() bool { return healthOf(t, k) == http.StatusOK })
			if a := k.Do(t, asked, ""); a.Problem.Code != "approval_pending" {
				t.Errorf("after: %d %+v", a.Status, a.Problem)
			}
		})
	}
	k.Verify(t)
}

// A yes is used at most once, whichever home uses it, and one whose process is gone is
// told as unknown by the other home, but not while that process lives.
func TestAYesIsUsedByOneHomeOnly(t *testing.T) {
	t.Parallel()
	one, _, _, dsn := sharing(t, apptest.Options{Policy: askWrites})
	two := joining(t, one, dsn, apptest.Options{Policy: askWrites})
	id := one.Do(t, write, `{"text":"a"}`).Problem.Approval
	if _, err := two.App.Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	answers := make(chan int, 8)
	for i := range cap(answers) {
		go func() { answers <- []*apptest.Kimbap{one, two}[i%2].Do(t, write, `{"text":"a"}`).Status }()
	}
	done := 0
	for range cap(answers) {
		if <-answers == 200 {
			done++
		}
	}
	if sent := len(one.Up.Requests()) + len(two.Up.Requests()); done != 1 || sent != 1 {
		t.Errorf("%d answers, %d requests", done, sent)
	}
	view, err := two.App.ListApprovals(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range view {
		if a.ID == id && a.State != string(approval.Executed) {
			t.Errorf("it is %s", a.State)
		}
	}
}

// A tenant that one home made has no rules in another one: who asks there is told so, and
// with what command that is mended, which is never to remove it.
func TestATenantOfAnotherHomeIsJoined(t *testing.T) {
	t.Parallel()
	one, _, _, dsn := sharing(t, apptest.Options{Config: "proxy: {auth: token}\n"})
	two := joining(t, one, dsn, apptest.Options{Config: "proxy: {auth: token}\n"})
	if err := one.App.CreateTenant(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	owner := one.OpenAs(t, "acme")
	if _, _, err := owner.SetSecret(t.Context(), apptest.Secret, runtime.NewSecret("sk-live-acme-3f1b8f0e6f6c"), app.SecretOptions{}); err != nil {
		t.Fatal(err)
	}
	token, _, err := owner.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	get, join := "GET https://"+apptest.Host+"/notes/1", "kimbap tenant create acme --join"
	client := two.Client(t, token.Reveal())
	if a := apptest.Send(t, client, get, ""); a.Status != 403 || !strings.Contains(a.Body, "no rules for the tenant acme") || !strings.Contains(a.Body, join) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if len(two.Up.Requests()) != 0 {
		t.Error("a request without rules left")
	}
	o := apptest.OptionsOver(two.Dir, "", two.Log, false)
	o.Tenant = "acme"
	as, err := app.New(o)
	if err != nil {
		t.Fatal(err)
	}
	person := two.Open(t, "")
	for what, ask := range map[string]func() error{
		"its operator":     func() error { return as.Open(t.Context()) },
		"another creation": func() error { return person.CreateTenant(t.Context(), "acme", false) },
	} {
		if e := runtime.AsError(ask()); e == nil || !strings.Contains(e.Hint, join) || strings.Contains(e.Hint, "remove") {
			t.Errorf("%s: %+v", what, e)
		}
	}
	if err := person.JoinTenant(t.Context(), "acme2", false); err == nil || !strings.Contains(err.Error(), "has nothing of a tenant acme2") {
		t.Errorf("a name that nobody has: %v", err)
	}
	if err := person.JoinTenant(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, soon, "the rules", func() bool { return apptest.Send(t, client, get, "").Status == 200 })
	if got := two.Up.Last(t).Header.Get("Authorization"); got != "Bearer sk-live-acme-3f1b8f0e6f6c" {
		t.Errorf("it carried %q", got)
	}
	alone := apptest.New(t, apptest.Options{})
	if err := alone.App.JoinTenant(t.Context(), "acme", false); err == nil || !strings.Contains(err.Error(), "with no other one") {
		t.Errorf("without a shared store: %v", err)
	}
}

// The same request through two homes at once asks one question, however often that is tried.
func TestHomesAskOnceForTheSameRequest(t *testing.T) {
	t.Parallel()
	one, _, _, dsn := sharing(t, apptest.Options{Policy: askWrites})
	two := joining(t, one, dsn, apptest.Options{Policy: askWrites})
	for round := range 40 {
		begin, ids := make(chan struct{}), make(chan string, 4)
		for i := range cap(ids) {
			k := []*apptest.Kimbap{one, two}[i%2]
			go func() {
				<-begin
				ids <- k.Do(t, write, fmt.Sprintf(`{"text":"%d"}`, round)).Problem.Approval
			}()
		}
		close(begin)
		asked := map[string]bool{}
		for range cap(ids) {
			asked[<-ids] = true
		}
		if len(asked) != 1 || asked[""] {
			t.Fatalf("round %d: %v", round, asked)
		}
		for id := range asked { // so that there is room for the next one
			if _, err := one.App.Reject(t.Context(), id, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A grant that homes share is renewed once, whichever of them needs it: its provider takes
// each refresh token once.
func TestHomesRenewASharedGrantOnce(t *testing.T) {
	t.Parallel()
	p := &provider{}
	var ahead atomic.Int64
	o := apptest.Options{
		Services: []string{apptest.Notes, mailService}, Resolve: []string{"mail.notes.test:443", "login.notes.test:443"},
		Upstream: servicestest.Options{Routes: p.routes()}, Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	}
	one, _, _, dsn := sharing(t, o)
	two := joining(t, one, dsn, o)
	owner := one.Open(t, "")
	signIn(t, owner, confidential, true)
	read := func(k *apptest.Kimbap) apptest.Answer { return k.Do(t, "GET https://mail.notes.test/inbox", "") }
	for _, k := range []*apptest.Kimbap{one, two} {
		apptest.Within(t, soon, "the grant is taken up", func() bool { return read(k).Status == http.StatusOK })
	}
	for round := 2; round < 5; round++ {
		ahead.Add(int64(2 * time.Hour))
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				a, err := []*apptest.Kimbap{one, two}[i%2].Client(t, "").Get("https://mail.notes.test/inbox")
				if err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				defer a.Body.Close()
				if body, _ := io.ReadAll(a.Body); a.StatusCode != http.StatusOK {
					t.Errorf("round %d: %d %s", round, a.StatusCode, body)
				}
			})
		}
		all.Wait()
		p.mu.Lock()
		if p.n != round {
			t.Errorf("round %d: %d tokens", round, p.n)
		}
		p.mu.Unlock()
	}
}

// A process whose lease has run out, since it slept or could not write it, takes it again
// before it executes something: what it is doing is not told as lost.
func TestWhoSleptIsHeardOfBeforeItExecutes(t *testing.T) {
	t.Parallel()
	arrived, let := make(chan struct{}), make(chan struct{})
	var ahead, requests atomic.Int64
	o := apptest.Options{Policy: askWrites, Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}
	o.Upstream.Routes = map[string]servicestest.Behave{"/notes": func(c *servicestest.Conn, _ *servicestest.Request) bool {
		if requests.Add(1) == 2 {
			close(arrived)
			<-let
		}
		return c.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}}
	one, server, _, dsn := sharing(t, o)
	two := joining(t, one, dsn, apptest.Options{Policy: askWrites})
	yes := func(body string) {
		t.Helper()
		if _, err := two.App.Accept(t.Context(), one.Do(t, write, body).Problem.Approval, app.Yes{}); err != nil {
			t.Fatal(err)
		}
	}
	yes(`{"text":"first"}`)
	if a := one.Do(t, write, `{"text":"first"}`); a.Status != http.StatusOK {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	yes(`{"text":"second"}`)
	ahead.Add(int64(70 * time.Second))
	server.Exec(t, dsn[strings.LastIndexByte(dsn, '/')+1:], "UPDATE kimbap.leases SET until = now()")
	answered := make(chan apptest.Answer, 1)
	go func() { answered <- one.Do(t, write, `{"text":"second"}`) }()
	select {
	case <-arrived:
	case a := <-answered:
		t.Fatalf("it was not executed: %d %+v", a.Status, a.Problem)
	}
	if closed, err := two.App.Approvals().Sweep(t.Context(), runtime.DefaultTenant); err != nil || closed != 0 {
		t.Errorf("the other home closed %d: %v", closed, err)
	}
	close(let)
	if a := <-answered; a.Status != http.StatusOK {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	apptest.Within(t, soon, "the end is kept", func() bool { // which the caller does not wait for
		list, err := two.App.ListApprovals(t.Context(), true)
		return err == nil && len(list) == 2 && list[0].State == string(approval.Executed)
	})
}

// What a process of another home executes is not taken for lost while that lives, and is
// told as unknown when nothing is heard of it.
func TestWhatAnotherHomeExecutesIsNotLost(t *testing.T) {
	t.Parallel()
	arrived, let := make(chan struct{}), make(chan struct{})
	o := apptest.Options{Policy: askWrites}
	o.Upstream.Routes = map[string]servicestest.Behave{"/notes": func(c *servicestest.Conn, _ *servicestest.Request) bool {
		close(arrived)
		<-let
		return c.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}}
	one, server, _, dsn := sharing(t, o)
	two := joining(t, one, dsn, apptest.Options{Policy: askWrites})
	id := one.Do(t, write, `{"text":"a"}`).Problem.Approval
	if _, err := two.App.Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	answered := make(chan apptest.Answer, 1)
	go func() { answered <- one.Do(t, write, `{"text":"a"}`) }()
	<-arrived
	sweep := func(want int) {
		t.Helper()
		closed, err := two.App.Approvals().Sweep(t.Context(), runtime.DefaultTenant)
		if err != nil || closed != want {
			t.Errorf("the other home closed %d, want %d: %v", closed, want, err)
		}
	}
	sweep(0)
	server.Exec(t, dsn[strings.LastIndexByte(dsn, '/')+1:], "UPDATE kimbap.leases SET until = now()") // nothing was heard of it for a minute
	sweep(1)
	close(let)
	if a := <-answered; a.Status != http.StatusOK {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	list, err := two.App.ListApprovals(t.Context(), true)
	if err != nil || len(list) != 1 || list[0].State != string(approval.Unknown) {
		t.Errorf("%+v, %v", list, err)
	}
}

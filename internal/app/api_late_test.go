package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// How long somebody would wait for the decision is not how long the action may take then: it
// was broken off at that time, and its caller told that nobody had decided yet.
func TestAWaitForTheDecisionEndsWithIt(t *testing.T) {
	t.Parallel()
	const wait = 50 * time.Millisecond
	k := apptest.New(t, apptest.Options{Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
		"/notes/3": func(c *servicestest.Conn, r *servicestest.Request) bool {
			time.Sleep(10 * wait)
			return c.ReadBody(r) == nil && c.Send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n[\"done\"]")
		},
	}}})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	operator, _ := tokenOf(t, k, app.TokenGrant{Agent: "op", Roles: []string{runtime.RoleOperator}})
	path := "/v1/approvals/" + c.ask(t, agent, "POST", "/v1/actions/notes/delete-note:execute", `{"input":{"id":3}}`).problem(t).ApprovalID
	body := `{"wait":"` + wait.String() + `"}`
	if early := c.ask(t, agent, "POST", path+":result", body).problem(t); early.Code != runtime.CodeApprovalPending {
		t.Errorf("before anybody decided: %+v", early)
	}
	if yes := c.ask(t, operator, "POST", path+":accept", ""); yes.Status != 200 {
		t.Fatalf("%d %s", yes.Status, yes.Body)
	}
	if got := c.ask(t, agent, "POST", path+":result", body); got.Status != 200 || !strings.Contains(got.Body, "done") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

package catalog_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/jq"
)

// The end of pages that are numbered is an empty list, so their answers must be lists, and the
// numbers must begin at 1: what begins at 0, or is whole without a number, would come twice.
func TestNumberedPagesAreListsFromOne(t *testing.T) {
	fromOne := []runtime.Ref{
		"cloudflare.list-accounts", "cloudflare.list-zones", "cloudflare.list-dns-records", "cloudflare.list-kv-namespaces", "cloudflare.list-d1-databases",
	}
	answer := []byte(`{"success": true, "result": [{"id": "a"}], "result_info": {"page": 1}}`)
	for _, s := range overHTTP(load(t)) {
		for _, a := range s.Actions {
			if a.HTTP.Pages == nil || a.HTTP.Pages.Type != "page" {
				continue
			}
			if !slices.Contains(fromOne, a.Ref) {
				t.Errorf("%s: look up whether its pages begin at 1, and whether the first one comes without a number", a.Ref)
			}
			if list, err := jq.Filter(cmp.Or(a.HTTP.Filter, "."), answer); err != nil || !strings.HasPrefix(string(list), "[") {
				t.Errorf("%s: an answer is %s, no list (%v)", a.Ref, list, err)
			}
		}
	}
}

// The cursor of an answer is what the argument takes, and the last page has none.
func TestCursorsAreTakenFromAnswers(t *testing.T) {
	set := load(t)
	for _, c := range []struct{ action, answer, want string }{
		{"sendgrid.list-templates", `{"result": [], "_metadata": {"count": 5, "self": "https://api.sendgrid.com/v3/templates?page_token=a", "next": "https://api.sendgrid.com/v3/templates?page_token=LKi4_1v-%3D&generations=legacy,dynamic"}}`, `"LKi4_1v-="`},
		{"sendgrid.list-templates", `{"result": [], "_metadata": {"next": "https://api.sendgrid.com/v3/templates?generations=dynamic&page_token=b"}}`, `"b"`},
		{"sendgrid.list-templates", `{"result": [], "_metadata": {"count": 5}}`, ""},
		{"sendgrid.list-templates", `{"result": []}`, ""},
		{"confluence.search", `{"results": [], "start": 0, "limit": 1, "_links": {"base": "https://acme.atlassian.net/wiki", "next": "/rest/api/search?next=true&cursor=_sa_WyJcdDAiXQ%3D%3D&limit=1&start=1&cql=type%3Dpage"}}`, `"_sa_WyJcdDAiXQ=="`},
		{"confluence.search", `{"results": [], "_links": {"next": "/rest/api/search?cql=text~x&limit=1&cursor=a+b/c=="}}`, `"a+b/c=="`},
		{"confluence.search", `{"results": [], "_links": {"base": "https://acme.atlassian.net/wiki", "self": "https://acme.atlassian.net/wiki/rest/api/search?cursor=b"}}`, ""},
		{"confluence.search", `{"results": []}`, ""},
		{"linear.list-issues", `{"data": {"issues": {"nodes": [{}], "pageInfo": {"hasNextPage": true, "endCursor": "c"}}}}`, `"c"`},
		{"linear.list-issues", `{"data": {"issues": {"nodes": [{}], "pageInfo": {"hasNextPage": false, "endCursor": "c"}}}}`, ""},
		{"linear.list-projects", `{"data": {"projects": {"nodes": [{}], "pageInfo": {"hasNextPage": false, "endCursor": "c"}}}}`, ""},
		{"linear.search-issues", `{"data": {"searchIssues": {"nodes": [{}], "pageInfo": {"hasNextPage": false, "endCursor": "c"}}}}`, ""},
		{"stripe.list-invoices", `{"data": [{"id": "in_1"}, {"id": "in_2"}], "has_more": true}`, `"in_2"`},
		{"stripe.list-invoices", `{"data": [{"id": "in_3"}], "has_more": false}`, ""},
		{"stripe.list-payment-intents", `{"data": [{"id": "pi_1"}], "has_more": true}`, `"pi_1"`},
		{"stripe.list-subscriptions", `{"data": [], "has_more": false}`, ""},
		{"resend.list-emails", `{"data": [{"id": "a"}, {"id": "b"}], "has_more": true}`, `"b"`},
		{"resend.list-emails", `{"data": [{"id": "c"}], "has_more": false}`, ""},
		{"vercel.list-deployments", `{"deployments": [], "pagination": {"count": 20, "next": 1555072968396, "prev": null}}`, "1555072968396"},
		{"vercel.list-deployments", `{"deployments": [], "pagination": {"count": 2, "next": null}}`, ""},
		{"pagerduty.list-incidents", `{"incidents": [], "limit": 25, "offset": 50, "more": true, "total": null}`, "75"},
		{"pagerduty.list-incidents", `{"incidents": [], "limit": 25, "offset": 75, "more": false}`, ""},
		{"jira.list-comments", `{"startAt": 50, "maxResults": 50, "total": 101, "comments": []}`, "100"},
		{"jira.list-comments", `{"startAt": 50, "maxResults": 50, "total": 100, "comments": []}`, ""},
		{"jira.list-projects", `{"startAt": 0, "maxResults": 50, "isLast": false, "values": []}`, "50"},
		{"jira.list-sprints", `{"startAt": 50, "maxResults": 50, "isLast": true, "values": []}`, ""},
		{"discord.list-messages", `[{"id": "9"}, {"id": "8"}]`, `"8"`},
		{"discord.list-members", `[{"user": {"id": "8"}}, {"user": {"id": "9"}}]`, `"9"`},
		{"discord.list-members", `[]`, ""},
		{"discord.list-pins", `{"items": [{"pinned_at": "2026-01-01T00:00:00Z"}], "has_more": true}`, `"2026-01-01T00:00:00Z"`},
		{"figma.list-team-styles", `{"meta": {"styles": [], "cursor": {"before": 1, "after": 30}}}`, "30"},
		{"figma.list-team-styles", `{"meta": {"styles": []}}`, ""},
		{"slack.search-messages", `{"messages": {"matches": [], "paging": {"count": 20, "total": 50, "page": 2, "pages": 3}}}`, "3"},
		{"slack.search-messages", `{"messages": {"matches": [], "paging": {"page": 3, "pages": 3}}}`, ""},
		{"slack.list-files", `{"files": [], "paging": {"page": 1, "pages": 1}}`, ""},
		{"datadog.search-monitors", `{"monitors": [], "metadata": {"page": 0, "page_count": 2}}`, "1"},
		{"datadog.search-monitors", `{"monitors": [], "metadata": {"page": 1, "page_count": 2}}`, ""},
		{"airtable.list-webhook-payloads", `{"payloads": [], "cursor": 51, "mightHaveMore": true}`, "51"},
		{"airtable.list-webhook-payloads", `{"payloads": [], "cursor": 60, "mightHaveMore": false}`, ""},
		{"anthropic.list-batches", `{"data": [], "has_more": true, "first_id": "a", "last_id": "b"}`, `"b"`},
		{"sendgrid.list-lists", `{"result": [], "_metadata": {"next": "https://api.sendgrid.com/v3/marketing/lists?page_size=1&page_token=t-"}}`, `"t-"`},
		{"cloudflare.list-pages-projects", `{"result": [], "result_info": {"page": 1, "total_pages": 2}}`, "2"},
		{"cloudflare.list-firewall-rules", `{"result": [], "result_info": {"page": 2, "total_pages": 2}}`, ""},
		{"linear.list-teams", `{"data": {"teams": {"nodes": [{}], "pageInfo": {"hasNextPage": true, "endCursor": "c"}}}}`, `"c"`},
		{"linear.list-labels", `{"data": {"issueLabels": {"nodes": [{}], "pageInfo": {"hasNextPage": false, "endCursor": "c"}}}}`, ""},
	} {
		action, ok := set.Action(c.action)
		if !ok || action.HTTP.Pages == nil {
			t.Fatalf("%s has no pages", c.action)
		}
		got, err := jq.Filter("first("+action.HTTP.Pages.Next+") // empty", []byte(c.answer))
		if err != nil || strings.TrimSpace(string(got)) != c.want {
			t.Errorf("%s: after %s comes %s, want %s (%v)", c.action, c.answer, got, c.want, err)
		}
	}
}

// A list that takes an argument for its next page says how it goes on, so that --all finds all
// of it. The answers of these say nothing of what follows.
func TestListsSayHowTheyGoOn(t *testing.T) {
	silent := []runtime.Ref{
		"codex.list-tasks", "datadog.list-hosts", "datadog.list-dashboards", "datadog.list-incidents", "datadog.list-monitors", "figma.list-reactions", "figma.list-versions",
		"figma.list-webhooks", "jira.search-users", "npm.list-staged", "npm.list-tokens", "sendgrid.list-blocks", "sendgrid.list-bounces", "sendgrid.list-invalid-emails", "sendgrid.list-spam-reports",
		"sendgrid.list-unsubscribes", "twilio.list-calls", "twilio.list-messages",
	}
	onward := []string{"after", "after_id", "cursor", "next_cursor", "offset", "page", "Page", "pageToken", "page_token", "start", "startAt", "start_cursor", "starting_after", "until"}
	for _, s := range overHTTP(load(t)) {
		for _, a := range s.Actions {
			takes := slices.ContainsFunc(a.Params, func(p runtime.Param) bool {
				return slices.Contains(onward, p.Name) && p.Type != runtime.TypeObject && (p.Type == runtime.TypeInteger || p.Name != "until")
			})
			list := strings.HasPrefix(a.Name, "list-") || strings.HasPrefix(a.Name, "search-")
			if list && takes && a.HTTP.Pages == nil && !slices.Contains(silent, a.Ref) {
				t.Errorf("%s has no pagination", a.Ref)
			}
		}
	}
}

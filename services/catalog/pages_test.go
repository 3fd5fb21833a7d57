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

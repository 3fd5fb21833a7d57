package catalog_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/jq"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// What an action shows of an answer holds what one chooses by, and what was asked for.
func TestFiltersKeepWhatDecides(t *testing.T) {
	set := load(t)
	const issues = `{"issues": [{"id": "10", "key": "K-1", "self": "https://acme.atlassian.net/x", "fields": {"summary": "rice", "status": {"name": "Open", "id": "1"}, "assignee": {"displayName": "Mina", "avatarUrls": {}}, "priority": null, "labels": ["a"]}}]}`
	const issue = `[{"id": "10", "key": "K-1", "summary": "rice", "status": "Open", "assignee": "Mina", "priority": null, "labels": ["a"]}]`
	for _, c := range []struct{ action, answer, want string }{
		{"jira.search-issues", issues, issue},
		{"jira.search-issues-v2", issues, issue},
		{"jira.search-issues-by-post", issues, issue},
		{"jira.search-issues", `{"issues": [{"id": "10", "key": "K-1"}]}`, `[{"id": "10", "key": "K-1"}]`},
		{"notion.search", `{"results": [{"id": "p", "object": "page", "url": "u", "properties": {"Done": {"type": "checkbox", "checkbox": true}, "Name": {"type": "title", "title": [{"plain_text": "ri"}, {"plain_text": "ce"}]}}}]}`,
			`[{"id": "p", "object": "page", "url": "u", "title": "rice"}]`},
		{"notion.search", `{"results": [{"id": "d", "object": "database", "url": "u", "title": [{"plain_text": "Menu"}], "properties": {"Name": {"type": "title", "title": {}}}}]}`,
			`[{"id": "d", "object": "database", "url": "u", "title": "Menu"}]`},
		{"github.list-issues", `[{"number": 2, "title": "rice", "state": "open", "user": {"login": "mina"}, "labels": [{"name": "bug"}], "updated_at": "2026-01-01", "html_url": "h", "pull_request": {"html_url": "p"}}, {"number": 1, "title": "t", "state": "open", "user": null, "labels": [], "updated_at": "2026-01-01", "html_url": "h"}]`,
			`[{"number": 2, "title": "rice", "state": "open", "user": "mina", "labels": ["bug"], "updated_at": "2026-01-01", "html_url": "h", "pull_request": "p"}, {"number": 1, "title": "t", "state": "open", "user": null, "labels": [], "updated_at": "2026-01-01", "html_url": "h", "pull_request": null}]`},
		{"github.list-pull-requests", `[{"number": 2, "title": "rice", "state": "open", "draft": true, "user": {"login": "mina"}, "head": {"ref": "a"}, "base": {"ref": "b"}, "html_url": "h"}]`,
			`[{"number": 2, "title": "rice", "state": "open", "draft": true, "user": "mina", "head": "a", "base": "b", "html_url": "h"}]`},
		{"google-drive.list-files", `{"nextPageToken": "n", "files": [{"id": "f", "size": "7"}]}`, `[{"id": "f", "size": "7"}]`},
		{"confluence.search", `{"results": [{"content": {"id": "7", "type": "page"}, "title": "rice", "url": "u", "excerpt": "e"}]}`, `[{"id": "7", "title": "rice", "url": "u", "excerpt": "e"}]`},
	} {
		action, ok := set.Action(c.action)
		if !ok {
			t.Fatalf("there is no %s", c.action)
		}
		got, err := jq.Filter(cmp.Or(action.HTTP.Filter, "."), []byte(c.answer))
		if err != nil || !sameJSON(t, got, c.want) {
			t.Errorf("%s shows %s, want %s (%v)", c.action, got, c.want, err)
		}
	}
}

func sameJSON(t *testing.T, got []byte, want string) bool {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	return json.Unmarshal(got, &g) == nil && reflect.DeepEqual(g, w)
}

// The fields that the search of issues shows are asked for: Jira answers with ids alone otherwise.
// An action of Notion's data sources names the first version that has them.
func TestRequestsAskForWhatTheyShow(t *testing.T) {
	set := load(t)
	for _, c := range []struct{ action, target, version string }{
		{"jira.search-issues", "/rest/api/3/search/jql?jql=x&fields=summary%2Cstatus%2Cassignee%2Cpriority%2Cupdated", ""},
		{"jira.search-issues-v2", "/rest/api/2/search/jql?jql=x&fields=summary%2Cstatus%2Cassignee%2Cpriority%2Cupdated", ""},
		{"notion.query-data-source", "/v1/data_sources/x/query", "2025-09-03"},
		{"notion.get-data-source", "/v1/data_sources/x", "2025-09-03"},
		{"notion.update-data-source", "/v1/data_sources/x", "2025-09-03"},
		{"notion.query-database", "/v1/databases/x/query", "2022-06-28"},
		{"notion.get-database", "/v1/databases/x", "2022-06-28"},
	} {
		built := builtBy(t, set, c.action, nil)
		if built.Target != c.target || built.Header.Get("Notion-Version") != c.version {
			t.Errorf("%s asks for %s by version %q, want %s by %q", c.action, built.Target, built.Header.Get("Notion-Version"), c.target, c.version)
		}
	}
}

// What an API reads in the query beside a body of any members does not go into the body.
func TestParametersBesideABodyStandInTheQuery(t *testing.T) {
	set := load(t)
	for ref, query := range map[string]string{
		"google-drive.create-file":       "supportsAllDrives=true",
		"google-drive.copy-file":         "supportsAllDrives=true",
		"google-drive.update-file":       "supportsAllDrives=true",
		"google-drive.trash-file":        "supportsAllDrives=true",
		"google-drive.upload-file":       "uploadType=media&supportsAllDrives=true",
		"google-drive.create-permission": "supportsAllDrives=true&sendNotificationEmail=false",
		"google-drive.update-permission": "supportsAllDrives=true",
		"google-calendar.create-event":   "conferenceDataVersion=1",
		"google-calendar.patch-event":    "conferenceDataVersion=1",
	} {
		args := runtime.Args{}
		for pair := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(pair, "=")
			args[name] = value
		}
		built := builtBy(t, set, ref, args)
		if _, got, _ := strings.Cut(built.Target, "?"); got != query || strings.Contains(string(built.Body), "supportsAllDrives") {
			t.Errorf("%s asks %s with %s, want ?%s", ref, built.Target, built.Body, query)
		}
	}
}

// builtBy is the request of an action with these arguments, and else what it requires alone.
func builtBy(t *testing.T, set *services.Set, ref string, given runtime.Args) *runtime.Built {
	t.Helper()
	action, ok := set.Action(ref)
	if !ok {
		t.Fatalf("there is no %s", ref)
	}
	args := maps.Clone(given)
	if args == nil {
		args = runtime.Args{}
	}
	for _, p := range action.Params {
		if p.Required {
			args[p.Name] = servicestest.Sample(p, "x")
		}
	}
	found, err := set.Resolve(&runtime.Request{Action: action.Ref, Args: args})
	if err != nil {
		t.Fatalf("%s: %v", ref, err)
	}
	return found.Built
}

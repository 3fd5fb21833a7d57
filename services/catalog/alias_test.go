package catalog_test

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// Where Jira is installed alone, its key opens the site's wiki too: writes there are asked about,
// and told apart by the wiki's own service once that is there.
func TestTheWikiIsNoOrdinaryWriteOfJira(t *testing.T) {
	jira := read(t, "jira")
	alone, err := services.NewSet([]*services.Service{jira})
	if err != nil {
		t.Fatal(err)
	}
	both, err := services.NewSet([]*services.Service{jira, read(t, "confluence")})
	if err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]string{
		"POST /wiki/rest/api/space/K/permission": "confluence.add-space-permission", "PUT /wiki/rest/api/content/1/restriction": "confluence.set-restrictions",
		"POST /wiki/rest/api/content": "confluence.api-write", "PUT /wiki/rest/api/content/1": "confluence.api-write", "PUT /wiki/api/v2/tasks/1": "confluence.api-write",
	} {
		method, target, _ := strings.Cut(request, " ")
		in := classifier.Input{Scheme: "https", Authority: "acme.atlassian.net:443", Method: method, Target: target, Header: http.Header{}}
		m, err := alone.Table().Match(in)
		if a, _ := alone.Action(m.Action); err != nil || a == nil || !above(a.Risk, runtime.RiskMedium) {
			t.Errorf("%s of Jira alone is %s: %v", request, describe(a), err)
		}
		if m, err := both.Table().Match(in); err != nil || m.Action != want {
			t.Errorf("%s is %q, not %s: %v", request, m.Action, want, err)
		}
	}
}

// Paths that the services themselves take for others: what is critical or asked
// about by one of them is not a mild write by another.
func TestOtherNamesOfAPathAreNoWayAround(t *testing.T) {
	set := load(t)
	for _, c := range []struct{ authority, method, target, of string }{
		{"discord.com:443", "PUT", "/api/v9/guilds/1/bans/2", "discord.ban-member, by the version before"},
		{"discord.com:443", "PUT", "/api/v9/guilds/1/bans/2/", "discord.ban-member, by the version before and with a final slash"},
		{"api.github.com:443", "PUT", "/repos/o/r/hooks/7/", "github.update-webhook, by PUT and with a final slash"},
		{"gitlab.com:443", "POST", "/api/v4/projects/1/hooks%2ejson", "gitlab.create-webhook, with an escaped format"},
		{"discord.com:443", "POST", "/api/channels/1/webhooks", "discord.create-webhook, by no version"},
		{"acme.atlassian.net:443", "POST", "/rest/api/latest/project/1/delete", "jira.delete-project-later, by the latest version"},
		{"api.twilio.com:443", "POST", "/2010-04-01/Accounts/AC1/Keys", "twilio.create-key, answered in XML"},
		{"api.twilio.com:443", "POST", "/2010-04-01/Accounts/AC1/Keys.csv", "twilio.create-key, answered in CSV"},
		{"api.twilio.com:443", "POST", "/2008-08-01/Accounts/AC1/Calls.json", "twilio.make-call, by the version before"},
		{"api.vercel.com:443", "POST", "/v1/user/tokens", "vercel's token, by an older version"},
		{"api.airtable.com:443", "DELETE", "/v0/Meta/bases/app1", "airtable.delete-base: Express takes any case"},
		{"api.hubapi.com:443", "POST", "/crm/v4/objects/contacts/batch/archive", "hubspot.batch-archive, by version 4"},
	} {
		m, err := set.Table().Match(classifier.Input{Scheme: "https", Authority: c.authority, Method: c.method, Target: c.target, Header: http.Header{}})
		var refused *classifier.Error
		if !errors.As(err, &refused) || refused.Code != "ambiguous_target" {
			t.Errorf("%s (%s %s) is %q: %v", c.of, c.method, c.target, m.Action, err)
		}
	}
}

// By another version of the path a login is no ordinary write, though to renew one is.
func TestALoginByAnotherVersionIsKnownByItsBody(t *testing.T) {
	set := load(t)
	in := classifier.Input{Scheme: "https", Authority: "platform.claude.com:443", Method: "POST", Target: "/v2/oauth/token", Header: http.Header{}}
	if m, err := set.Table().Match(in); err != nil || !m.NeedBody {
		t.Errorf("its body is not asked for: %q, %v", m.Action, err)
	}
	for body, want := range map[string]string{
		`{"grant_type": "refresh_token", "refresh_token": "r"}`: "claude-code.api-write",
		`{"grant_type": "authorization_code", "code": "c"}`:     "",
	} {
		in.Body, _ = classifier.ParseBody("application/json", "", []byte(body))
		if m, err := set.Table().Match(in); m.Action != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, not %q: %v", body, m.Action, want, err)
		}
	}
}

// GitHub takes POST for PATCH.
func TestPostForPatchAtGitHub(t *testing.T) {
	set := load(t)
	for target, want := range map[string]string{
		"/repos/o/r": "github.update-repository", "/orgs/o": "github.update-org", "/repos/o/r/hooks/7": "github.update-webhook", "/repos/o/r/invitations/7": "github.update-invitation",
	} {
		m, err := set.Table().Match(classifier.Input{Scheme: "https", Authority: "api.github.com:443", Method: "POST", Target: target, Header: http.Header{}})
		if err != nil || m.Action != want {
			t.Errorf("POST %s is %q, not %s: %v", target, m.Action, want, err)
		}
	}
}

// One request that holds many, which are not told apart, counts as the worst of them.
func TestBatchesAreAsBadAsWhatTheyMayHold(t *testing.T) {
	set := load(t)
	for target, want := range map[string]runtime.Risk{
		"generativelanguage.googleapis.com/batch":           runtime.RiskCritical,
		"generativelanguage.googleapis.com/batch/v1beta":    runtime.RiskCritical,
		"generativelanguage.googleapis.com/batch/a/v1/more": runtime.RiskCritical,
		"sheets.googleapis.com/batch":                       runtime.RiskHigh,
		"sheets.googleapis.com/batch/sheets/v4":             runtime.RiskHigh,
		"gmail.googleapis.com/batch":                        runtime.RiskCritical,
		"gmail.googleapis.com/batch/gmail/v1beta1":          runtime.RiskCritical,
		"www.googleapis.com/batch/drive/v3":                 runtime.RiskCritical,
		"www.googleapis.com/batch/drive":                    runtime.RiskCritical,
		"www.googleapis.com/batch/drive/v3/more":            runtime.RiskCritical,
	} {
		host, path, _ := strings.Cut(target, "/")
		m, err := set.Table().Match(classifier.Input{Scheme: "https", Authority: host + ":443", Method: "POST", Target: "/" + path, Header: http.Header{}})
		if a, _ := set.Action(m.Action); err != nil || a == nil || a.Risk != want {
			t.Errorf("%s is %q: %v", target, m.Action, err)
		}
	}
}

// What is guarded at HubSpot by a number of a version is no milder by a date: that stands behind
// the next word of the path, or in the same place.
func TestDatedPathsOfHubSpotAreNoMilder(t *testing.T) {
	set, tried := load(t), 0
	elsewhere := []string{"create-visitor-token", "send-single-email"} // their dated paths have other words
	numbered := regexp.MustCompile(`^/([a-z-]+)/v[0-9]+/([^/]+)(.*)$`)
	for _, a := range service(t, set, "hubspot").Actions {
		if !above(a.Risk, runtime.RiskMedium) || slices.Contains(elsewhere, a.Name) || !numbered.MatchString(a.HTTP.Path) {
			continue
		}
		tried++
		to := "/$1/$2/2026-09$3"
		if !slices.Contains(strings.Fields("automation cms conversations crm marketing settings"), numbered.FindStringSubmatch(a.HTTP.Path)[1]) {
			to = "/$1/2026-09/$2$3"
		}
		path := hole.ReplaceAllString(numbered.ReplaceAllString(a.HTTP.Path, to), "7")
		in := classifier.Input{Scheme: "https", Authority: "api.hubapi.com:443", Method: a.HTTP.Method, Target: path, Header: http.Header{}}
		in.Body, _ = classifier.ParseBody("application/json", "", []byte(`{"access": "PUBLIC_INDEXABLE"}`))
		m, err := set.Table().Match(in)
		if found, _ := set.Action(m.Action); err == nil && (found == nil || above(a.Risk, found.Risk)) {
			t.Errorf("%s %s is %s, and %s is %s", in.Method, path, describe(found), a.Ref, a.Risk)
		}
	}
	if tried < 40 {
		t.Errorf("only %d actions were tried", tried)
	}
}

// A push is one however deep its project lies in groups.
func TestAPushIsOneAtAnyDepth(t *testing.T) {
	set := load(t)
	for depth := 1; depth <= 6; depth++ {
		target := strings.Repeat("/g", depth) + "/p.git/git-receive-pack"
		m, err := set.Table().Match(classifier.Input{Scheme: "https", Authority: "gitlab.com:443", Method: "POST", Target: target, Header: http.Header{}})
		if err != nil || !m.Push || !strings.HasPrefix(m.Action, "gitlab-git.push") {
			t.Errorf("%s is %q: %v", target, m.Action, err)
		}
	}
}

// A project or group of GitLab is a number or a path, whose slashes are escaped:
// each action has both, and none falls to a catch-all by the path.
func TestGitLabTakesPathsForNumbers(t *testing.T) {
	set, tried := load(t), 0
	s := service(t, set, "gitlab")
	for _, a := range s.Actions {
		if !strings.Contains(a.HTTP.Path, "/projects/{") && !strings.Contains(a.HTTP.Path, "/groups/{") {
			continue
		}
		args := sample(a)
		for _, name := range []string{"id", "project_id"} {
			if text, isText := args[name].(string); isText {
				args[name] = "acme/" + text
			}
		}
		in := wire(t, a, args)
		in.Scheme, in.Authority = "https", s.Authorities[0]
		tried++
		if m, err := set.Table().Match(in); err != nil || m.Action != string(a.Ref) {
			t.Errorf("%s %s is %q, not %s: %v", in.Method, in.Target, m.Action, a.Ref, err)
		}
	}
	if tried < 100 {
		t.Errorf("only %d actions were tried", tried)
	}
}

// The registry of npm decodes the slash in the name of a package, so that a name with more of
// them may be another path: to log in, to change who is in an organisation, or a package's owners.
func TestTheNameOfAPackageIsNoOtherPath(t *testing.T) {
	set := load(t)
	for request, works := range map[string]bool{
		"PUT /left-pad": true, "PUT /@babel%2fcore": true, "GET /%40babel%2Fcore": true, "GET /left.pad_~1": true,
		"PUT /-%2Fuser%2Forg.couchdb.user:me": false, "PUT /-%2Forg%2Facme%2Fuser": false, "PUT /@acme%2Fa%2F-rev%2F1-x": false,
		"PUT /left-pad%2F-rev%2F1-x": false, "PUT /-%5Cuser%5Cme": false, "GET /-%2Fv1%2Fdone?authId=a": false, "GET /@acme%2F-%2Fx": false,
	} {
		method, target, _ := strings.Cut(request, " ")
		m, err := set.Table().Match(classifier.Input{Scheme: "https", Authority: "registry.npmjs.org:443", Method: method, Target: target, Header: http.Header{}})
		if a, _ := set.Action(m.Action); err == nil {
			_, err = set.Resolve(&runtime.Request{
				Action: a.Ref, Args: m.Args, Query: m.Query, Raw: &runtime.Raw{Header: http.Header{}},
				Target: runtime.Target{Scheme: "https", Authority: "registry.npmjs.org:443", Method: method, Path: target},
			})
		}
		if (err == nil) != works {
			t.Errorf("%s is %s: %v", request, m.Action, err)
		}
	}
}

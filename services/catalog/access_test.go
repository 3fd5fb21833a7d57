package catalog_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// lasting finds, in "METHOD path name", what may hand out power that outlives
// the call: it is meant to find too much, and each find is typed or explained.
var lasting = regexp.MustCompile(`(?i)token|[/_.-]keys?\b|api_?key|client_secret|secrets/.*repositor|credential|oauth|openid|oidc|` +
	`hook|collaborat|member|invit|runner|jitconfig|roles?\b|service_account|session|certificate|` +
	`permission|restrict|[/_.-]access|restrictAccess|assign-?(user|team|group)|(add|approve).*(user|group|team|app)|user/emails|installations|manifest|` +
	`setAdmin|setOwner|setRegular|setExpiration|setTeams|discoverab|_admins|admins\.|owners\.|PublicURL|public-key|rtm\.|connections\.open|` +
	`usergroups.*(add|update)|teams? *$|teams/(create|update)|orgs/update|environment|deployment_protection|approve|transfer|scopes|` +
	// What people log in with, and from where; where data goes on; what others may see.
	`saml|scim|external-groups|group-mappings|audit-log/streams|[/_]sso[/_]|two_factor|idp_metadata|(ip|domain)_allowlist|persona_mapping|AccessControl|IpAddress|` +
	`unblock|unban|unrevoke|federation_|devices/posture|rotate[_-]secret|client-secret|psk|calls/apps |/participants |meetings/{}/participants/{} |challenges/widgets|private-locations |v2/datasets/{} |WithParticipants |/Factors |v4/actions/{}(/{})? |servicedesk/{}/organization |` +
	`/forwarding/({}/)? |email/routing/rules|logpush/.*jobs|telemetry_destinations|custom-destinations|observability/destinations|event_destinations|SubscribedEvents|(Create|Update)(Event)?Subscription$|MessageSubscription|UsageTrigger|` +
	`JoinRequestQuery|move_to_workspace|v1/workspaces/{} |redirect_to_stripe|subusers/{}/monitor |/(verified_)?senders(/{})? |file_links|plans/plan/{} |secret-scanning/alerts/|secure-embed|/shares\b|delegations|domains/(custom|managed)|live_inputs|livestreams|cfd_tunnel|warp_connector|(teamnet|zerotrust)/routes|share-?scope|event_orchestrations(/services)?(/{})? |/contact_methods/{} `)

// leaking finds reads whose answer holds a secret. Slack's methods take GET for
// everything, so there all count.
var leaking = regexp.MustCompile(`(?i)secret-scanning/.*alerts?\b|token|jitconfig|credential|oauth|rtm\.|(api|application|app)[_-]?key|images/v1/keys|[a-z]/triggers/{} |ci.*variables|pipelines/.*variables|/v1/env/|Accounts(/{})?\.json|` +
	`secure_files/.*download|projects/{}/{}/hooks/|sentry-apps/({}/)? |auth-code|[/-]drains(/{})? |pipeline_schedules/{} |orchestrations/{}(/integrations| )|GET /rulesets(/{})? |live_inputs/{}|realtime/.*livestreams?|stream/webhook |override_codes|challenges/widgets/{} |/templates/url |/tsigs|logpush/.*jobs`)

// exemptions reads testdata/exempt.txt: "METHOD path" → why it hands out nothing.
func exemptions(t *testing.T) map[string]string {
	t.Helper()
	return reasons(t, "exempt.txt")
}

// reasons reads a file of testdata whose lines stand under the reason why they
// are there: a line that begins with "# ".
func reasons(t *testing.T, name string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	out, why := map[string]string{}, ""
	for _, line := range strings.Split(string(data), "\n")[1:] {
		if reason, ok := strings.CutPrefix(line, "# "); ok {
			why = reason
		} else if line != "" {
			out[line] = why
		}
	}
	return out
}

func TestWhatHandsOutAccessIsTyped(t *testing.T) {
	set, exempt := load(t), exemptions(t)
	found, used := 0, map[string]bool{}
	for _, name := range indexed() {
		s := service(t, set, name)
		for _, o := range readIndex(t, name) {
			if !suspicious(name, o) {
				continue
			}
			found++
			a := classify(t, set, s, o)
			why, known := exempt[o.String()]
			used[o.String()] = true
			typed := a != nil && a.GrantsAccess && a.Risk == runtime.RiskCritical && !catchAll(a)
			switch {
			case !typed && !known:
				t.Errorf("%s (%s) may hand out lasting access and is %s: type it with grants_access, or say in testdata/exempt.txt why it does not", o, o.Name, describe(a))
			case typed && known:
				t.Errorf("%s is typed as %s: take it off the exemptions (%s)", o, a.Ref, why)
			}
		}
	}
	for o, why := range exempt {
		if used[o] {
			continue
		}
		t.Errorf("the exemption of %s is for nothing (%s)", o, why)
	}
	if found < 200 {
		t.Errorf("only %d operations were looked at: is the index complete?", found)
	}
}

func describe(a *runtime.Action) string {
	if a == nil {
		return "no action"
	}
	return string(a.Ref) + " at " + string(a.Risk)
}

// suspicious picks the operations to look at. DELETE takes away; a catch-all
// makes it high risk.
func suspicious(service string, o operation) bool {
	line := o.Method + " " + hole.ReplaceAllString(o.Path, "{}") + " " + o.Name
	switch o.Method {
	case http.MethodDelete:
		return false
	case http.MethodGet:
		if service != "slack" {
			return leaking.MatchString(line)
		}
		// The name of a Slack method says whether it reads.
		if strings.HasSuffix(o.Path, "ist") || strings.HasSuffix(o.Path, ".info") || strings.Contains(o.Path, ".list") {
			return false
		}
	}
	return lasting.MatchString(line)
}

// authority is where an operation of an index is: the host that it names, the one that
// an action of the same path is kept to, or the first host of its service.
func authority(s *services.Service, o operation) string {
	if o.Host != "" {
		return o.Host + ":443"
	}
	for _, a := range s.Actions {
		if len(a.HTTP.Authorities) < len(s.Authorities) && unslashed(o.Path) == unslashed(base(a)+a.HTTP.Path) {
			return a.HTTP.Authorities[0]
		}
	}
	return s.Authorities[0]
}

func classify(t *testing.T, set *services.Set, s *services.Service, o operation) *runtime.Action {
	t.Helper()
	target := hole.ReplaceAllString(o.Path, "7")
	in := classifier.Input{Scheme: "https", Authority: authority(s, o), Method: o.Method, Target: target, Header: http.Header{}}
	m, err := set.Table().Match(in)
	if err == nil && m.NeedBody {
		if in.Body, err = classifier.ParseBody("application/json", "", []byte("{}")); err == nil {
			m, err = set.Table().Match(in)
		}
	}
	if err != nil {
		t.Errorf("%s: %v", o, err)
	}
	a, _ := set.Action(m.Action)
	return a
}

// granting reads testdata/granting.txt: "SERVICE METHOD path" of what is known to
// hand out lasting access.
func granting(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "granting.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, line := range strings.Split(string(data), "\n")[1:] {
		if line != "" {
			out = append(out, line)
		}
	}
	if len(out) < 400 {
		t.Fatalf("granting.txt has %d lines", len(out))
	}
	return out
}

// Of the services without an index, the operations we know of.
func TestAccessOfServicesWithoutAnIndex(t *testing.T) {
	set := load(t)
	for _, line := range granting(t) {
		words := strings.Fields(line)
		host, path := at(words[2])
		o := operation{Method: words[1], Host: host, Path: path}
		a := classify(t, set, service(t, set, words[0]), o)
		if a == nil || !a.GrantsAccess || a.Risk != runtime.RiskCritical {
			t.Errorf("%s is %s", line, describe(a))
		}
	}
}

// No other spelling of an operation that hands out access reaches an action of
// lower risk: it is that action, or a refusal.
func TestAccessHasNoOtherSpelling(t *testing.T) {
	set, tried := load(t), 0
	for _, s := range overHTTP(set) {
		for _, a := range s.Actions {
			if !a.GrantsAccess {
				continue
			}
			for _, method := range methods(s, a) {
				in := wire(t, a, sample(a))
				in.Scheme, in.Authority, in.Method, in.Body = "https", a.HTTP.Authorities[0], method, nil
				path, query, _ := strings.Cut(in.Target, "?")
				for _, spelling := range spellings(path) {
					if toldByQuery(s, a) { // without that it is another request, and may be a milder one
						bare, more, _ := strings.Cut(spelling, "?")
						spelling = bare + "?" + query + "&" + more
					}
					if strings.HasSuffix(a.HTTP.Path, "...}") && slashes(spelling) {
						continue // %2F as a separator is seen through for paths of fixed length only
					}
					in.Target = spelling
					tried++
					m, err := set.Table().Match(in)
					found, _ := set.Action(m.Action)
					if s.Name == "gitlab" && slashes(spelling) && found != nil && !catchAll(found) {
						continue // a project is named by its whole path, as one segment: "group%2Ftransfer" is one
					}
					if err == nil && found != nil && !found.GrantsAccess {
						t.Errorf("%s %s reaches %s, and %s may be meant", method, spelling, describe(found), a.Ref)
					}
				}
			}
		}
	}
	if tried < 1000 {
		t.Errorf("only %d spellings were tried", tried)
	}
}

// toldByQuery reports whether a parameter of the query tells an action from others of its path.
func toldByQuery(s *services.Service, a *runtime.Action) bool {
	return slices.ContainsFunc(s.Routes, func(r classifier.Route) bool { return r.Action == string(a.Ref) && len(r.Match.Query) > 0 })
}

// slashes reports whether a path holds an encoded separator.
func slashes(path string) bool {
	path = strings.ToLower(path)
	return strings.Contains(path, "%2f") || strings.Contains(path, "%5c")
}

// spellings are other ways to write a path that some server takes for the same.
func spellings(path string) []string {
	if bare, ok := strings.CutSuffix(path, "/"); ok {
		return append(spellings(bare), bare)
	}
	last := strings.LastIndexByte(path, '/')
	lastButOne := strings.LastIndexByte(path[:last], '/')
	out := []string{
		path + "/", path + "//", path + "/.", path + "?x=1", path + "?_method=GET", path + ";x=1", path + "%00",
		"/" + path, "/." + path, "/x/.." + path, "/x%2f.." + path,
		path[:last] + "//" + path[last+1:], path[:last] + "%2F" + path[last+1:], path[:last] + "%5c" + path[last+1:],
		path[:last+1] + fmt.Sprintf("%%%02x", path[last+1]) + path[last+2:],
		"/" + fmt.Sprintf("%%%02X", path[1]) + path[2:],
	}
	if lastButOne > 0 {
		out = append(out, path[:lastButOne]+"%2f"+path[lastButOne+1:], path[:lastButOne]+"%252F"+path[lastButOne+1:]+"%253Fx")
	}
	if colon := strings.LastIndexByte(path, ':'); colon > last {
		out = append(out, path[:colon]+"%253A"+path[colon+1:], path+".json", path+"%20", path[:colon+1]+strings.ToUpper(path[colon+1:]))
	}
	for _, more := range []string{"%3Fx", "%3Fx/y", "%23x", "%253Bx", "%25253Fx=1", "%2500", ";x=1%2F"} { // to one server behind another
		out = append(out, path+more)
	}
	return append(out, path[:last]+"%252F"+path[last+1:], path[:last]+"%25255C"+path[last+1:]+"/")
}

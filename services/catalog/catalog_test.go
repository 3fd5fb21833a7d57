package catalog_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// load parses the whole catalogue and compiles it together.
func load(t testing.TB) *services.Set {
	t.Helper()
	var all []*services.Service
	for _, name := range catalog.Names() {
		all = append(all, read(t, name))
	}
	set, err := services.NewSet(all)
	if err != nil {
		t.Fatalf("the catalogue does not compile together:\n%v", err)
	}
	return set
}

// read parses one file, with its variables filled in as whoever installs it would.
func read(t testing.TB, name string) *services.Service {
	t.Helper()
	s, err := services.Parse(name+".yaml", file(t, name))
	if err != nil {
		t.Fatalf("%s:\n%v", name, err)
	}
	if s.Name != name {
		t.Errorf("%s.yaml is the service %s", name, s.Name)
	}
	return s
}

// overHTTP are the services that a proxy can see.
func overHTTP(set *services.Set) []*services.Service {
	var out []*services.Service
	for _, s := range set.Services() {
		if s.Adapter == "http" {
			out = append(out, s)
		}
	}
	return out
}

// file is the text of a service whose variables have values.
func file(t testing.TB, name string) []byte {
	t.Helper()
	data, err := catalog.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	site := "acme"
	if name == "datadog" {
		site = "datadoghq.com"
	}
	return []byte(strings.ReplaceAll(string(data), "{site}", site))
}

// service returns one service of the catalogue.
func service(t *testing.T, set *services.Set, name string) *services.Service {
	t.Helper()
	s, ok := set.Service(name)
	if !ok {
		t.Fatalf("no service %s", name)
	}
	return s
}

// methods are those an action takes, from its routes.
func methods(s *services.Service, action *runtime.Action) []string {
	for i := range s.Routes {
		if s.Routes[i].Action == string(action.Ref) {
			return s.Routes[i].Methods
		}
	}
	return nil
}

func catchAll(action *runtime.Action) bool { return strings.HasSuffix(action.HTTP.Path, "**") }

// Editors find the schema by the first line.
func TestEveryFileNamesTheSchema(t *testing.T) {
	for _, name := range catalog.Names() {
		if line, _, _ := strings.Cut(string(file(t, name)), "\n"); line != "# yaml-language-server: $schema="+services.SchemaURL {
			t.Errorf("%s.yaml starts with %s", name, line)
		}
	}
}

func TestReadRefusesWhatIsNotThere(t *testing.T) {
	for _, name := range []string{"", "nope", "../catalog", "github.yaml", "testdata/everyday", `a\b`} {
		if data, err := catalog.Read(name); err == nil {
			t.Errorf("Read(%q) gave %d bytes", name, len(data))
		}
	}
	if names := catalog.Names(); !slices.IsSorted(names) || !slices.Contains(names, "github") {
		t.Errorf("names are %v", names)
	}
}

// Whatever a program sends to a host of a service is an action: of that service
// below its own prefixes, and of some service everywhere else.
func TestEveryHostIsCovered(t *testing.T) {
	set := load(t)
	random := rand.New(rand.NewPCG(1, 2))
	for _, s := range overHTTP(set) {
		for _, authority := range s.Authorities {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
				for range 50 {
					covers(t, set, authority, method, randomPath(random), owner(set, authority))
				}
			}
			for _, a := range s.Actions {
				if catchAll(a) {
					covers(t, set, authority, a.HTTP.Method, base(a)+hole.ReplaceAllString(strings.TrimSuffix(a.HTTP.Path, "/**"), "z7")+randomPath(random), s.Name)
				}
			}
		}
	}
}

func covers(t *testing.T, set *services.Set, authority, method, target, want string) {
	t.Helper()
	in := classifier.Input{Scheme: "https", Authority: authority, Method: method, Target: target, Header: http.Header{}}
	m, err := set.Table().Match(in)
	if err != nil || m.Service != want || m.Action == "" {
		t.Errorf("%s https://%s%s is %q of %q, not of %q: %v", method, authority, target, m.Action, m.Service, want, err)
	}
}

// owner is the service that covers what no other has of a host.
func owner(set *services.Set, authority string) string {
	for _, s := range overHTTP(set) {
		for _, a := range s.Actions {
			if slices.Contains(s.Authorities, authority) && a.HTTP.Path == "/**" && base(a) == "" {
				return s.Name
			}
		}
	}
	return ""
}

// base is the path of an action's base_url.
func base(a *runtime.Action) string {
	if parts := strings.SplitN(a.HTTP.BaseURL, "/", 4); len(parts) == 4 {
		return "/" + parts[3]
	}
	return ""
}

// Every service has the three of them, and their risk is that of their method.
func TestEveryServiceHasItsCatchAlls(t *testing.T) {
	for _, s := range overHTTP(load(t)) {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			if !slices.ContainsFunc(s.Actions, func(a *runtime.Action) bool { return catchAll(a) && slices.Contains(methods(s, a), method) }) {
				t.Errorf("%s: no catch-all takes %s", s.Name, method)
			}
		}
	}
}

// Each service loads alone, as most homes have them.
func TestEachServiceLoadsAlone(t *testing.T) {
	for _, name := range catalog.Names() {
		if _, err := services.NewSet([]*services.Service{read(t, name)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheCatalogueIsLarge(t *testing.T) {
	set, typed := load(t), 0
	for _, s := range overHTTP(set) {
		for _, a := range s.Actions {
			if !catchAll(a) {
				typed++
			}
		}
	}
	if n := len(overHTTP(set)); n < 40 || typed < 1200 {
		t.Errorf("%d services with %d typed actions: some are gone", n, typed)
	}
	if n := len(set.Services()) - len(overHTTP(set)); n < 10 {
		t.Errorf("%d services of programs: some are gone", n)
	}
}

func randomPath(random *rand.Rand) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCXYZ0123456789._~-"
	var b strings.Builder
	for range 1 + random.IntN(6) {
		b.WriteString("/z")
		for range random.IntN(12) {
			b.WriteByte(letters[random.IntN(len(letters))])
		}
	}
	return b.String()
}

func TestCatchAlls(t *testing.T) {
	worst := map[string]runtime.Risk{"GET": runtime.RiskLow, "POST": runtime.RiskMedium, "DELETE": runtime.RiskHigh}
	for _, s := range overHTTP(load(t)) {
		for _, a := range s.Actions {
			if !catchAll(a) || a.HTTP.Path != "/**" {
				continue
			}
			if want := worst[a.HTTP.Method]; a.Risk != want {
				t.Errorf("%s is %s, want %s", a.Ref, a.Risk, want)
			}
			if a.Idempotent != (a.HTTP.Method == "GET") {
				t.Errorf("%s: idempotent is %v", a.Ref, a.Idempotent)
			}
		}
	}
}

// verbs are the first words that names of actions have: a verb, or what the
// action itself is called everywhere (whoami, graphql).
const verbs = "accept activate add aggregate allow answer api append approve archive ask assign audit auth authorize ban batch begin buy bypass call cancel capture change check claim clear clone close compact compare complete confirm connect convert copy count create deactivate delete detach disable disconnect discover dispatch downgrade edit embed empty enable end erase exchange execute expire export fetch filter finalize find finish follow forward generate get grant graphql import initialize install introspect invite join leave lfs link list load login lookup make manage merge migrate modify move mute onboard open patch pause pay pin ping play post predict promote protect prune publish purge push put query quick record refresh refund register reject remove rename renew reopen replace request rerun resend reset restrict resume retry reverse review revoke roll rollback rotate run schedule scope search send set share snooze start stream submit suspend sync transfer transition trash trust unban unblock uninstall update upgrade upload validate verify void watch web whoami write"

// levels are the risks in rising order.
func levels() []runtime.Risk {
	return []runtime.Risk{runtime.RiskLow, runtime.RiskMedium, runtime.RiskHigh, runtime.RiskCritical}
}

func above(risk, limit runtime.Risk) bool {
	return slices.Index(levels(), risk) > slices.Index(levels(), limit)
}

// The rules of style that a reader of one file expects of the next.
func TestHouseStyle(t *testing.T) {
	for _, s := range overHTTP(load(t)) {
		seen := map[string]string{}
		for _, a := range s.Actions {
			if first, _, _ := strings.Cut(a.Name, "-"); !slices.Contains(strings.Fields(verbs), first) {
				t.Errorf("%s: start the name with a verb (or add yours to the list)", a.Ref)
			}
			if d := a.Description; d == "" || strings.HasSuffix(d, ".") || d[0] < 'A' || d[0] > 'Z' || len(d) > 100 {
				t.Errorf("%s: description %q is not one short phrase with a capital and no full stop", a.Ref, d)
			}
			if a.HTTP.Method == "DELETE" && !above(a.Risk, runtime.RiskMedium) {
				t.Errorf("%s deletes at risk %s", a.Ref, a.Risk)
			}
			if a.Idempotent && a.HTTP.Method != "GET" && above(a.Risk, runtime.RiskLow) {
				t.Errorf("%s is %s and called idempotent: a retry of it needs more thought", a.Ref, a.Risk)
			}
			if a.GrantsAccess && strings.Contains(a.HTTP.Path, ":int}") {
				t.Errorf("%s hands out access, and a number its upstream reads otherwise than we do would slip past {…:int}", a.Ref)
			}
			for _, m := range methods(s, a) {
				shape := m + " " + shapeOf(a.HTTP.Path) + fmt.Sprint(a.HTTP.Query, discriminators(s, a))
				if first, twice := seen[shape]; twice {
					t.Errorf("%s and %s are the same request", first, a.Ref)
				}
				seen[shape] = string(a.Ref)
			}
		}
	}
}

// unrepeatable are the actions with GET that are not the same when they are done
// twice, each with the reason.
func unrepeatable() map[string]string {
	return map[string]string{
		"openai.open-realtime": "it opens a conversation, and not a page",
		"slack.api-call":       "every method of Slack can be called by GET, those that write too",
		"telegram.call-method": "every method of Telegram can be called by GET, those that write too",
		"telegram.get-updates": "an offset takes what came before it away",
	}
}

// A read may be repeated, however much its answer gives away: the risk says that.
func TestReadsAreIdempotent(t *testing.T) {
	not, reads := unrepeatable(), 0
	for _, s := range overHTTP(load(t)) {
		for _, a := range s.Actions {
			if a.HTTP.Method != "GET" {
				continue
			}
			reads++
			why, exempt := not[string(a.Ref)]
			delete(not, string(a.Ref))
			switch {
			case !a.Idempotent && !exempt:
				t.Errorf("%s reads and is not idempotent: say so, or say in unrepeatable why not", a.Ref)
			case a.Idempotent && exempt:
				t.Errorf("%s is idempotent: take it off the list (%s)", a.Ref, why)
			}
		}
	}
	for ref := range not {
		t.Errorf("%s is on the list and does not exist", ref)
	}
	if reads < 400 {
		t.Errorf("only %d reads were looked at", reads)
	}
}

var hole = regexp.MustCompile(`\{[^}]*\}`)

// shapeOf is a path with the names of its placeholders taken out.
// Twilio's may end in .json, which is part of the segment.
func shapeOf(path string) string {
	return strings.ReplaceAll(hole.ReplaceAllString(path, "{}"), "{}.json", "{}")
}

// discriminators are what else than method and path makes an action.
func discriminators(s *services.Service, a *runtime.Action) string {
	for i := range s.Routes {
		if m := s.Routes[i].Match; s.Routes[i].Action == string(a.Ref) {
			text, _ := json.Marshal(m) // maps of strings
			return string(text)
		}
	}
	return ""
}

// No placeholder may belong to two services, and each must be told from a key
// at a glance.
func TestPlaceholders(t *testing.T) {
	owner := map[string]string{}
	for _, s := range overHTTP(load(t)) {
		for _, value := range slices.Sorted(maps.Values(s.Placeholders)) {
			if !strings.Contains(value, "kimbap") {
				t.Errorf("%s: the placeholder %s could be somebody's key", s.Name, value)
			}
			if other := owner[value]; other != "" && other != s.Name {
				t.Errorf("%s and %s share the placeholder %s", other, s.Name, value)
			}
			owner[value] = s.Name
		}
	}
}

// accepted are the forms that programs want a key in before they send anything.
func accepted() map[string]string {
	return map[string]string{
		"CLOUDFLARE_API_TOKEN": `^[A-Za-z0-9_-]{40}$`,                // terraform, cf-terraforming
		"VERCEL_TOKEN":         `^\w+$`,                              // vercel
		"SENDGRID_API_KEY":     `^SG\.`,                              // @sendgrid/client warns otherwise
		"SLACK_BOT_TOKEN":      `^xoxb-`,                             // slack_bolt
		"STRIPE_API_KEY":       `^(sk|rk)_(test|live)_\w+$`,          // stripe
		"GEMINI_API_KEY":       `^AIza[0-9A-Za-z_-]{35}$`,            // older checks for Google's keys
		"AIRTABLE_API_KEY":     `^pat\w{14}\.\w+$`,                   // airtable's own form
		"DISCORD_TOKEN":        `^[\w-]{24,}\.[\w-]{6}\.[\w-]{27,}$`, // hikari, JDA
		"RESEND_API_KEY":       `^re_\w{8}_\w+$`,
		"NOTION_TOKEN":         `^(ntn|secret)_\w+$`,
		"LINEAR_API_KEY":       `^lin_api_\w+$`,
		"GITHUB_TOKEN":         `^gh[pos]_\w+$`,
		"GITLAB_TOKEN":         `^glpat-[\w-]{20,}$`,
		"OPENAI_API_KEY":       `^sk-`,
		"ANTHROPIC_API_KEY":    `^sk-ant-`,
		"FIGMA_TOKEN":          `^figd_\w+$`,
		"DD_APP_KEY":           `^ddpat_\w+$`,
		"HUBSPOT_ACCESS_TOKEN": `^pat-\w+-\w+$`,
		"TODOIST_API_TOKEN":    `^\w{40}$`,
		"TWILIO_AUTH_TOKEN":    `^\w{32}$`,
		"TWINE_PASSWORD":       `^pypi-[\w-]+$`,
		"ASANA_ACCESS_TOKEN":   `^2/\d+/\d+:\w+$`,
	}
}

func TestProgramsAcceptTheirPlaceholders(t *testing.T) {
	want := accepted()
	for _, s := range overHTTP(load(t)) {
		for name, value := range s.Placeholders {
			pattern, known := want[name]
			delete(want, name)
			if known && !regexp.MustCompile(pattern).MatchString(value) {
				t.Errorf("%s: programs refuse %s=%s, which is not like %s", s.Name, name, value, pattern)
			}
		}
	}
	for name := range want {
		t.Errorf("no service has a placeholder for %s", name)
	}
}

// A new key is tried with the first low-risk GET that needs no argument: it
// must be one that fails without a key and costs nothing.
func TestTheFirstReadTellsWhetherAKeyWorks(t *testing.T) {
	want := map[string]string{
		"airtable": "whoami", "anthropic": "list-models", "asana": "get-me", "cloudflare": "verify-token",
		"confluence": "get-current-user", "datadog": "get-current-user", "demo": "whoami", "discord": "get-me", "figma": "get-me",
		"gemini": "list-models", "github": "get-user", "gitlab": "get-user", "gmail": "get-profile", "google": "get-user-info",
		"google-calendar": "list-calendars", "hubspot": "get-account", "jira": "get-myself", "linear": "", "notion": "get-me", "npm": "whoami",
		"openai": "list-models", "pagerduty": "get-me", "resend": "list-domains", "sendgrid": "get-profile", "sentry": "list-organizations",
		"slack": "auth-test", "stripe": "get-balance", "todoist": "get-user", "twilio": "", "vercel": "get-user",
		// These share another service's key, have no key, read by POST alone, or read only tokens without an argument (twilio).
		"github-git": "", "gitlab-git": "", "google-sheets": "", "google-drive": "list-files", "pypi": "",
		"google-login": "get-token-info", "claude-code": "", "codex": "list-models", "gemini-cli": "get-settings",
		"telegram": "get-me", "pypi-index": "list-packages",
	}
	for _, s := range overHTTP(load(t)) {
		first := ""
		for _, a := range s.Actions {
			needs := slices.ContainsFunc(a.Params, func(p runtime.Param) bool { return p.Required })
			if a.Risk == runtime.RiskLow && a.HTTP.Method == "GET" && !catchAll(a) && !needs {
				first = a.Name
				break
			}
		}
		if expected, known := want[s.Name]; !known || first != expected {
			t.Errorf("%s: a new key is tried with %q, want %q", s.Name, first, expected)
		}
	}
}

// Stripe reads forms under /v1 and JSON under /v2.
func TestStripeIsSentWhatItReads(t *testing.T) {
	for _, a := range service(t, load(t), "stripe").Actions {
		body := a.HTTP.BodyType
		switch {
		case catchAll(a) || a.HTTP.Method != "POST" || body == "multipart":
		case strings.HasPrefix(a.HTTP.Path, "/v2/") && body == "form":
			t.Errorf("%s sends a form to %s, which reads JSON", a.Ref, a.HTTP.Path)
		case strings.HasPrefix(a.HTTP.Path, "/v1/") && body != "form":
			t.Errorf("%s sends %q to %s, which reads forms", a.Ref, body, a.HTTP.Path)
		}
	}
}

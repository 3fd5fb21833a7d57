package catalog_test

import (
	"math/rand/v2"
	"net/http"
	"reflect"
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
		"github-git": "", "gitlab-git": "", "google-sheets": "", "google-storage": "", "google-drive": "list-files", "pypi": "",
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

func TestTheHeadsAreThoseOfTheServices(t *testing.T) {
	whole, err := catalog.Services()
	if err != nil {
		t.Fatal(err)
	}
	heads, err := catalog.Heads()
	if err != nil || len(heads) != len(whole) {
		t.Fatalf("%d heads of %d services, %v", len(heads), len(whole), err)
	}
	for i, s := range whole {
		if len(s.Actions) == 0 || !reflect.DeepEqual(*heads[i], s.Head) {
			t.Errorf("%s: the head is %+v, of the service %+v", s.Name, *heads[i], s.Head)
		}
	}
}

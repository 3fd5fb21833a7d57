package catalog_test

import (
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
func load(t *testing.T) *services.Set {
	t.Helper()
	var all []*services.Service
	for _, name := range catalog.Names() {
		data, err := catalog.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := services.Parse(name+".yaml", data)
		if err != nil {
			t.Fatalf("%s:\n%v", name, err)
		}
		if s.Name != name {
			t.Errorf("%s.yaml is the service %s", name, s.Name)
		}
		all = append(all, s)
	}
	set, err := services.NewSet(all)
	if err != nil {
		t.Fatalf("the catalogue does not compile together:\n%v", err)
	}
	return set
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

// Whatever a program sends to a host of a service is an action of that service.
func TestEveryHostIsCovered(t *testing.T) {
	set := load(t)
	random := rand.New(rand.NewPCG(1, 2))
	for _, s := range set.Services() {
		for _, authority := range s.Authorities {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
				for range 50 {
					target := randomPath(random)
					in := classifier.Input{Scheme: "https", Authority: authority, Method: method, Target: target, Header: http.Header{}}
					m, err := set.Table().Match(in)
					if err != nil || m.Service != s.Name || m.Action == "" {
						t.Errorf("%s https://%s%s is %q of %q, %v", method, authority, target, m.Action, m.Service, err)
					}
				}
			}
		}
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
	for _, s := range load(t).Services() {
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
const verbs = "accept activate add allow api approve archive ask assign audit auth cancel capture change check compare complete confirm connect convert count create deactivate delete discover dispatch exchange fetch find get graphql grant invite join lfs list login merge modify open pay ping post publish push put quick remove rerun reset reverse review revoke rotate schedule scope search set share start transfer trust uninstall update upload web whoami write"

// levels are the risks in rising order.
func levels() []runtime.Risk {
	return []runtime.Risk{runtime.RiskLow, runtime.RiskMedium, runtime.RiskHigh, runtime.RiskCritical}
}

func above(risk, limit runtime.Risk) bool {
	return slices.Index(levels(), risk) > slices.Index(levels(), limit)
}

// The rules of style that a reader of one file expects of the next.
func TestHouseStyle(t *testing.T) {
	for _, s := range load(t).Services() {
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
				shape := m + " " + shapeOf(a.HTTP.Path) + fmt.Sprint(a.HTTP.Query)
				if first, twice := seen[shape]; twice && !strings.HasPrefix(a.Name, "graphql-") {
					t.Errorf("%s and %s are the same request", first, a.Ref)
				}
				seen[shape] = string(a.Ref)
			}
		}
	}
}

var hole = regexp.MustCompile(`\{[^}]*\}`)

// shapeOf is a path with the names of its placeholders taken out.
func shapeOf(path string) string { return hole.ReplaceAllString(path, "{}") }

// No placeholder may belong to two services, and each must be told from a key
// at a glance.
func TestPlaceholders(t *testing.T) {
	owner := map[string]string{}
	for _, s := range load(t).Services() {
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

// A new key is tried with the first low-risk GET that needs no argument: it
// must be one that fails without a key and costs nothing.
func TestTheFirstReadTellsWhetherAKeyWorks(t *testing.T) {
	want := map[string]string{
		"anthropic": "list-models", "demo": "whoami", "github": "get-user", "npm": "whoami",
		"openai": "list-models", "slack": "auth-test", "stripe": "get-balance",
		"github-git": "", // shares github's key
	}
	for _, s := range load(t).Services() {
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

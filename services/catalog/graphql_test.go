package catalog_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// word finds where a name in camel case has a new word.
var word = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// mergeRequest finds the thing, which is no merge.
var mergeRequest = regexp.MustCompile(`(?i)\bmerge requests?\b`)

// takes finds mutations that take something away, in "words of the name".
var takes = regexp.MustCompile(`(?i)\b(delete|remove|destroy|purge|revoke|archive|disable|suspend|retire|disconnect|dismiss|unlink|leave|merge)\b`)

// gives finds mutations that may hand out lasting power.
var gives = regexp.MustCompile(`(?i)\b(invite|invitation|webhook|token|secret|credential|oauth|membership|member|role|grant|admin(istrator)?|saml|scim|passkey|identity|domain|auth|permission|collaborators|connect|setting|ip allow|migration|share|application)\b`)

// mutations reads testdata/graphql/NAME.txt: names of root fields. Its first line
// says where they come from.
func mutations(t *testing.T, name string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "graphql", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if !strings.HasPrefix(lines[0], "# ") || !strings.Contains(lines[0], "version") || len(lines) < 200 {
		t.Fatalf("%s.txt does not say what it is from, or is not whole", name)
	}
	return lines[1:]
}

// Every mutation of a schema that takes something away is above medium, and every
// one that hands out power is a grant, whatever its document is called; what is
// not stands in testdata/graphql/exempt.txt with the reason.
func TestMutationsAreKnownByTheirRootFields(t *testing.T) {
	set, exempt := load(t), reasons(t, filepath.Join("graphql", "exempt.txt"))
	for _, name := range []string{"github", "gitlab", "linear"} {
		s := service(t, set, name)
		for _, field := range mutations(t, name) {
			words := word.ReplaceAllString(field, "$1 $2")
			words = mergeRequest.ReplaceAllString(words, "")
			a := mutation(t, set, s, "mutation Harmless{x:"+field+"{id}}")
			plain := mutation(t, set, s, "mutation Harmless{addStar{id}...F}fragment F on Mutation{"+field+"{id}}")
			if a == nil || a != plain {
				t.Errorf("%s %s is %s, and in a fragment %s", name, field, describe(a), describe(plain))
				continue
			}
			low := !a.GrantsAccess && gives.MatchString(words)
			if takes.MatchString(words) { // what takes access away hands out none
				low = !above(a.Risk, runtime.RiskMedium)
			}
			why, known := exempt[name+" "+field]
			delete(exempt, name+" "+field)
			switch {
			case low && !known:
				t.Errorf("%s %s is %s: name it in the fields of one that is worse, or say in testdata/graphql/exempt.txt why not", name, field, describe(a))
			case !low && known:
				t.Errorf("%s %s is %s: take it off the exemptions (%s)", name, field, describe(a), why)
			}
		}
	}
	for line, why := range exempt {
		t.Errorf("the exemption of %s is for nothing (%s)", line, why)
	}
}

func mutation(t *testing.T, set *services.Set, s *services.Service, document string) *runtime.Action {
	t.Helper()
	body, err := classifier.ParseBody("application/json", "", []byte(`{"query":"`+document+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	target := "/graphql"
	if s.Name == "gitlab" {
		target = "/api/graphql"
	}
	m, err := set.Table().Match(classifier.Input{Scheme: "https", Authority: s.Authorities[0], Method: "POST", Target: target, Header: http.Header{}, Body: body})
	if err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	a, _ := set.Action(m.Action)
	return a
}

// A pattern that finds nothing is misspelt, or was for something that is gone.
func TestFieldPatternsFindSomething(t *testing.T) {
	set := load(t)
	for _, name := range []string{"github", "gitlab", "linear"} {
		all := mutations(t, name)
		for _, r := range service(t, set, name).Routes {
			if r.Match.GraphQL == nil {
				continue
			}
			for _, pattern := range r.Match.GraphQL.Fields {
				if strings.HasPrefix(pattern, "**.") {
					continue // of any type; guarded.txt has a document for each
				}
				glob := regexp.MustCompile("^" + strings.ReplaceAll(strings.TrimPrefix(pattern, "!"), "*", ".*") + "$")
				found := false
				for _, field := range all {
					found = found || glob.MatchString(field)
				}
				if !found && pattern != "apiKey*" { // of Linear's own pages, which the client does not have
					t.Errorf("%s: no mutation of the schema is %s", r.Action, pattern)
				}
			}
		}
	}
}
